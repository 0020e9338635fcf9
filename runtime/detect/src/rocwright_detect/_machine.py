"""Look at this machine: Linux by its kernel driver, then by PCI; WSL and Windows by what Windows says."""

import os
import sys

from . import _detect, _known, _pci

DXG = "dev/dxg"
# What is asked of Windows from WSL, and what a user can run there.
QUESTION = "(Get-CimInstance Win32_VideoController).PNPDeviceID"
ASK = ["powershell.exe", "-NoProfile", "-NonInteractive", "-Command", QUESTION]
HINT = f"in PowerShell: {QUESTION} > gpus.txt; then: rocwright-detect --from-windows gpus.txt"
_CHANGES = ("HSA_OVERRIDE_GFX_VERSION", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def look(root="/", platform=None, text=None, ask=None, environ=None):
    """What this machine has: {"platform", "source", "gpus", "problems", "notes"}.

    A GPU is {"index", "target", "name", "chip", "integrated", "device_id", "revision", "location", "near"}; a
    `target` of None says that it could not be identified, and `near` has the targets of ids beside its own.
    `problems` are sentences on what could not be found out, `notes` on what stands in the way of computing.
    `source` says who was asked: `kfd`, `pci`, `windows`.

    `text` is what Windows printed, instead of asking it; `ask` returns such text (default: the system's own
    ways). `root` is a directory to look below; `platform` is that of `sys.platform`.
    """
    platform = platform or sys.platform
    environ = os.environ if environ is None else environ
    if text is None and platform == "win32":
        report = _of_windows("windows", ask or _ask_windows)
    elif text is not None:
        report = _report("windows", "windows", [_by_id(gpu) for gpu in _pci.windows(text)], [], [])
    elif not platform.startswith("linux"):
        why = [f"AMD GPUs are looked for on Linux and Windows, not on {platform}"]
        report = _report(platform, None, [], why, [])
    else:
        report = _of_linux(root, ask or _ask_from_wsl)
    for index, gpu in enumerate(report["gpus"]):
        gpu["index"] = index
    report["notes"] += [
        f"{name}={environ[name]} is set: HIP programs may see other GPUs or targets"
        for name in _CHANGES
        if environ.get(name)
    ]
    return report


def _of_linux(root, ask):
    found, problems = _detect.scan(os.path.join(root, _detect.NODES.lstrip("/")))
    on_bus, bus_problems = _pci.linux(root)
    if found:
        gpus = [_by_kfd(gpu, root) for gpu in found]
        listed = {gpu["location"] for gpu in gpus}
        others = [_called(gpu) for gpu in on_bus if gpu["location"] not in listed]
        notes = [f"on the bus, but not listed by the kernel driver: {', '.join(others)}"] if others else []
        return _report("linux", "kfd", gpus, problems, notes + _unreachable(root))
    if on_bus:
        why = "its kernel driver (amdgpu) is not loaded, or does not use it for computing"
        if os.path.isdir(os.path.join(root, _detect.NODES.lstrip("/"))):
            why = "the kernel driver does not list it for computing"
        notes = [f"{_called(gpu)}: {why}" for gpu in on_bus]
        return _report("linux", "pci", [_by_id(gpu) for gpu in on_bus], problems + bus_problems, notes)
    if os.path.exists(os.path.join(root, DXG)):
        return _of_windows("wsl", ask)
    return _report("linux", "kfd", [], problems + bus_problems, [])


def _of_windows(platform, ask):
    try:
        text = ask()
    except OSError as error:
        why = f"Windows could not be asked for its GPUs: {error.strerror or error}; {HINT}"
        return _report(platform, None, [], [why], [])
    return _report(platform, "windows", [_by_id(gpu) for gpu in _pci.windows(text)], [], [])


def _report(platform, source, gpus, problems, notes):
    return {
        "platform": platform,
        "source": source,
        "gpus": gpus,
        "problems": problems,
        "notes": notes,
    }


def _by_kfd(gpu, root):
    """A GPU of the kernel driver, with what the table calls it; the target is the driver's."""
    device = gpu["device_id"][2:]
    revision = _pci.revision_at(gpu["location"], root)
    found = _by_id({"device": device, "revision": revision, "location": gpu["location"]})
    name = "".join(filter(str.isprintable, gpu["name"] or ""))
    return dict(found, target=gpu["target"], chip=found["chip"] or name or None, near=[])


def _by_id(gpu):
    """A GPU that is known by its PCI id alone."""
    chip, target, integrated = _known.chip_of(gpu["device"]) or (None, None, None)
    return {
        "index": None,
        "target": target,
        "name": _known.name_of(gpu["device"], gpu["revision"]),
        "chip": chip,
        "integrated": integrated,
        "device_id": "0x" + gpu["device"],
        "revision": gpu["revision"],
        "location": gpu["location"],
        "near": _known.neighbours(gpu["device"]) if target is None else [],
    }


def _called(gpu):
    name = _known.name_of(gpu["device"], gpu["revision"])
    return f"the GPU {_known.VENDOR}:{gpu['device']}{f' ({name})' if name else ''} at {gpu['location']}"


def _unreachable(root):
    """What keeps programs from the GPUs that the driver lists."""
    kfd = os.path.join(root, _detect.KFD.lstrip("/"))
    if not os.path.exists(kfd):
        devices = f"--device={_detect.KFD} --device={_detect.RENDER}"
        return [f"there is no {_detect.KFD}, so nothing can compute: start the container with {devices}"]
    if not os.access(kfd, os.R_OK | os.W_OK):
        return [f"this user may not use {_detect.KFD}: add them to its group, usually render"]
    return []


def _ask_from_wsl():
    """The adapters of the Windows that this Linux runs in; `OSError` when it cannot be asked."""
    import subprocess

    try:
        done = subprocess.run(ASK, capture_output=True, timeout=30)
    except subprocess.TimeoutExpired:
        raise OSError("powershell.exe did not answer within 30 s") from None
    if done.returncode != 0:
        raise OSError(f"powershell.exe ended with {done.returncode}")
    return _pci.decoded(done.stdout)


def _ask_windows():
    """The display adapters that are there now, by Windows' configuration manager; `OSError` when it refuses.

    CM_Get_Device_ID_ListW with the filters for a class of devices and for present ones, as Microsoft's
    reference of cfgmgr32.h describes it. Not run by the tests, which need no Windows.
    """
    import ctypes

    display = "{4d36e968-e325-11ce-bfc1-08002be10318}"
    flags = 0x200 | 0x100  # CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT
    manager = ctypes.WinDLL("cfgmgr32")
    size = ctypes.c_ulong()
    status = manager.CM_Get_Device_ID_List_SizeW(ctypes.byref(size), display, flags)
    if status == 0:
        buffer = ctypes.create_unicode_buffer(size.value)
        status = manager.CM_Get_Device_ID_ListW(display, buffer, size, flags)
    if status != 0:
        raise OSError(f"cfgmgr32 answers {status}")
    return "\n".join(buffer[:].split("\0"))
