"""Turns refs and pins into a lock, the lock into a checkout, the checkout into a hipified tree."""
