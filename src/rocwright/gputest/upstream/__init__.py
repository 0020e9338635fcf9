"""PyTorch's own test/run_test.py: configurations, checkout, commands."""
