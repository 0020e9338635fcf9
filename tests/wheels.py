"""Wheels and sdists, written with zipfile and tarfile: of any files, and a miniature of each project."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

Files = Mapping[str, str | bytes]

LOCAL = "rocm7.10.0"
ANY = "py3-none-any"
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


def record_digest(data: bytes) -> str:
    """sha256 as RECORD writes it."""
    return "sha256=" + urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def record_row(name: str, data: bytes) -> str:
    """A line of RECORD."""
    return f"{name},{record_digest(data)},{len(data)}\n"


def write_wheel(
    folder: Path,
    project: str,
    version: str,
    files: Files,
    *,
    requires: Iterable[str] = (),
    extras: Iterable[str] = (),
    python: str | None = None,
    tag: str = TAG,
    wheel_tag: str | None = None,
    said: tuple[str, str] | None = None,
    without: Container[str] = (),
    record: Mapping[str, str | None] | None = None,
    modes: Mapping[str, int] | None = None,
    stored: Container[str] = (),
    label: str = "",
) -> Path:
    """A wheel with these members, METADATA, WHEEL and a right RECORD; the same bytes for the same arguments.

    To break it, `said` is the name and version that METADATA tells, `wheel_tag` the tag of WHEEL, `without`
    a file of the dist-info that is not there, `record` the rows of members in RECORD (None leaves one out).
    `modes` are permissions of members, `stored` those that are not compressed. A `label` makes its name that
    of a variant.
    """
    stem = f"{project.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    head = {
        f"{info}/METADATA": _metadata(*(said or (project, version)), requires, extras, python),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {wheel_tag or tag}\n",
    }
    kept = {name: text for name, text in head.items() if name.rpartition("/")[2] not in without}
    members = {name: _bytes(text) for name, text in {**files, **kept}.items()}
    rows = {name: record_row(name, data) for name, data in members.items()} | dict(record or {})
    members[f"{info}/RECORD"] = "".join([*filter(None, rows.values()), f"{info}/RECORD,,\n"]).encode()
    name = "-".join(filter(None, (stem, tag, label)))
    return pack(folder / f"{name}.whl", members, modes=modes, stored=stored)


# As AMD's provider is named by what is made for it.
AMD = {"requires": ["rocm-bootstrap"], "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin"}
EDITION = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"


def variants(stated: Mapping[str, object], **providers: object) -> dict[str, object]:
    """What states these variants, as JSON; AMD's provider where none is given."""
    by = providers or {"amd": AMD}
    order = {"namespace": list(by)}
    return {"$schema": EDITION, "default-priorities": order, "providers": by, "variants": dict(stated)}


def write_variant(
    folder: Path, project: str, version: str, label: str, properties: Mapping[str, object], **options: object
) -> Path:
    """A wheel that is the variant `label` with these properties.

    `stated` replaces what its variant.json holds (None: there is none), `providers` who tells the properties.
    """
    said = options.pop("stated", variants({label: properties}, **options.pop("providers", {})))
    text = said if isinstance(said, (str, bytes)) or said is None else json.dumps(said)
    member = f"{project.replace('-', '_')}-{version}.dist-info/variant.json"
    files = {**options.pop("files", {}), **({member: text} if text is not None else {})}
    return write_wheel(folder, project, version, files, label=label, **options)


def pack(
    path: Path,
    members: Mapping[str, bytes],
    *,
    modes: Mapping[str, int] | None = None,
    stored: Container[str] = (),
) -> Path:
    """An archive with exactly these members, as zipfile writes it."""
    path.parent.mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (modes or {}).get(name, 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED)
    return path


def write_sdist(
    folder: Path, project: str, version: str, files: Files | None = None, *, headers: str = "", said: str = ""
) -> Path:
    """An sdist: PKG-INFO with these further headers, which says version `said`, and these files."""
    stem = f"{project.replace('-', '_')}-{version}"
    format_version = "2.2" if "Dynamic:" in headers else "2.1"
    about = f"Metadata-Version: {format_version}\nName: {project}\nVersion: {said or version}\n{headers}"
    build = "[build-system]\nrequires = ['setuptools']\n"
    members = {"PKG-INFO": about, "pyproject.toml": build, **(files or {})}
    return pack_tar(folder / f"{stem}.tar.gz", {f"{stem}/{name}": data for name, data in members.items()})


def pack_tar(path: Path, members: Files) -> Path:
    """A .tar.gz with exactly these files."""
    path.parent.mkdir(exist_ok=True, parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member, data = tarfile.TarInfo(name), _bytes(text)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def _metadata(
    name: str, version: str, requires: Iterable[str], extras: Iterable[str], python: str | None
) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Python: {python}"] if python else []
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    lines += [f"Requires-Dist: {text}" for text in requires]
    return "\n".join([*lines, ""])


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


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
