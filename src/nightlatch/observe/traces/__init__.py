"""Runs as traces: spans are built from the journal by a reader and sent by OTLP; no run waits for that."""
