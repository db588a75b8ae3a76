"""What the supervisor, its child and the caller share; imports none of them."""
