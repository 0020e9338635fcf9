"""The documents that rocwright works by, row by row."""
