"""A checkout as a tree of repositories: what lies there, and how it moves."""
