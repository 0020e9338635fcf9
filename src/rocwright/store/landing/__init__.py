"""The page for people: which line installs what on which GPU, and only what is really there."""
