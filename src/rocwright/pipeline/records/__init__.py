"""What the store says of a run: its plan, and how its cells ended."""
