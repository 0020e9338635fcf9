"""Measure what an installed torch can do, and hold that against what is claimed of it."""
