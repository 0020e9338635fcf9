"""Decides which commit of which repository is meant."""
