"""Wheels: names, metadata, RECORD, writing and reading."""
