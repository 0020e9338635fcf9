"""A real torch in an environment with rocwright, and the same torch with GPUs that nobody has.

The torch is Debian's, for the CPU. Its Python serves as base of a plain environment, so that the scripts and
torch share one interpreter, as the documents have it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from conformance.world import Shell, World
from real.gputest import userland

GPUS = ("gfx942", "gfx1100", "gfx942")
# What PyTorch's own runner needs besides pytest, and what torchvision imports.
_PLUGINS = ("pytest-rerunfailures", "pytest-flakefinder", "pytest-xdist", "pytest-timeout", "pillow")

# Python reads a module of this name when it starts; torch is dressed as soon as it is imported.
_SITE = """
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Loader(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        import dressing
        dressing.dress(module)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name == "torch" else None
        if spec is not None:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, Finder)
"""
_DRESSING = """
import os
from types import SimpleNamespace

TARGETS = {targets!r}


def visible():
    text = os.environ.get("HIP_VISIBLE_DEVICES")
    return list(range(len(TARGETS))) if text is None else [int(word) for word in text.split(",") if word]


def properties(index):
    target = TARGETS[visible()[index]]
    return SimpleNamespace(gcnArchName=target + ":sramecc+", name="a " + target, uuid=None,
                           total_memory=1 << 30, multi_processor_count=1)


def dress(torch):
    torch.version.hip = "6.3.42131"
    if not TARGETS:
        return
    cuda = torch.cuda
    cuda.init = cuda.synchronize = lambda *given: None
    cuda.is_available = lambda: bool(visible())
    cuda.device_count = lambda: len(visible())
    cuda.get_device_properties = properties
    cuda.get_device_name = lambda index: properties(index).name
    cuda.get_arch_list = lambda: sorted(set(TARGETS))
    torch._C._cuda_getArchFlags = lambda: " ".join(sorted(set(TARGETS)))
    from torch.overrides import TorchFunctionMode

    # Tensors for a GPU are made on the CPU; they, and what is computed of them, say that they are there.
    class OnTheCpu(TorchFunctionMode):
        def __torch_function__(self, called, types, given=(), named=None):
            named = dict(named or {{}})
            there = any(getattr(one, "is_there", False) for one in given)
            if called == torch.Tensor.is_cuda.__get__:
                return there
            if str(named.get("device")).startswith("cuda"):
                there, named["device"] = True, "cpu"
            found = called(*given, **named)
            if there and isinstance(found, torch.Tensor) and called is not torch.Tensor.cpu:
                found.is_there = True
            return found

    OnTheCpu().__enter__()
"""


def environment(world: World) -> Path:
    """A virtual environment that has torch 2.6.0, torchvision and torchaudio, pytest with PyTorch's plugins,
    and rocwright.
    """

    def make(place: Path) -> None:
        with _kept():
            python = userland.make(place / "userland")
            userland.add_domains(place / "userland")
        venv = place / "venv"
        words = ["-m", "venv", "--without-pip", "--system-site-packages", str(venv)]
        subprocess.run([str(python), *words], check=True)
        env = {**os.environ, "PIP_CACHE_DIR": str(world.root / "pip-cache")}
        # That of the Python that runs the tests may be older than this torch's Python.
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(place / "pip"), "pip>=25"]
        subprocess.run(pip, check=True, env=env)
        pip = [str(venv / "bin/python"), str(place / "pip/pip"), "install", "-q"]
        subprocess.run([*pip, str(world.wheel()), *_PLUGINS], check=True, env=env)
        # Debian's program starts a Python that is not there.
        pytest = venv / "bin/pytest"
        pytest.write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m pytest "$@"\n')
        pytest.chmod(0o755)

    return world.once("torch", make) / "venv"


def checkout(root: Path) -> Path:
    """The tests of the very source that this torch was built from, in the new directory `root`."""
    with _kept():
        return userland.make_checkout(root)


@contextmanager
def _kept() -> Iterator[None]:
    """With a cache that outlives the run: the packages are 210 MB."""
    cache = os.environ.get("ROCWRIGHT_TEST_CACHE") or str(Path.home() / ".cache/rocwright")
    with mock.patch.dict(os.environ, ROCWRIGHT_TEST_CACHE=cache):
        yield


def activate(shell: Shell) -> None:
    """As `source bin/activate` of that environment does."""
    venv = environment(shell.world)
    shell.variables["VIRTUAL_ENV"] = str(venv)
    shell.variables["PATH"] = f"{venv / 'bin'}{os.pathsep}{shell.variables['PATH']}"


def dressed(folder: Path, *targets: str) -> dict[str, str]:
    """Variables with which torch says that it is built for ROCm and, for these targets, sees GPUs.

    What is put on such a GPU is put on the CPU, and computed there.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITE)
    (folder / "dressing.py").write_text(_DRESSING.format(targets=targets))
    return {"PYTHONPATH": str(folder)}
