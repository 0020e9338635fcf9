"""Wheels with device code into host and device wheels, and back."""
