"""`rocm-sdk test --device`: every visible GPU computes, each in a process of its own."""

import os

from . import _detect, _dist, _gpus, _libraries
from ._checks import check, run_worker

SECONDS = 120
STEPS = ("memory", "kernel", "gemm")


def _gpu_checks():
    gpus, problems = _gpus.visible()
    if not gpus:
        hidden = _detect.scan(_detect.NODES)[0]
        cause = "; ".join(problems) or (
            "all GPUs are hidden by the environment" if hidden else "there is none"
        )
        yield check("device", "skipped", "no AMD GPU: " + cause)
        return
    closed = [path for path in _device_files(gpus) if not _opens(path)]
    if closed:
        fix = "add this user to the group that owns it (render or video), or give the container the device"
        yield check("device:access", "failed", "no permission for " + " ".join(closed), fix)
        return
    yield check("device:access", "passed")
    try:
        libraries = {"amdhip64": _libraries.find("amdhip64")}
    except (ImportError, OSError) as error:
        yield check("device:runtime", "failed", str(error))
        return
    for name in ("hiprtc", "hipblas"):
        try:
            libraries[name] = _libraries.find(name)
        except (ImportError, OSError):
            libraries[name] = None  # the worker skips what needs it
    yield _enumerate(gpus, libraries)
    served = _gpus.installed_targets()
    for gpu in gpus:
        yield from _one(gpu, libraries, served)


def _opens(path):
    """Whether the file of a device may be used: an emulator plays it for who opens it, not for who asks."""
    if os.access(path, os.R_OK | os.W_OK):
        return True
    try:
        os.close(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))
    except OSError:
        return False
    return True


def _device_files(gpus):
    yield _detect.KFD
    for gpu in gpus:
        path = os.path.join(_detect.RENDER, "renderD{}".format(gpu["render_minor"]))
        if gpu["render_minor"] and os.path.exists(path):
            yield path


def _enumerate(gpus, libraries):
    """HIP sees what the driver lists."""
    told = run_worker("_device_worker", {"libraries": libraries}, ("enumerate",), SECONDS)["enumerate"]
    listed = [gpu["target"] for gpu in gpus]
    if told["verdict"] != "passed":
        return check("device:enumerate", "failed", told["cause"])
    seen = [_detect.base(target) for target in told["targets"]]
    if seen == listed:
        return check("device:enumerate", "passed")
    cause = "HIP sees {}, the driver lists {}".format(" ".join(seen) or "no GPU", " ".join(listed))
    return check(
        "device:enumerate", "failed", cause, "see the kernel's log: dmesg | grep -i -e kfd -e amdgpu"
    )


def _one(gpu, libraries, served):
    """The checks of one GPU, ids `device:<index>:<step>`."""
    name = "device:{}:".format(gpu["index"])
    if _dist.directory("libraries") is None:
        yield check(
            name + "package", "skipped", "no libraries package is installed", _dist.pip_hint("libraries")
        )
    elif gpu["target"] in served:
        yield check(name + "package", "passed")
    else:
        cause = "the installed libraries have no device code for {}".format(gpu["target"])
        yield check(name + "package", "failed", cause, _gpus.advice(gpu["target"])[1])
    environ = dict(os.environ, ROCR_VISIBLE_DEVICES=str(gpu["physical"]))
    for variable in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        environ.pop(variable, None)  # these would count among the one GPU that is left
    told = run_worker("_device_worker", {"libraries": libraries, "steps": STEPS}, STEPS, SECONDS, environ)
    for step in STEPS:
        yield check(name + step, told[step]["verdict"], told[step]["cause"])


PARTS = (_gpu_checks,)
