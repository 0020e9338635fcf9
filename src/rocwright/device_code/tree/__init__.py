"""Device code of libraries and ROCm trees: split, merge, list and extract."""
