"""What a torch says of itself and of its GPUs, and which libraries are in its process."""

from __future__ import annotations

from typing import Any


def _try(ask: Any, *arguments: Any) -> Any:
    """What a function answers; an exception is an answer, too."""
    try:
        return ask(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def about_torch(torch: Any) -> dict[str, Any]:
    """Version, what it was built from, for and with; all its data types."""
    version = torch.version
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    targets = str((flags() if flags is not None else "") or "").split()
    return {
        "version": str(torch.__version__),
        "git_version": getattr(version, "git_version", None) or "",
        "hip": getattr(version, "hip", None) or "",
        "cuda": getattr(version, "cuda", None) or "",
        "debug": bool(getattr(version, "debug", False)),
        "architectures": targets,
        "config": _config(torch),
        "place": str(getattr(torch, "__file__", "") or ""),
        "dtypes": _dtypes(torch),
        "built_with": _built_with(torch),
        "devices": [],
    }


def _config(torch: Any) -> str:
    config = getattr(torch, "__config__", None)
    return str(_try(config.show)) if config is not None else ""


def _dtypes(torch: Any) -> list[str]:
    kind = getattr(torch, "dtype", None)
    if not isinstance(kind, type):
        return []
    found = {str(value).rpartition(".")[2] for value in vars(torch).values() if isinstance(value, kind)}
    return sorted(found)


def _built_with(torch: Any) -> dict[str, str]:
    """Backends by name: a version, yes or no, as torch answers."""
    found: dict[str, str] = {}
    backends = getattr(torch, "backends", None)
    for name in ("cuda", "cudnn", "cusparselt", "mkl", "mkldnn", "openmp", "mps"):
        backend = getattr(backends, name, None)
        ask = getattr(backend, "is_built", None) or getattr(backend, "is_available", None)
        if ask is not None:
            found[name] = str(_try(ask))
    distributed = getattr(torch, "distributed", None)
    for name in ("nccl", "gloo", "mpi"):
        ask = getattr(distributed, f"is_{name}_available", None)
        if ask is not None:
            found[name] = str(_try(ask))
    return found


def about_devices(torch: Any) -> tuple[list[dict[str, Any]], str]:
    """The GPUs, and what torch says where there are none."""
    if not (torch.version.hip or torch.version.cuda):
        return [], ""
    try:
        torch.cuda.init()
        return [_device(torch, index) for index in range(torch.cuda.device_count())], ""
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"


def _device(torch: Any, index: int) -> dict[str, Any]:
    found = torch.cuda.get_device_properties(index)
    hip = bool(torch.version.hip)
    return {
        "index": index,
        "name": found.name,
        "target": found.gcnArchName if hip else f"sm_{found.major}{found.minor}",
        "memory": found.total_memory,
    }


# -- libraries in this process: Linux says it, elsewhere the answer is empty


_MAPS = "/proc/self/maps"


def mapped() -> dict[str, str]:
    """Shared libraries of this process by the name of their file, each with its path."""
    found: dict[str, str] = {}
    try:
        with open(_MAPS, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            lines = stream.readlines()
    except OSError:
        return found
    for line in lines:
        # address, rights, offset, device, inode, path: the last may hold spaces (proc_pid_maps(5)).
        fields = line.rstrip("\n").split(None, 5)
        path = fields[5].strip() if len(fields) == 6 else ""
        name = path.rpartition("/")[2]
        if path.startswith("/") and ".so" in name:
            found[name] = path
    return found
