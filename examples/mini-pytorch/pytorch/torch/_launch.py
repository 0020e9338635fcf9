"""mini_launch: one kernel through the host half of the fat binary. Exists in the miniature only."""

from typing import NamedTuple

from . import _C


class LaunchResult(NamedTuple):
    """What a kernel launch answered: HIP's error code and its name, and the result if the kernel ran."""

    kernel: str
    code: int
    name: str
    values: list | None


def launch_result(kernel, answer):
    """A LaunchResult from an extension module's (code, name, values)."""
    return LaunchResult(kernel, *answer)


def mini_launch(kernel="saxpy"):
    """Launches "fill", "saxpy" or "mm" on a small fixed problem and waits for it.

    Without a GPU the launch is made all the same and HIP's own error comes back, such as
    (100, "hipErrorNoDevice") or (101, "hipErrorInvalidDevice").
    """
    if not hasattr(_C, "_cuda_miniLaunch"):
        raise RuntimeError("this miniature torch was built without ROCm (torch.version.hip is None)")
    return launch_result(kernel, _C._cuda_miniLaunch(kernel))
