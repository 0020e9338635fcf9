"""Rules about torch itself: is it there, is it one for ROCm, and is it the installed one that is imported?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Environment
from rocwright.compat.doctor.values import Finding


def kind_of(environment: Environment) -> Literal["", "rocm", "cuda", "cpu"]:
    """What torch was built for; empty where there is none."""
    text = environment.torch
    if text is None:
        return ""
    return "rocm" if text.hip else "cuda" if text.cuda else "cpu"


def torch(case: Case) -> Iterator[Finding]:
    """Is there a torch, and for ROCm?"""
    environment = case.environment
    assert environment is not None
    text = environment.torch
    if text is None:
        yield _absent(case, environment)
        return
    version = text.version or "of unknown version"
    if text.hip:
        detail = f"torch {version} for ROCm (HIP {text.hip}), {text.directory}"
        yield Finding("torch", "ok", detail, about="torch", section="environment")
        return
    built = f"CUDA {text.cuda}" if text.cuda else "the CPU only"
    detail = f"torch {version} is built for {built}, like PyPI's, not for ROCm (torch.version.hip is None)"
    step = mend.install(case, _wanted(case), again=True)
    yield Finding("torch", "wrong", detail, step, about="torch", section="environment")


def _absent(case: Case, environment: Environment) -> Finding:
    installed = environment.named("torch")
    if installed is not None and installed.editable:
        detail = (
            f"torch {installed.version} is imported from its sources ({installed.origin}): not looked into"
        )
        return Finding("torch", "note", detail, about="torch", section="environment")
    if installed is not None:
        detail = f"torch {installed.version} is installed, but its package torch/ is gone"
        return Finding("torch", "missing", detail, mend.reinstall(case, installed), "torch", "environment")
    detail = f"no torch in {environment.prefix}"
    return Finding("torch", "missing", detail, mend.install(case, _wanted(case)), "torch", "environment")


def _wanted(case: Case) -> str:
    """The torch of the set where there is one, else the one of the same release for the installed ROCm."""
    if case.manifest is not None:
        version = next((entry.version for entry in case.manifest.files if entry.project == "torch"), "")
        return f"torch=={version}" if version else "torch"
    return "torch"


def shadowed(case: Case) -> Iterator[Finding]:
    """Another torch in front of the installed one."""
    environment = case.environment
    assert environment is not None
    for place in environment.shadows:
        detail = f"PYTHONPATH leads to {place}, whose modules are imported instead of the installed ones"
        yield Finding("shadowed", "wrong", detail, "unset PYTHONPATH", place, "environment")
    text, installed = environment.torch, environment.named("torch")
    if text is None or installed is None or installed.editable or environment.shadows:
        return
    if PurePath(text.directory).parent != PurePath(installed.directory):
        detail = (
            f"import finds {text.directory}, installed is torch {installed.version} in {installed.directory}"
        )
        step = f"remove {shlex.quote(text.directory)}, or the entry of sys.path that leads to it"
        yield Finding("shadowed", "wrong", detail, step, "torch", "environment")
