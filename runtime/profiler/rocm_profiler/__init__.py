"""The pure package of the ROCm profiler distribution; its files live in the package beside it."""


def __getattr__(name):
    # Only the version is looked up, in the package with the files, so that importing this one costs nothing.
    if name == "__version__":
        return __import__("_" + __name__).__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
