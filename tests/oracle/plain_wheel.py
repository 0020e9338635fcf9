"""Wheels for tests of commands and scripts, written with zipfile: a miniature of each project."""

from __future__ import annotations

import hashlib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

LOCAL = "rocm7.10.0"
TAG = "cp312-cp312-linux_x86_64"
# Where each project has its compiled part; what stands there is text, which no rule about libraries looks at.
COMPILED = {
    "torch": ("torch/_C{ext}", "torch/lib/{lib}c10_hip{dll}", "torch/lib/{lib}torch_cpu{dll}",
              "torch/lib/{lib}torch_hip{dll}"),
    "torchaudio": ("torchaudio/lib/_torchaudio{ext}",),
    "torchvision": ("torchvision/_C{ext}",),
    "triton": ("triton/_C/libtriton{ext}",),
    "apex": ("amp_C{ext}",),
}  # fmt: skip
ROCM_INIT = (
    "def initialize():\n    import rocm_sdk\n\n"
    "    rocm_sdk.initialize_process(preload_shortnames=['amdhip64'], check_version='7.10.0')\n"
)


def write_wheel(
    folder: Path,
    project: str,
    version: str,
    files: Mapping[str, str | bytes],
    *,
    requires: Sequence[str] = (),
    tag: str = TAG,
    said: str | None = None,
) -> Path:
    """A wheel with these members, a right RECORD, and METADATA that says `said` for the version."""
    info = f"{project}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {said or version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    members = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    members[f"{info}/METADATA"] = metadata.encode()
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members.items()]
    members[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{project}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


def compiled(project: str, tag: str) -> dict[str, str]:
    """Stand-ins for the compiled files of a project, named as on the tag's platform."""
    windows = "win" in tag
    names = {"ext": ".pyd" if windows else ".so", "dll": ".dll" if windows else ".so"}
    lib = "" if windows else "lib"
    return {name.format(lib=lib, **names): "compiled" for name in COMPILED[project]}


def write_torch(folder: Path, *, version: str = f"2.9.0+{LOCAL}", tag: str = TAG, **options: object) -> Path:
    """A torch that breaks no rule of its own; `files` are added, or left out where None."""
    files = {
        **compiled("torch", tag),
        "torch/__init__.py": "",
        "torch/_rocm_init.py": ROCM_INIT,
        "torch/version.py": f"__version__ = {version!r}\nhip: Optional[str] = '7.10.0'\n",
    }
    files.update(options.pop("files", {}))
    present = {name: text for name, text in files.items() if text is not None}
    options.setdefault("requires", ["rocm[libraries]==7.10.0"])
    return write_wheel(folder, "torch", version, present, tag=tag, **options)


def write_family(folder: Path, *, tag: str = TAG) -> dict[str, Path]:
    """torch, torchaudio, torchvision, triton and apex, by project."""
    torch = f"torch==2.9.0+{LOCAL}"
    versions = {"torchaudio": "2.9.0", "torchvision": "0.24.0", "triton": "3.5.1", "apex": "1.9.0"}
    made = {"torch": write_torch(folder, tag=tag)}
    for project, version in versions.items():
        requires = () if project == "triton" else (torch,)
        files = {f"{project}/__init__.py": "", **compiled(project, tag)}
        made[project] = write_wheel(folder, project, f"{version}+{LOCAL}", files, requires=requires, tag=tag)
    return made


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
