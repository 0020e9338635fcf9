"""What set a run off decides what it does: events, labels, changed files, runners, earlier runs."""
