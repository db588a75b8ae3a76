"""Which holder may act, and what is already done? Leases, done keys, jobs' rows, the gate registry.

Knows nothing of gates, runs or commands; imports `core`, `system` and `database`.
"""
