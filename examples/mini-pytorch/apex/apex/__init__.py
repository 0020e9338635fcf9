"""Miniature of apex: a stand-in for tests and demonstrations of rocwright. Not apex."""

from array import array
from importlib.metadata import version as _version

import torch

try:
    import amp_C
except ModuleNotFoundError:  # built without --cpp_ext and --cuda_ext, as upstream's default
    amp_C = None  # noqa: N816 - the real module's name

__version__ = _version("apex")
__all__ = ["__version__", "mini_launch", "multi_tensor_scale"]


def multi_tensor_scale(values, scale):
    """Each value times scale in float32, on the CPU; a list of floats for a list of numbers."""
    if amp_C is not None:
        return amp_C.multi_tensor_scale(values, scale)
    return array("f", [value * scale for value in array("f", values)]).tolist()


def mini_launch():
    """Launches the scaling kernel over [1, 2, 3, 4] with scale 0.25: a torch.LaunchResult."""
    if not hasattr(amp_C, "mini_launch"):
        raise RuntimeError("this miniature apex was built without --cuda_ext")
    return torch.launch_result("multi_tensor_scale", amp_C.mini_launch())
