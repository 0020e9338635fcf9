"""Steps that need each other: done in order, several at once, and never again while nothing changed."""
