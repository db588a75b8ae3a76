"""Agents that a run's command launches at a vendor, in the supervisor: records, allowances, and the end by handle."""
