"""Files by their digest: what they say of themselves, and how they get into a store."""
