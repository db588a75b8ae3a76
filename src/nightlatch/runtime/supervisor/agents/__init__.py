"""Agents that a run's command launched at a vendor, in the supervisor: recorded, held in every cap, ended by handle."""
