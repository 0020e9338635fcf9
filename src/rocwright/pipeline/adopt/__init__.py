"""Adopt a set from an index that exists: found by metadata, judged, recorded."""
