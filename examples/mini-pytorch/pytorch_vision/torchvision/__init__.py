"""Miniature of torchvision: a stand-in for tests and demonstrations of rocwright. Not torchvision."""

from importlib.metadata import version as _version

import torch  # noqa: F401 - loads ROCm and the libraries that the extension needs

from . import ops
from .ops import mini_launch

__version__ = _version("torchvision")
__all__ = ["__version__", "mini_launch", "ops"]
