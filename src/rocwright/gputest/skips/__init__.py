"""Skip entries: which hold here, what they match, whether they are still right."""
