"""`rocwright pipeline`: the definition of builds, tests and releases; planned, run, rendered."""
