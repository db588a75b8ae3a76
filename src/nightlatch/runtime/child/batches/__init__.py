"""The driver that starts a batch's items."""
