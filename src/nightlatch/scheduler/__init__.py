"""Due slots → claims → runs. Knows rows, clocks and processes; what a due slot becomes is decided in core/slots.py, and
what a run does in runtime/."""
