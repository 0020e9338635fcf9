"""Carries plans out."""
