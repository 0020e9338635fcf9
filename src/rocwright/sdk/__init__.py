"""ROCm in, Python packages out: fetch, lay out, plan, write."""
