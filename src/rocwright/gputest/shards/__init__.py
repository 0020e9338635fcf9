"""Split test files into shards of equal time, by what they took before."""
