"""A tiny ROCm as Python packages, made by hand with zipfile and tarfile, for the tests of runtime/."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

from wheels import ANY, write_wheel

RUNTIME = Path(__file__).resolve().parents[3] / "runtime"
VERSION = "5.2.3"
FAMILY = "gfx90X-dcgpu"
OTHER = "gfx103X-dgpu"
LIBRARIES = "_rocm_sdk_libraries_gfx90x_dcgpu"
SCRIPT = b'#!/bin/sh\necho "$(basename "$0") from $(dirname "$0") $*"\n'

ROCM_SET: dict = {
    "version": VERSION,
    "mode": "legacy",
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
    "known_libraries": {
        "amdhip64": "core",
        "amd_comgr": "core",
        "hiprtc": "core",
        "rocblas": "libraries",
        "hipblas": "libraries",
        "rccl": "libraries",
    },
}

KPACK = "_rocm_sdk_libraries"
KPACK_SET: dict = {
    "version": VERSION,
    "mode": "kpack",
    "packages": {
        "core": {"distribution": "rocm-sdk-core", "module": "_rocm_sdk_core"},
        "libraries": {"distribution": "rocm-sdk-libraries", "module": KPACK},
        "devel": {"distribution": "rocm-sdk-devel", "module": "_rocm_sdk_devel"},
        "profiler": {"distribution": "rocm-profiler", "module": "_rocm_profiler", "platforms": ["linux"]},
        "device_refusal": {"distribution": "rocm-sdk-device"},
    },
    "devices": {
        "gfx906": {
            "distribution": "rocm-sdk-device-gfx906",
            "serves": ["gfx906"],
            "platforms": ["linux", "windows"],
        },
        "gfx1030": {"distribution": "rocm-sdk-device-gfx1030", "serves": ["gfx1030"], "platforms": ["linux"]},
        "gfx11": {"distribution": "rocm-sdk-device-gfx11", "serves": ["gfx1100", "gfx1101"]},
    },
    "known_libraries": ROCM_SET["known_libraries"],
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


def rocm_wheel(
    directory, distribution, files, *, entry_points=None, requires=(), version=VERSION, other_points=""
) -> Path:
    """A wheel from {path: bytes or (bytes, mode)}."""
    members = {name: value[0] if isinstance(value, tuple) else value for name, value in files.items()}
    modes = {name: 0o100000 | value[1] for name, value in files.items() if isinstance(value, tuple)}
    project = distribution.lower()
    if entry_points or other_points:
        lines = [f"{name} = {value}" for name, value in (entry_points or {}).items()]
        info = f"{project.replace('-', '_')}-{version}.dist-info"
        members[f"{info}/entry_points.txt"] = "\n".join(["[console_scripts]", *lines, other_points])
    return write_wheel(
        Path(directory),
        project,
        version,
        members,
        requires=requires,
        tag=ANY,
        said=(distribution, version),
        modes=modes,
    )


def pure(name: str, package: str) -> dict[str, bytes]:
    """The pure package `name` of runtime/, under its name in the wheel."""
    source = next(RUNTIME.glob(f"*/{name}"))
    files = sorted(source.rglob("*.py"))
    return {f"{package}/{file.relative_to(source).as_posix()}": file.read_bytes() for file in files}


def init(version: str = VERSION, **facts: object) -> bytes:
    return "".join(
        f"{name} = {value!r}\n" for name, value in {"__version__": version, **facts}.items()
    ).encode()


CORE_LIBRARIES = {"amdhip64": "lib/libamdhip64.so.5", "amd_comgr": "lib/libamd_comgr.so.2"}
PLUGINS = {"lib/libplugin*.so": "a plugin of the compiler"}
SOURCE_VERSIONS = {"clr": "0123abc"}


def core_wheel(directory, libraries, *, version=VERSION, clang=SCRIPT) -> Path:
    files: dict = {
        "_rocm_sdk_core/__init__.py": init(version, LIBRARIES=CORE_LIBRARIES, NOT_LOADABLE=PLUGINS),
        "_rocm_sdk_core/_sources.json": json.dumps({"version": version, "sources": SOURCE_VERSIONS}).encode(),
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
    return rocm_wheel(directory, "rocm-sdk-core", files, entry_points=points, version=version)


def libraries_wheel(directory, libraries, *, family=FAMILY, version=VERSION) -> Path:
    """The libraries package of a family; without one, that of kpack mode."""
    entry = ROCM_SET["packages"]["libraries"][family] if family else KPACK_SET["packages"]["libraries"]
    module = entry["module"]
    targets = {"TARGETS": tuple(ROCM_SET["families"][family])} if family else {}
    files = {
        f"{module}/__init__.py": init(version, LIBRARIES={"rocblas": "lib/librocblas.so.0"}, **targets),
        f"{module}/lib/librocblas.so.0": (libraries["librocblas.so.0"], 0o755),
        f"{module}/lib/rocblas/library/data.dat": b"tensile",
        **pure("rocm_sdk_libraries", module[1:]),
    }
    requires = [f"rocm-sdk-core=={version}"]
    return rocm_wheel(directory, entry["distribution"], files, version=version, requires=requires)


def device_wheel(directory, word, *, version=VERSION) -> Path:
    """A device package: it lays files into the libraries package, and says so in a file of its own name."""
    entry = KPACK_SET["devices"][word]
    target = entry["serves"][0]
    marker = {"target": word, "serves": entry["serves"], "version": version, "code": entry["serves"]}
    files = {
        f"{KPACK}/_device_{word}.json": json.dumps(marker).encode(),
        f"{KPACK}/.kpack/rocblas_{word}.kpack": b"KPAK" + word.encode(),
        f"{KPACK}/lib/rocblas/library/kernels_{target}.co": word.encode(),
    }
    requires = [f"rocm-sdk-libraries=={version}"]
    return rocm_wheel(directory, entry["distribution"], files, version=version, requires=requires)


def profiler_wheel(directory, *, version=VERSION) -> Path:
    files = {
        "_rocm_profiler/__init__.py": init(version),
        "_rocm_profiler/bin/rocprof-sys-run": (SCRIPT, 0o755),
        **pure("rocm_profiler", "rocm_profiler"),
    }
    points = {"rocprof-sys-run": "rocm_profiler._cli:rocprof_sys_run"}
    return rocm_wheel(directory, "rocm-profiler", files, entry_points=points, version=version)


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
# What device packages bring into the libraries package, as the devel tree of kpack mode shows it.
OVERLAYS: list[list[str]] = [
    [".kpack", "overlay", "../@libraries@/.kpack"],
    ["lib/rocblas/library/kernels_gfx906.co", "overlay", f"../{KPACK}/lib/rocblas/library/kernels_gfx906.co"],
]
KPACK_ENTRIES = [
    [path, kind, value.replace(f"/{LIBRARIES}/", f"/{KPACK}/")] for path, kind, value in DEVEL_ENTRIES
] + OVERLAYS


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
        "rocm_sdk_devel/__init__.py": init(version),
        "rocm_sdk_devel/_devel.json": json.dumps(manifest).encode(),
        f"rocm_sdk_devel/{name}": tar,
        **pure("rocm_sdk_devel", "rocm_sdk_devel"),
    }
    return rocm_wheel(
        directory,
        "rocm-sdk-devel",
        files,
        version=version,
        requires=[f"rocm-sdk-core=={version}"],
        other_points="[cmake.prefix]\nrocm = rocm_sdk_devel.cmake\n",
    )


def sdist_tree(directory, rocm_set=None) -> Path:
    """The unpacked `rocm` sdist."""
    rocm_set = rocm_set or ROCM_SET
    top = Path(directory) / f"rocm-{rocm_set['version']}"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(RUNTIME / "rocm", top, ignore=ignore)
    finish_sdist(top, "rocm_build_backend", rocm_set)
    return top


def refusal_tree(directory) -> Path:
    """The unpacked `rocm-sdk-device` sdist."""
    top = Path(directory) / f"rocm_sdk_device-{VERSION}"
    top.mkdir(parents=True)
    shutil.copy(RUNTIME / "rocm_device/rocm_device_backend.py", top)
    shutil.copy(RUNTIME / "rocm/src/rocm_sdk/_detect.py", top)
    finish_sdist(top, "rocm_device_backend", KPACK_SET)
    return top


def load_file(path: Path) -> ModuleType:
    """A module by its file, as the package builder loads the backends."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def finish_sdist(top: Path, backend: str, rocm_set: dict) -> None:
    lines = load_file(top / f"{backend}.py").metadata_lines(rocm_set)
    (top / "PKG-INFO").write_text("\n".join(lines) + "\n")
    (top / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "{backend}"\nbackend-path = ["."]\n'
    )
    (top / "rocm_set.json").write_text(json.dumps(rocm_set))


def sdist(directory, rocm_set=None) -> Path:
    return pack(directory, sdist_tree(Path(directory) / "tree", rocm_set))


def refusal(directory) -> Path:
    return pack(directory, refusal_tree(Path(directory) / "tree"))


def pack(directory, top: Path) -> Path:
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


def with_gpus(site: Path, *targets: str) -> Path:
    """Put GPUs into the machine that the packages in `site` see; returns the driver's nodes."""
    machine = site.parent / "machine"
    shutil.rmtree(machine, ignore_errors=True)
    machine.mkdir()
    for number, target in enumerate(targets, 1):
        node = machine / "nodes" / str(number)
        node.mkdir(parents=True)
        major, minor, step = int(target[3:-2]), int(target[-2], 16), int(target[-1], 16)
        version = major * 10000 + minor * 100 + step
        (node / "properties").write_text(f"simd_count 4\ngfx_target_version {version}\nunique_id {number}\n")
        (node / "name").write_text(f"model {number}\n")
    (machine / "kfd").touch()
    place = {"NODES": machine / "nodes", "KFD": machine / "kfd"}
    for detector in (
        *site.glob("rocm_sdk/_detect.py"),
        *site.glob("_detect.py"),
        *site.glob("src/*/_detect.py"),
    ):
        text = detector.read_text()
        for name, path in place.items():
            text = re.sub(rf'^{name} = ".*"$', f'{name} = "{path}"', text, flags=re.MULTILINE)
        detector.write_text(text)
    return machine / "nodes"


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
    foreign = ("ROCM_", "ROCR_", "HIP_", "HSA_", "CUDA_", "LD_LIBRARY_PATH", "GITHUB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def rocm_sdk(site: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return python(site, "import sys, rocm_sdk._cli as c; sys.exit(c.main())", *arguments, **environ)
