"""Run tests in worker processes, so that a crash, a hang or a fault costs one test."""
