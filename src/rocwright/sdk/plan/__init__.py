"""Decide what every Python package of a ROCm holds; nothing is written here."""
