"""A tiny ROCm as Python packages, made by hand with zipfile and tarfile, for the tests of runtime/."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[3] / "runtime"
VERSION = "5.2.3"
FAMILY = "gfx90X-dcgpu"
OTHER = "gfx103X-dgpu"
LIBRARIES = "_rocm_sdk_libraries_gfx90x_dcgpu"
SCRIPT = b'#!/bin/sh\necho "$(basename "$0") from $(dirname "$0") $*"\n'

ROCM_SET: dict = {
    "version": VERSION,
    "families": {FAMILY: ["gfx906", "gfx90a"], OTHER: ["gfx1030", "gfx1031"]},
    "default_family": FAMILY,
    "packages": {
        "core": {"distribution": "rocm-sdk-core", "module": "_rocm_sdk_core"},
        "libraries": {
            FAMILY: {"distribution": "rocm-sdk-libraries-gfx90X-dcgpu", "module": LIBRARIES},
            OTHER: {
                "distribution": "rocm-sdk-libraries-gfx103X-dgpu",
                "module": "_rocm_sdk_libraries_gfx103x_dgpu",
            },
        },
        "devel": {"distribution": "rocm-sdk-devel", "module": "_rocm_sdk_devel"},
    },
    "libraries": {
        "amdhip64": {"package": "core", "path": "lib/libamdhip64.so.5"},
        "amd_comgr": {"package": "core", "path": "lib/libamd_comgr.so.2"},
        "rocblas": {"package": "libraries", "path": "lib/librocblas.so.0"},
    },
    "absent_libraries": {"rccl": "libraries"},
    "not_loadable": {"core": {"lib/libplugin*.so": "a plugin of the compiler"}},
}

# librocblas needs a symbol of libamdhip64 without naming it, so it loads only after a global preload.
SOURCES = {
    "libamdhip64.so.5": "int hip_answer(void) { return 42; }",
    "libamd_comgr.so.2": "int comgr_answer(void) { return 1; }",
    "librocblas.so.0": "extern int hip_answer(void); int blas_answer(void) { return hip_answer(); }",
}


def compile_libraries(directory: Path) -> dict[str, bytes]:
    made = {}
    for name, source in SOURCES.items():
        path = directory / name
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), f"-Wl,-soname,{name}"]
        subprocess.run(command, input=source.encode(), check=True)
        made[name] = path.read_bytes()
    return made


def write_wheel(directory, distribution, files, *, entry_points=None, requires=(), version=VERSION) -> Path:
    """A wheel from {path: bytes or (bytes, mode)}."""
    stem = f"{distribution.replace('-', '_').lower()}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    members = dict(files)
    members[f"{info}/METADATA"] = (metadata + "".join(f"Requires-Dist: {r}\n" for r in requires)).encode()
    members[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if entry_points:
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        members[f"{info}/entry_points.txt"] = ("[console_scripts]\n" + "\n".join(lines) + "\n").encode()
    path = Path(directory) / f"{stem}-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in members.items():
            data, mode = value if isinstance(value, tuple) else (value, 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            member = zipfile.ZipInfo(name)
            member.external_attr = (0o100000 | mode) << 16
            archive.writestr(member, data)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


def pure(name: str, package: str) -> dict[str, bytes]:
    """The pure package `name` of runtime/, under its name in the wheel."""
    source = next(RUNTIME.glob(f"*/{name}"))
    return {f"{package}/{file.name}": file.read_bytes() for file in source.glob("*.py")}


def init(version: str = VERSION) -> bytes:
    return f'__version__ = "{version}"\n'.encode()


def core_wheel(directory, libraries, *, version=VERSION, clang=SCRIPT) -> Path:
    files: dict = {
        "_rocm_sdk_core/__init__.py": init(version),
        "_rocm_sdk_core/bin/hipcc": (SCRIPT, 0o755),
        "_rocm_sdk_core/bin/rocminfo": (SCRIPT, 0o755),
        "_rocm_sdk_core/lib/llvm/bin/clang": (clang, 0o755),
        "_rocm_sdk_core/lib/llvm/bin/amdclang++": (SCRIPT, 0o755),
        "_rocm_sdk_core/lib/libplugin-x.so": b"\x7fELF but not loadable",
        **pure("rocm_sdk_core", "rocm_sdk_core"),
    }
    for name in ("libamdhip64.so.5", "libamd_comgr.so.2"):
        files[f"_rocm_sdk_core/lib/{name}"] = (libraries[name], 0o755)
    commands = {"hipcc": "hipcc", "amdclang++": "amdclangpp", "rocminfo": "rocminfo"}
    points = {name: f"rocm_sdk_core._cli:{attribute}" for name, attribute in commands.items()}
    return write_wheel(directory, "rocm-sdk-core", files, entry_points=points, version=version)


def libraries_wheel(directory, libraries, *, family=FAMILY, version=VERSION) -> Path:
    entry = ROCM_SET["packages"]["libraries"][family]
    module = entry["module"]
    files = {
        f"{module}/__init__.py": init(version),
        f"{module}/lib/librocblas.so.0": (libraries["librocblas.so.0"], 0o755),
        f"{module}/lib/rocblas/library/data.dat": b"tensile",
        **pure("rocm_sdk_libraries", module[1:]),
    }
    return write_wheel(directory, entry["distribution"], files, version=version)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


HEADER = b"#define HIP_VERSION 50200000\n"
TOOL = b"#!/bin/sh\nexit 0\n"
DEVEL_FILES = {
    "include/hip/hip_version.h": (HEADER, 0o644),
    "lib/cmake/hip/hip-config.cmake": (b"set(hip_FOUND 1)\n", 0o644),
    "bin/tool": (TOOL, 0o755),
}
DEVEL_ENTRIES: list[list[str]] = [
    ["bin/hipcc", "sibling", "../_rocm_sdk_core/bin/hipcc"],
    ["bin/tool", "file", digest(TOOL)],
    ["include/hip/hip_version.h", "file", digest(HEADER)],
    ["lib/cmake/hip/hip-config.cmake", "file", digest(b"set(hip_FOUND 1)\n")],
    ["lib/libamdhip64.so", "link", "libamdhip64.so.5"],
    ["lib/libamdhip64.so.5", "sibling", "../_rocm_sdk_core/lib/libamdhip64.so.5"],
    ["lib/librocblas.so.0", "sibling", "../@libraries@/lib/librocblas.so.0"],
    ["lib/llvm/bin/clang", "sibling", "../_rocm_sdk_core/lib/llvm/bin/clang"],
    ["lib/llvm/bin/clang++", "link", "clang"],
    ["lib/rocblas/library/data.dat", "sibling", f"../{LIBRARIES}/lib/rocblas/library/data.dat"],
    ["llvm", "dirlink", "lib/llvm"],
]


def devel_tar(files=None, *, compression: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{compression}") as tar:
        for name, (data, mode) in (DEVEL_FILES if files is None else files).items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def devel_wheel(directory, *, entries=None, tar=None, name="_devel.tar", count=None, version=VERSION) -> Path:
    entries = DEVEL_ENTRIES if entries is None else entries
    tar = devel_tar(compression="xz" if name.endswith("xz") else "") if tar is None else tar
    manifest = {"files": len(entries) if count is None else count, "sha256": digest(tar), "entries": entries}
    files = {
        "_rocm_sdk_devel/__init__.py": init(version),
        "_rocm_sdk_devel/_devel.json": json.dumps(manifest).encode(),
        f"_rocm_sdk_devel/{name}": tar,
        **pure("rocm_sdk_devel", "rocm_sdk_devel"),
    }
    return write_wheel(directory, "rocm-sdk-devel", files, version=version)


def sdist_tree(directory, rocm_set=None) -> Path:
    """The unpacked `rocm` sdist."""
    rocm_set = rocm_set or ROCM_SET
    top = Path(directory) / f"rocm-{rocm_set['version']}"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(RUNTIME / "rocm", top, ignore=ignore)
    (top / "PKG-INFO").write_text(
        f"Metadata-Version: 2.2\nName: rocm\nVersion: {rocm_set['version']}\nRequires-Python: >=3.8\n"
        "Dynamic: Requires-Dist\nDynamic: Provides-Extra\n"
    )
    (top / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "rocm_build_backend"\nbackend-path = ["."]\n'
    )
    (top / "rocm_set.json").write_text(json.dumps(rocm_set))
    return top


def sdist(directory, rocm_set=None) -> Path:
    top = sdist_tree(Path(directory) / "tree", rocm_set)
    path = Path(directory) / f"{top.name}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(top, top.name)
    shutil.rmtree(top.parent)
    return path


def build_rocm(directory, *, rocm_set=None, family=FAMILY) -> Path:
    """The `rocm` wheel, made by its own backend in a process of its own."""
    top = sdist_tree(Path(directory) / "tree", rocm_set)
    code = "import sys, rocm_build_backend as b; print(b.build_wheel(sys.argv[1]))"
    environ = {**os.environ, "ROCM_SDK_TARGET_FAMILY": family, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, cwd=top, env=environ, check=True, capture_output=True, text=True)
    shutil.rmtree(top.parent)
    return Path(directory) / done.stdout.strip()


def unpack(site: Path, *wheels: Path) -> Path:
    """Install wheels as an installer does, less scripts: files with their modes."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = Path(archive.extract(member, site))
                path.chmod(member.external_attr >> 16 & 0o777 or 0o644)
    return site


def python(site: Path, code: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that sees the site-packages `site`."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**child_environ(site), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def child_environ(site: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROCM_")}
    return {**kept, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def rocm_sdk(site: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return python(site, "import sys, rocm_sdk._cli as c; sys.exit(c.main())", *arguments, **environ)
