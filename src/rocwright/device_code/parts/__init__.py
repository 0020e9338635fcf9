"""Wheels whose device code was compiled in parts, on several machines, into one wheel."""
