"""Search the sets of a channel for the first bad one: decided purely, tried in fresh environments."""
