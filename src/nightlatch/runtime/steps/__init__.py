"""Steps, maps and runs inside a run: what is recorded, and by whom."""
