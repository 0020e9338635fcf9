"""Machines and environments for the doctor's tests: trees of files as kernels and installers leave them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.compat.doctor.observations import Diagnosis, Observation
from rocwright.compat.doctor.run import diagnose
from trees import write
from wheels import record_row

# gfx_target_version of the kernel's topology, and what LLVM calls it.
MI210, RADEON_6900, RADEON_7900 = 90010, 100300, 110000

# The index that commands name, and how they say so.
INDEX = "--index-url https://packages.example.org/"

VERSION_PY = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = {version!r}
debug = False
cuda: Optional[str] = {cuda!r}
git_version = 'abc'
hip: Optional[str] = {hip!r}
"""


@dataclass
class Tree:
    """A machine's files below `root`; plain Linux without a GPU until something is added."""

    root: Path

    def __post_init__(self) -> None:
        write(self.root / "proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n")
        write(self.root / "proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n")
        write(self.root / "proc/self/status", "Name:\tpython\nSeccomp:\t0\n")
        write(self.root / "etc/group", "root:x:0:\nvideo:x:44:\nrender:x:992:\n")

    def gpu(self, version: int = MI210, number: int = 1, *, devices: bool = True) -> Tree:
        """A GPU that the kernel driver lists, on the bus, with its device files."""
        self.board(f"0000:0{number}:00.0")
        self.driver()
        node = self.root / f"sys/class/kfd/kfd/topology/nodes/{number}/properties"
        write(node, f"simd_count 416\ngfx_target_version {version}\n")
        if devices:
            write(self.root / "dev/kfd")
            write(self.root / f"dev/dri/renderD{127 + number}")
        return self

    def driver(self) -> Tree:
        (self.root / "sys/module/amdgpu").mkdir(parents=True, exist_ok=True)
        return self

    def board(self, address: str = "0000:03:00.0", vendor: str = "0x1002", kind: str = "0x030000") -> Tree:
        write(self.root / f"sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
        write(self.root / f"sys/bus/pci/devices/{address}/class", f"{kind}\n")
        return self

    def docker(self, shared: str = "size=65536k") -> Tree:
        """As `docker run` without options: 64 MB of shared memory, and a filter of system calls."""
        write(self.root / ".dockerenv")
        write(self.root / "proc/mounts", f"shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,{shared} 0 0\n")
        write(self.root / "proc/self/status", "Name:\tpython\nSeccomp:\t2\n")
        return self


@dataclass
class Room:
    """An environment of this Python at `root`, made by hand: nothing but links and a file."""

    root: Path

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir(parents=True)
        base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
        self.python.symlink_to(base)
        write(self.root / "pyvenv.cfg", f"home = {base.parent}\ninclude-system-site-packages = false\n")
        self.site.mkdir(parents=True)

    @property
    def python(self) -> Path:
        return self.root / "bin/python"

    @property
    def site(self) -> Path:
        return self.root / f"lib/python3.{sys.version_info[1]}/site-packages"

    def install(
        self,
        name: str,
        version: str,
        files: dict[str, str] | None = None,
        *,
        requires: Sequence[str] = (),
        extras: Sequence[str] = (),
        tag: str = "py3-none-any",
        more: dict[str, str] | None = None,
    ) -> Path:
        """As an installer would; returns the dist-info directory. `more` are further files in it."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Provides-Extra: {extra}" for extra in extras]
        lines += [f"Requires-Dist: {text}" for text in requires]
        content = dict(files or {})
        content[f"{info}/METADATA"] = "\n".join(lines) + "\n"
        content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        content[f"{info}/INSTALLER"] = "pip\n"
        content |= {f"{info}/{path}": text for path, text in (more or {}).items()}
        for path, text in content.items():
            write(self.site / path, text)
        rows = [record_row(path, text.encode()) for path, text in content.items()]
        write(self.site / info / "RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))
        return self.site / info

    def torch(
        self,
        version: str = "2.9.0+rocm7.10.0",
        hip: str | None = "7.10.60850",
        cuda: str | None = None,
        **more,
    ) -> Path:
        text = VERSION_PY.format(version=version, hip=hip, cuda=cuda)
        files = {"torch/__init__.py": "", "torch/version.py": text, "torch/lib/libtorch_hip.so": "torch"}
        return self.install("torch", version, files | more.pop("files", {}), **more)

    def rocm(self, version: str = "7.10.0", devices: Sequence[str] = (), offered: Sequence[str] = ()) -> None:
        """ROCm's packages with device packages; `offered` are the targets that there are packages for."""
        libraries = f"rocm-sdk-libraries=={version} ; extra == 'libraries'"
        extras = [f"device-{word}" for word in offered]
        requires = [f"rocm-sdk-device-{word}=={version} ; extra == 'device-{word}'" for word in offered]
        core = [f"rocm-sdk-core=={version}"]
        self.install(
            "rocm",
            version,
            {"rocm_sdk/__init__.py": ""},
            requires=[*core, libraries, *requires],
            extras=["libraries", *extras],
        )
        hip = {"_rocm_sdk_core/lib/libamdhip64.so.7": "hip", "_rocm_sdk_core/__init__.py": ""}
        self.install("rocm-sdk-core", version, hip)
        blas = {"_rocm_sdk_libraries/lib/librocblas.so.5": "blas"}
        self.install("rocm-sdk-libraries", version, blas)
        for word in devices:
            self.device(word, version)

    def device(self, word: str, version: str = "7.10.0") -> None:
        marker = f'{{"target": "{word}", "serves": ["{word}"], "version": "{version}"}}'
        files = {f"_rocm_sdk_libraries/_device_{word}.json": marker}
        self.install(f"rocm-sdk-device-{word}", version, files)


def of(found: Diagnosis, kind: str) -> list[Observation]:
    """The observations of a kind."""
    return [item for item in found.observations if item.id == kind]


def one(found: Diagnosis, kind: str) -> Observation:
    """The only observation of a kind."""
    (item,) = of(found, kind)
    return item


def bad(found: Diagnosis) -> dict[str, str]:
    """Kind to detail of everything in the environment that is to be mended."""
    return {item.id: item.detail for item in found.observations if item.bad and item.section == "environment"}


def visit(room: Room, tree: Tree | None = None, **more: object) -> Diagnosis:
    given = {
        "root": tree.root if tree else room.root / "nowhere",
        "environ": {},
        "index": "https://packages.example.org/",
        "work_dir": Path("/"),
        **more,
    }
    return diagnose(
        python=room.python,
        which=lambda name: f"/usr/bin/{name}",
        **given,  # type: ignore[arg-type]
    )


def pip(room: Room, verb: str = "install") -> str:
    """The hand-made environment has no pip, as uv leaves it."""
    return f"uv pip {verb} --python {room.python}"
