"""Sets in a store: recorded, staged, promoted, compared, signed, verified."""
