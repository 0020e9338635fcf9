"""The pipeline's own steps. The demo, and later CI and release, are graphs of these."""
