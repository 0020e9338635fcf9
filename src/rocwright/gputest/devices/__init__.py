"""Which GPUs there are, and which of them the tests use."""
