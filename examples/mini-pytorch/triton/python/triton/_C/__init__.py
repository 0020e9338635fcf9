"""Miniature of triton._C."""
