"""Databases: transactions, statements, a clock. Knows no table's meaning; imports `core` and `system`."""
