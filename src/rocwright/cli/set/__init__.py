"""`rocwright set`: record sets of wheels, say what is known about them, list them in channels."""
