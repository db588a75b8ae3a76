"""Alerts: rules over the journal, an outbox, and transports. `serve`, `tick`, and a process that a finished run leaves
behind send them; no run waits for that."""
