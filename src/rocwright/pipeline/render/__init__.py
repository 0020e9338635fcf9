"""A plan as workflows, job scripts and makefiles: written by this room, never edited."""
