"""Prove that pip and uv resolve and install a set: what to install is planned, then done, then judged by rules."""
