"""Miniature of torch.utils.cpp_extension: builds the device extensions of the other miniatures.

It keeps the real module's names (include_paths, library_paths, CUDAExtension, BuildExtension) and its
habit of translating CUDA sources at build time, into the build folder. Not PyTorch.
"""

import os
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

import torch
from torch.utils import _mini_build
from torch.utils.hipify import hipify_python

_TORCH = Path(torch.__file__).resolve().parent


def include_paths():
    """Folders with headers: the miniature's own."""
    return [str(_TORCH / "include")]


def library_paths():
    """Folders with libc10_hip.so and libtorch_cpu.so."""
    return [str(_TORCH / "lib")]


def CppExtension(name, sources):  # noqa: N802 - the real module's name
    """An extension without device code."""
    extension = Extension(name, sources)
    extension.mini_rocm = False
    return extension


def CUDAExtension(name, sources):  # noqa: N802 - the real module's name
    """An extension with device code: hipified when it is built, against a torch built for ROCm."""
    extension = Extension(name, sources)
    extension.mini_rocm = True
    return extension


def build_hip_extension(
    name, sources, root, output, build_dir, *, shared_dir=None, use_rocm=True, environment=None
):
    """Hipifies, compiles and links one Python extension module.

    sources are relative to root and may end in .cu; output is the path of the module; build_dir takes what
    belongs to one Python, shared_dir (by default the same) the translated sources and device objects, which
    belong to all. No RPATH is written: `import torch` comes first and has loaded every library that the
    module needs.
    """
    environment = os.environ if environment is None else environment
    if use_rocm and torch.version.hip is None:
        raise _mini_build.BuildError(
            f"error: {name} wants device code, but the installed torch is a CPU-only build"
        )
    rocm = _mini_build.Rocm.from_environment(environment) if use_rocm else None
    root, build_dir = Path(root).resolve(), Path(build_dir).resolve()
    shared_dir = Path(shared_dir).resolve() if shared_dir else build_dir
    folder = root
    if use_rocm:
        folder = shared_dir / "hipified"
        top = sorted({source.split("/")[0] for source in sources})
        hipify_python.hipify(root, top, in_place=("torch/",), output=folder)
        sources = [hipify_python.hip_path(source) for source in sources]
    device = tuple(f"-I{item}" for item in [".", *_shared_headers(shared_dir / "torch")])
    host = tuple(f"-I{item}" for item in [".", *include_paths(), _mini_build.python_include()])
    host += (f"-DTORCH_EXTENSION_NAME={name.split('.')[-1]}",)
    units = [
        _mini_build.Unit(source, shared_dir / f"{source}.o", device)
        if source.endswith(".hip")
        else _mini_build.Unit(source, build_dir / f"{source}.o", host)
        for source in sources
    ]
    _mini_build.compile_all(units, folder, rocm, environment)
    # The module alone goes to the output: what lies there goes into the wheel.
    linked = build_dir / Path(output).name
    _mini_build.link_shared(
        linked,
        [unit.object for unit in units],
        environment,
        libraries=("c10_hip", "amdhip64") if use_rocm else (),
        folders=[*library_paths(), *([rocm.root / "lib"] if rocm else [])],
        soname=False,
    )
    _mini_build.copy_if_different(linked, output)


def _shared_headers(folder):
    """torch's headers at a place that is the same for every Python, whose own torch each has its own copy."""
    for include in include_paths():
        for header in sorted(Path(include).rglob("*.h")):
            _mini_build.copy_if_different(header, folder / header.relative_to(include))
    return [str(folder)]


class BuildExtension(build_ext):
    """setuptools' build_ext with ROCm's compiler for the device code."""

    def build_extension(self, ext):
        build_hip_extension(
            ext.name,
            ext.sources,
            Path.cwd(),
            self.get_ext_fullpath(ext.name),
            Path("build") / _mini_build.python_tag() / ext.name,
            shared_dir=Path("build") / "obj" / ext.name,
            use_rocm=ext.mini_rocm,
        )

    def get_source_files(self):
        return []
