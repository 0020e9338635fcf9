"""Say what torch and the GPUs of this environment are; needs nothing but the standard library and torch.

The answer is JSON in the file that the command line names, and is written again after each step: what ends
the process (a driver, a library) takes nothing of what was known before.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from typing import Any


def tell(path: str, answer: dict[str, Any]) -> None:
    """Put the answer in the file's place as a whole."""
    partial = f"{path}.part"
    with open(partial, "w", encoding="utf-8") as stream:  # noqa: PTH123 - nothing is imported that is not needed
        json.dump(answer, stream)
    os.replace(partial, path)  # noqa: PTH105


def ask_pytest() -> str:
    """The version of pytest, empty where it is not installed."""
    try:
        import pytest
    except ImportError:
        return ""
    return str(pytest.__version__)


def ask_torch(answer: dict[str, Any]) -> Any:
    """Import torch and note what it was built from and for; returns it, None where it cannot be imported."""
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a library that is not found, a version that does not fit
        answer["absent"] = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        answer["import_error"] = f"{type(error).__name__}: {error}"
        return None
    version = torch.version
    answer["version"] = str(torch.__version__)
    answer["git_version"] = getattr(version, "git_version", None) or ""
    answer["hip"] = getattr(version, "hip", None) or ""
    answer["cuda"] = getattr(version, "cuda", None) or ""
    answer["architectures"] = architectures(torch)
    return torch


def architectures(torch: Any) -> list[str]:
    """Targets that torch was built for; its own list is empty where no GPU is."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    text = str(flags() or "") if flags is not None else ""
    return text.split() or list(torch.cuda.get_arch_list())


def ask_gpus(torch: Any, answer: dict[str, Any]) -> None:
    """Note the GPUs that torch sees, or what it says instead."""
    answer["devices"] = []
    problems = []
    try:
        torch.cuda.init()
        count = torch.cuda.device_count()
    except Exception as error:
        answer["problem"] = f"{type(error).__name__}: {error}"
        return
    for index in range(count):
        try:
            answer["devices"].append(describe(torch, index))
        except Exception as error:
            problems.append(f"GPU {index}: {type(error).__name__}: {error}")
    answer["problem"] = "; ".join(problems)


def describe(torch: Any, index: int) -> dict[str, Any]:
    """One GPU; its target without features."""
    found = torch.cuda.get_device_properties(index)
    hip = bool(torch.version.hip)
    target = found.gcnArchName.partition(":")[0] if hip else f"sm_{found.major}{found.minor}"
    return {
        "index": index,
        "target": target,
        "name": found.name,
        "uuid": uuid(getattr(found, "uuid", None), hip=hip),
        "memory": found.total_memory,
    }


def uuid(value: object, *, hip: bool) -> str:
    """As the visibility variables take it: `GPU-` and, on ROCm, sixteen hexadecimal digits."""
    if value is None:
        return ""
    if not hip:
        return f"GPU-{value}"
    # HIP's sixteen bytes are the letters of the number that its tools show.
    try:
        letters = bytes.fromhex(str(value).replace("-", "")).decode("ascii")
    except ValueError:
        return ""
    return f"GPU-{letters}" if len(letters) == 16 and not set(letters) - set("0123456789abcdef") else ""


def main(path: str) -> None:
    """Ask everything, in the order in which it can go wrong."""
    answer: dict[str, Any] = {"python": platform.python_version(), "pytest": ask_pytest()}
    tell(path, answer)
    torch = ask_torch(answer)
    tell(path, answer)
    if torch is not None:
        ask_gpus(torch, answer)
        tell(path, answer)


if __name__ == "__main__":
    main(sys.argv[1])
