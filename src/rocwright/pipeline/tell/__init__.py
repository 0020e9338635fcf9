"""What a run tells people: summaries, and a page."""
