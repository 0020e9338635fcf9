"""Bring back what of a damaged store can be had, and take out what cannot."""
