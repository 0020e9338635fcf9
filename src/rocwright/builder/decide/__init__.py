"""Decides how a family is built: values only."""
