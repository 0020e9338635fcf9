"""Packages and artifacts of single runs: uploaded, listed on a flat page, fetched again."""
