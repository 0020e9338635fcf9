"""Another version for finished wheels and sdists, without building them again: only texts change."""
