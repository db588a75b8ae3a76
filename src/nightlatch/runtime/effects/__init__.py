"""What is done to the outside world once: from the command line and from a Python job."""
