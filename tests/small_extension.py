"""A torch of a few files that has a HIP and a BuildExtension, and projects that stand on it.

Its BuildExtension compiles with the C++ compiler what real ones give to hipcc; like those it asks CXX which
that is, looks for it as one program, and wants its version. It takes the same variables
and tells which it saw.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wheels import ANY, pack_tar, write_wheel

ROCM, TORCH = "7.10.0", "2.9.0+rocm7.10.0"
TARGETS = "gfx942"

CPP_EXTENSION = """
import os, shutil, subprocess
from pathlib import Path
from setuptools import Extension
from setuptools.command.build_ext import build_ext
import torch


def CUDAExtension(name, sources):
    return Extension(name, sources)


class BuildExtension(build_ext):
    def build_extension(self, ext):
        assert torch.version.hip, "a torch without HIP"
        out = Path(self.get_ext_fullpath(ext.name))
        out.parent.mkdir(parents=True, exist_ok=True)
        cxx = shutil.which(os.environ.get("CXX", "c++"))
        subprocess.run([cxx, "-v"], check=True)
        flags = [f'-DARCH="{os.environ["PYTORCH_ROCM_ARCH"]}"', "-x", "c++", "-fPIC"]
        made = str(Path(self.build_temp) / (Path(ext.sources[0]).stem + ".o"))
        os.makedirs(self.build_temp, exist_ok=True)
        subprocess.run([cxx, *flags, "-c", *ext.sources, "-o", made], check=True)
        subprocess.run([cxx, "-shared", made, "-Wl,--build-id=none", "-o", str(out)], check=True)
        print("ROCM_HOME", os.environ["ROCM_HOME"], "FORCE_CUDA", os.environ.get("FORCE_CUDA"))
"""

SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
{before}
setup(
    name="{name}",
    version="{version}",
    packages=["{package}"],
    ext_modules=[CUDAExtension("{package}._C", ["csrc/kernel.cu"])],
    cmdclass={{"build_ext": BuildExtension}},
    install_requires={requires!r},
)
"""


def torch_wheel(
    folder: Path,
    version: str = TORCH,
    *,
    hip: str | None = "7.10.1",
    requires: tuple[str, ...] = (),
    plain: bool = False,
) -> Path:
    """A torch for any Python that requires the ROCm of its version, or none for a `plain` ROCm."""
    files = {
        "torch/__init__.py": f"from torch import version\n__version__ = {version!r}\n"
        "class cuda:\n    is_available = staticmethod(lambda: False)\n",
        "torch/version.py": "from typing import Optional\n"
        f"__version__ = {version!r}\nhip: Optional[str] = {hip!r}\n",
        "torch/utils/__init__.py": "",
        "torch/utils/cpp_extension.py": CPP_EXTENSION,
        "torch/share/cmake/Torch/TorchConfig.cmake": "set(TORCH_FOUND 1)\n",
    }
    _, _, local = version.partition("+rocm")
    pins = (f"rocm[libraries]=={local}",) if local and not plain else ()
    return write_wheel(folder, "torch", version, files, requires=(*pins, *requires), tag=ANY)


def sources(
    name: str, version: str = "1.0", *, before: str = "", imports: str = "", requires: tuple[str, ...] = ()
) -> dict[str, str]:
    """The files of a project whose one device source says which targets it was compiled for."""
    package = name.replace("-", "_")
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    setup = SETUP.format(name=name, version=version, package=package, before=before, requires=list(requires))
    return {
        "PKG-INFO": about,
        "setup.py": setup,
        f"{package}/__init__.py": f"import torch\n{imports}\n__version__ = '{version}'\n",
        "csrc/kernel.cu": 'extern "C" const char *targets() { return ARCH; }\n',
    }


def sdist(folder: Path, name: str, version: str = "1.0", **options: Any) -> Path:
    """An sdist of such a project."""
    stem = f"{name.replace('-', '_')}-{version}"
    files = sources(name, version, **options)
    return pack_tar(folder / f"{stem}.tar.gz", {f"{stem}/{path}": text for path, text in files.items()})
