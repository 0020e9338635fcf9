"""Read the sources of the tables again: what they say now, what the tables lack, and how that is written."""
