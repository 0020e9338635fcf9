"""Whether a set may go on: a pure function of the set, what was said about it, and a policy."""
