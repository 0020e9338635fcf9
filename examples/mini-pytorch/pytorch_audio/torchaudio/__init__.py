"""Miniature of torchaudio: a stand-in for tests and demonstrations of rocwright. Not torchaudio."""

from importlib.metadata import version as _version

import torch  # noqa: F401 - loads ROCm and the libraries that the extension needs

from . import functional
from .functional import mini_launch

__version__ = _version("torchaudio")
__all__ = ["__version__", "functional", "mini_launch"]
