"""Miniature of torch.cuda, which on ROCm speaks to HIP."""

from torch import _C


def _require_rocm():
    if not hasattr(_C, "_cuda_getDeviceCount"):
        raise RuntimeError("this miniature torch was built without ROCm (torch.version.hip is None)")


def device_count():
    """How many devices the HIP runtime sees; 0 for a CPU-only build."""
    return _C._cuda_getDeviceCount() if hasattr(_C, "_cuda_getDeviceCount") else 0


def is_available():
    return device_count() > 0


def get_arch_list():
    """The targets this build was compiled for. (Real PyTorch answers [] where there is no GPU.)"""
    return _C._cuda_getArchFlags().split() if hasattr(_C, "_cuda_getArchFlags") else []


def get_device_name(device=0):
    _require_rocm()
    return _C._cuda_getDeviceName(device)


def synchronize():
    _require_rocm()
    _C._cuda_synchronize()
