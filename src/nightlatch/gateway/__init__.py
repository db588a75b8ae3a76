"""The metered way to model APIs: bound, hold, forward, settle, refuse. A process of its own, beside a run's command.

It imports core and system only; what it holds and settles goes through a pipe to the run's supervisor.
"""
