"""Patches on top of a checkout."""
