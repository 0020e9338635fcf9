"""Projects upon the miniature torch, as sdists: the kernel of its miniature audio under another name.

Not extensions of PyTorch: they compile against the stand-in alone.
"""

from __future__ import annotations

from pathlib import Path

from wheels import pack_tar

_AUDIO = Path(__file__).resolve().parents[1] / "examples" / "mini-pytorch" / "pytorch_audio" / "torchaudio"
_SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

sources = ["{package}/csrc/module.cpp", "{package}/csrc/cuda/preemphasis.cu"]
setup(
    name="{name}",
    version="{version}",
    description="Stands on the miniature torch, for tests of rocwright",
    license="MIT",
    python_requires=">=3.10",
    packages=["{package}", "{package}.functional"],
    install_requires={requires!r},
    ext_modules=[CUDAExtension("{package}._{package}", sources)],
    cmdclass={{"build_ext": BuildExtension}},
)
"""


def miniature_sdist(
    folder: Path, name: str, version: str = "1.0", *, requires: tuple[str, ...] = (), broken: bool = False
) -> Path:
    """One with a kernel; its package imports what it `requires`, and a `broken` one compiles nowhere."""
    package, stem = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}"
    files = {
        f"{package}/{path.relative_to(_AUDIO).as_posix()}": path.read_text().replace("torchaudio", package)
        for path in sorted(_AUDIO.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    first = f"{package}/__init__.py"
    files[first] += "".join(f"import {one.replace('-', '_')}\n" for one in requires)
    if broken:
        files[f"{package}/csrc/module.cpp"] = "#error this project compiles nowhere\n"
    files["setup.py"] = _SETUP.format(name=name, version=version, package=package, requires=list(requires))
    files["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return pack_tar(folder / f"{stem}.tar.gz", {f"{stem}/{path}": text for path, text in files.items()})
