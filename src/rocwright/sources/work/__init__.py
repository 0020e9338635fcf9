"""What becomes of the user's own work."""
