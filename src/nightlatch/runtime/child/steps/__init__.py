"""Steps, maps and nested runs of a Python job."""
