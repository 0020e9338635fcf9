"""Brings commits from servers and keeps them in mirrors."""
