"""Where the ROCm to build against comes from, and what it has."""
