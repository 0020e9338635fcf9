"""A channel: a log of what was listed and withdrawn, and the pages that follow from it."""
