"""Builds of what stands on torch: sources and torch brought from where they are, handed to the builder."""
