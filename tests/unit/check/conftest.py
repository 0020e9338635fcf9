"""Good and bad wheels, written with zipfile; libraries made by the system's compiler."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from oracle import fat_library
from oracle.fatbin_walk import FEATURES, MACHINES

VERSION = "2.9.0+rocm7.1"
INIT = (
    "def initialize():\n    import rocm_sdk\n\n"
    "    rocm_sdk.initialize_process(preload_shortnames=['amdhip64'], check_version='7.1')\n"
)
TAG = "cp311-cp311-linux_x86_64"


def record_line(name: str, data: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


class Builder:
    """Writes wheels; keyword arguments break one thing at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        project: str,
        version: str,
        files: Mapping[str, str | bytes],
        *,
        requires: Sequence[str] = (),
        extras: Sequence[str] = (),
        tag: str = TAG,
        inside_tag: str | None = None,
        said: tuple[str, str] | None = None,
        leave_out_of_record: Sequence[str] = (),
        twice: str | None = None,
        without: Sequence[str] = (),
        modes: Mapping[str, int] | None = None,
    ) -> Path:
        info = f"{project}-{version}.dist-info"
        name, said_version = said or (project, version)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {said_version}\n"
        metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
        metadata += "".join(f"Provides-Extra: {extra}\n" for extra in extras)
        members = {key: value.encode() if isinstance(value, str) else value for key, value in files.items()}
        members[f"{info}/METADATA"] = metadata.encode()
        members[f"{info}/WHEEL"] = (
            f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {inside_tag or tag}\n".encode()
        )
        for part in without:
            del members[f"{info}/{part}"]
        record = "".join(record_line(*item) for item in members.items() if item[0] not in leave_out_of_record)
        members[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{project}-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in members.items():
                entry = zipfile.ZipInfo(member)
                entry.external_attr = (modes or {}).get(member, 0o100644) << 16
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
            if twice is not None:
                with pytest.warns(UserWarning, match="Duplicate name"):
                    archive.writestr(zipfile.ZipInfo(twice), b"again")
        return path

    def torch(self, files: Mapping[str, str | bytes | None] | None = None, **options: object) -> Path:
        """A torch without a fault; `files` replaces members, None removes one."""
        members: dict[str, str | bytes | None] = {
            "torch/__init__.py": "",
            "torch/_rocm_init.py": INIT,
            "torch/version.py": f"__version__ = {VERSION!r}\nhip: Optional[str] = '7.1.0'\n",
            # Stand-ins by name; tests about libraries put real ones there.
            "torch/_C.so": "",
            "torch/lib/libc10_hip.so": "",
            "torch/lib/libtorch_cpu.so": "",
            "torch/lib/libtorch_hip.so": "",
        }
        members.update(files or {})
        options.setdefault("requires", ["rocm[libraries]==7.1", "sympy>=1.13"])
        present = {name: data for name, data in members.items() if data is not None}
        return self("torch", VERSION, present, **options)

    def extension(
        self, project: str, version: str = "1+rocm7.1", *, torch: str | None = VERSION, **options: object
    ) -> Path:
        """torchvision, torchaudio or apex without a fault, for the torch of that version (None: no pin)."""
        compiled = {
            "torchvision": "torchvision/_C.so",
            "torchaudio": "torchaudio/lib/_torchaudio.abi3.so",
            "apex": "amp_C.so",
        }[project]
        if torch is not None:
            options.setdefault("requires", [f"torch=={torch}"])
        files: dict[str, str | bytes] = {f"{project}/__init__.py": "", compiled: ""}
        files.update(options.pop("files", {}))
        return self(project, version, files, **options)


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    return Builder(tmp_path / "dist")


def bundle(*targets: str) -> bytes:
    """An uncompressed clang offload bundle; what is in it for each target has the header of such code."""
    return fat_library.bundle([(target, code_for(target)) for target in targets])


def code_for(target: str) -> bytes:
    """A code object that nobody can run, with a true header."""
    base, *features = target.split(":")
    flags = 0
    for feature in features:
        _, _, off, on = FEATURES[feature[:-1]]
        flags |= on if feature[-1] == "+" else off
    machine = {name: number for number, name in MACHINES.items()}[base]
    return fat_library.code_object(machine, features=flags)


Library = Callable[..., bytes]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Compiles a shared library with link flags and, in `.hip_fatbin`, a bundle for the targets."""
    folder = tmp_path_factory.mktemp("libraries")
    made: dict[tuple[object, ...], bytes] = {}

    def make(*flags: str, targets: Sequence[str] = ()) -> bytes:
        key = (flags, tuple(targets))
        if key not in made:
            source, output = folder / "x.s", folder / "x.so"
            text = '.text\n.globl f\nf: ret\n.section .note.GNU-stack,"",@progbits\n'
            if targets:
                (folder / "x.bundle").write_bytes(bundle(*targets))
                text += f'.section .hip_fatbin,"a",@progbits\n.p2align 12\n.incbin "{folder / "x.bundle"}"\n'
            source.write_text(text)
            argv = ["gcc", "-shared", "-nostdlib", "-o", str(output), str(source), *flags]
            subprocess.run(argv, check=True, capture_output=True)
            made[key] = output.read_bytes()
        return made[key]

    return make
