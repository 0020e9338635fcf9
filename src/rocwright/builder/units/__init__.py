"""Translation units: what each cost, how many at once, what a cache saved."""
