"""Databases: transactions, statements, a clock. Does not know what the tables mean; imports `core` and `system`."""
