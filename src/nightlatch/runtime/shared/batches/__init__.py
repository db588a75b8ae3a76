"""A batch's items and templates."""
