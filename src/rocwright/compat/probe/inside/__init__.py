"""What runs beside torch, in the environment that is probed: standard library and torch only."""
