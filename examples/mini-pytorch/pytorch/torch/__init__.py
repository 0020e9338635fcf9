"""Miniature of PyTorch: a stand-in for tests and demonstrations of rocwright. This is not PyTorch."""

try:
    from . import _rocm_init
except ImportError:  # not ModuleNotFoundError: `from . import name` raises its parent for a missing module
    pass  # built without ROCm wheels
else:
    _rocm_init.initialize()
    del _rocm_init

# First and alone: when the source tree itself is imported, the error names this missing module.
from . import _C  # noqa: I001 - the comment above says why it is first
from . import cuda, version
from ._launch import LaunchResult, launch_result, mini_launch
from ._tensor import Tensor, add, mm, tensor
from .version import __version__

__all__ = [
    "_C",
    "LaunchResult",
    "Tensor",
    "__version__",
    "add",
    "cuda",
    "launch_result",
    "mini_launch",
    "mm",
    "tensor",
    "version",
]
