"""Adopt what exists: read any index by metadata, find the sets in it, and say where their files are."""
