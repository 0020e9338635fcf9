"""`rocwright test`: test wheels on the GPUs of this machine, say what was seen, look after skip entries."""
