"""Emulators of AMD GPUs: found, never bundled; what runs under them, and what its result proves."""
