"""Scripts that run in the environment that is looked at: standard library only, for Python 3.8 and later."""
