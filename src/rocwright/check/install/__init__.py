"""Prove that pip and uv resolve and install a set: planned, then done, then judged by rules."""
