"""How a checkout gets to its commit."""
