"""What works with what, and whether this machine and environment are in order."""
