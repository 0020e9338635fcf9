"""Build, check, split, index, test and promote PyTorch and ROCm wheels for AMD GPUs."""

__version__ = "0.1.0"
