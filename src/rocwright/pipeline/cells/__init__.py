"""One cell on one machine: inputs out of the store, its step, its record; or all cells of a plan here."""
