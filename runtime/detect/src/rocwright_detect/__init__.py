"""Which AMD GPUs this machine has, and which lines install PyTorch for them. Standard library only."""

from ._install import lines
from ._machine import look

__all__ = ["__version__", "lines", "look"]
__version__ = "0.1.0"
