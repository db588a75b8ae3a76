"""The metered way to model APIs: bound, hold, forward, settle, refuse. A separate process beside a run's command.

It imports core, system and one file of runtime/shared; it holds and settles through a pipe to the run's supervisor.
"""
