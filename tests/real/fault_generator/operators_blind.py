"""Ways to break a set, thought up without sight of any check."""
