"""Who may act, and what is already done? Leases, done keys, cursors, the gate registry.

Knows nothing of gates, runs or commands; imports `core`, `system` and `database`.
"""
