"""Effects: done once, probed, or in doubt."""
