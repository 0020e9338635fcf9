"""`rocwright wheel`: look into finished wheels, and take them apart."""
