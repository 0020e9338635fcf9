"""What stays in a store and for how long: pins, a plan of what goes, and its execution."""
