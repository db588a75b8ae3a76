"""The smallest store that keeps every promise, and stores that each break one."""
