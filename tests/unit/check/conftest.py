"""Good and bad wheels, written with zipfile; libraries made by the system's compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from oracle import fat_library
from oracle.fatbin_walk import FEATURES, MACHINES
from wheels import write_wheel

VERSION = "2.9.0+rocm7.1"
INIT = (
    "def initialize():\n    import rocm_sdk\n\n"
    "    rocm_sdk.initialize_process(preload_shortnames=['amdhip64'], check_version='7.1')\n"
)
TAG = "cp311-cp311-linux_x86_64"


class Builder:
    """Writes wheels into a folder; the options are those of `write_wheel`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        project: str,
        version: str,
        files: Mapping[str, str | bytes],
        **options: Any,
    ) -> Path:
        return write_wheel(self.folder, project, version, files, **{"tag": TAG, **options})

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
