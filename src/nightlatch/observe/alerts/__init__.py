"""Who hears of it: rules over the journal, an outbox, and transports. Sent by `serve`, `tick`, and a process that a
finished run leaves behind; never in the way of a run."""
