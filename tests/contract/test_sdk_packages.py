"""A small ROCm made by gcc becomes packages; real pip and uv install them, and everything promised works."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from needs import needs
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.release import Packaging
from unit.sdk import artifact_trees

# Real installations: seconds each.
pytestmark = [
    pytest.mark.slow,
    needs("gcc", "readelf", "objdump"),
]

VERSION = "6.4.1"
TARGETS = ("gfx906:xnack-", "gfx90a:xnack+", "gfx90a:xnack-", "gfx1030")
FAMILY = "contract-set"
CORE, LIBRARIES, DEVEL = "_rocm_sdk_core", "_rocm_sdk_libraries_contract_set", "_rocm_sdk_devel"

HIP = "int hipRuntimeGetVersion(int *version) { *version = 60443484; return 0; }\n"
BLAS = """
extern int hipRuntimeGetVersion(int *);
int rocblas_hip(void) { int version = 0; hipRuntimeGetVersion(&version); return version; }
__asm__(".section .hip_fatbin,\\"a\\",@progbits\\n.balign 4096\\n.incbin \\"code.bin\\"\\n.text\\n");
"""
INFO = """
#include <stdio.h>
#include <stdlib.h>
int hipRuntimeGetVersion(int *);
int main(int argc, char **argv) {
    int version;
    hipRuntimeGetVersion(&version);
    printf("%d", version);
    for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"""
CLANG = (
    '#include <stdio.h>\nint main(int argc, char **argv) { return printf("%s %d\\n", argv[0], argc) < 0; }\n'
)


def gcc(directory: Path, text: str, output: str, *flags: str) -> Path:
    (directory / "code.c").write_text(text)
    path = directory / "rocm" / output
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-o", path, "code.c", *flags], cwd=directory, check=True, capture_output=True)
    return path


def code_bundle() -> bytes:
    """An offload bundle as the documentation of clang-offload-bundler describes it."""
    ids = ["host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in TARGETS)]
    head = 32 + sum(24 + len(text) for text in ids)
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for number, text in enumerate(ids):
        data += (
            struct.pack("<QQQ", head + 8 * max(0, number - 1), 8 * (number > 0), len(text)) + text.encode()
        )
    return data + b"".join(f"object{number:2}".encode() for number in range(len(TARGETS)))


@pytest.fixture(scope="session")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix as ROCm's packages install it."""
    directory = tmp_path_factory.mktemp("contract-rocm")
    root = directory / "rocm"
    (directory / "code.bin").write_bytes(code_bundle())
    shared = ("-shared", "-fPIC")
    gcc(directory, HIP, "lib/libamdhip64.so.6.4.43484", *shared, "-Wl,-soname,libamdhip64.so.6")
    hip = str(root / "lib/libamdhip64.so.6.4.43484")
    absolute = "-Wl,--enable-new-dtags,-rpath,/opt/rocm/lib"
    gcc(directory, BLAS, "lib/librocblas.so.4.4", *shared, "-Wl,-soname,librocblas.so.4", absolute, hip)
    gcc(directory, INFO, "bin/rocminfo", hip)
    gcc(directory, CLANG, "lib/llvm/bin/clang-19")
    texts = {
        ".info/version": f"{VERSION}-83\n",
        "include/hip/hip_version.h": "#define HIP_VERSION_MAJOR 6\n",
        "include/empty.h": "",
        "lib/cmake/hip/hip-config.cmake": "set(hip_FOUND 1)\n",
        "lib/librocblas_static.a": "!<arch>\n",
        "lib/rocblas/library/TensileLibrary_gfx90a.dat": "tensile\n",
        "libexec/rocm_smi/rocm_smi.py": (
            "#!/usr/bin/env python3\nimport pathlib, sys\n"
            "beside = pathlib.Path(__file__).resolve().parent / 'rsmi.txt'\n"
            "print(beside.read_text(), sys.argv[1:])\nsys.exit(3)\n"
        ),
        "libexec/rocm_smi/rsmi.txt": "beside",
        "share/hip/version": "HIP_VERSION_MAJOR=6\n",
        "share/doc/ä name with spaces.txt": "ä",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "libexec/rocm_smi/rocm_smi.py").chmod(0o755)
    for name, target in {
        "lib/libamdhip64.so.6": "libamdhip64.so.6.4.43484",
        "lib/libamdhip64.so": "libamdhip64.so.6",
        "lib/librocblas.so.4": "librocblas.so.4.4",
        "lib/librocblas.so": "librocblas.so.4",
        "lib/llvm/bin/clang": "clang-19",
        "lib/llvm/bin/clang++": "clang",
        "bin/amdclang++": "../lib/llvm/bin/clang++",
        "bin/rocm-smi": "../libexec/rocm_smi/rocm_smi.py",
        "bin/.hipVersion": "../share/hip/version",
        "llvm": "lib/llvm",
        "lib/gone.so": "nowhere.so",
    }.items():
        (root / name).symlink_to(target)
    return root


@pytest.fixture(scope="session")
def built(rocm: Path, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return build_packages(
        read_prefix(rocm), tmp_path_factory.mktemp("contract-dist"), Packaging(family=FAMILY)
    )


@dataclass(frozen=True)
class Installed:
    """A virtual environment that has the packages; nothing of the caller's environment reaches it."""

    root: Path

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.root),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }

    @cached_property
    def site(self) -> Path:
        (found,) = self.root.glob("lib/python3*/site-packages")
        return found

    def run(self, *words: str | Path, code: int = 0) -> str:
        """Standard output of a command of the environment, which must end with `code`."""
        command = [self.root / "bin" / words[0], *words[1:]]
        done = subprocess.run(command, env=self.variables, cwd="/", capture_output=True, text=True)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, code: str) -> str:
        return self.run("python", "-c", code)


def files(site: Path) -> set[str]:
    return {str(path.relative_to(site)) for path in site.rglob("*")}


def new_environment(root: Path, *, pip: bool) -> Installed:
    words = [sys.executable, "-m", "venv", *([] if pip else ["--without-pip"]), str(root)]
    subprocess.run(words, check=True, capture_output=True, env={"PATH": os.environ["PATH"]})
    return Installed(root)


UV = Path(sys.executable).with_name("uv")
INSTALLERS = ["pip", pytest.param("uv", marks=pytest.mark.skipif(not UV.exists(), reason="uv is not there"))]


@pytest.fixture(scope="session", params=INSTALLERS)
def environment(
    request: pytest.FixtureRequest, built: BuiltPackages, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Installed, set[str]]:
    """The installer's name, an environment with rocm[libraries,devel], and what was there before."""
    installer = request.param
    root = tmp_path_factory.mktemp(f"contract {installer}") / "venv"
    environment = new_environment(root, pip=installer == "pip")
    before = files(environment.site)
    install(installer, environment, built, "rocm[libraries,devel]")
    return installer, environment, before


def install(installer: str, environment: Installed, built: BuiltPackages, *what: str) -> None:
    python = str(environment.root / "bin/python")
    places = ["--no-index", "--find-links", built.directory]
    if installer == "pip":
        command = [python, "-m", "pip", "install", "--no-cache-dir", *places, *what]
    else:
        command = [str(UV), "pip", "install", "--no-config", "--python", python]
        command += ["--cache-dir", str(environment.root.parent / "uv-cache"), *places, *what]
    done = subprocess.run(command, env=environment.variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installed_packages_are_of_one_version(environment: tuple[str, Installed, set[str]]) -> None:
    _, installed, _ = environment
    assert installed.run("rocm-sdk", "version") == f"{VERSION}\n"
    facts = json.loads(installed.run("rocm-sdk", "version", "--json"))
    assert facts["family"] == FAMILY
    assert facts["rocm"] == VERSION
    present = {role: version for role, version in facts["packages"].items() if version is not None}
    assert present == dict.fromkeys(("core", "libraries", "devel"), VERSION)
    assert facts["libraries"] == ["amdhip64", "rocblas"]


def test_targets_are_those_of_the_code_objects(
    built: BuiltPackages, environment: tuple[str, Installed, set[str]]
) -> None:
    assert built.targets == ("gfx906", "gfx90a", "gfx1030")
    assert set(environment[1].run("rocm-sdk", "targets").strip().split(";")) == set(built.targets)


def test_the_devel_tree_has_the_layout_of_the_prefix(
    rocm: Path, environment: tuple[str, Installed, set[str]]
) -> None:
    _, installed, _ = environment
    root = Path(installed.run("rocm-sdk", "path", "--root").strip())
    assert root == installed.site / DEVEL
    assert installed.run("rocm-sdk", "path", "--bin").strip() == str(root / "bin")
    cmake = Path(installed.run("rocm-sdk", "path", "--cmake").strip())
    assert (cmake / "hip/hip-config.cmake").read_text() == "set(hip_FOUND 1)\n"
    ours = files(root) - {".rocm-sdk-expanded", "__init__.py"}
    assert ours == files(rocm) - {"lib/gone.so"}
    for path in sorted(files(rocm)):
        here, there = rocm / path, root / path
        if here.is_dir() or path == "lib/gone.so":
            assert there.is_dir() == here.is_dir()
            continue
        assert os.access(there, os.X_OK) == os.access(here, os.X_OK) or ".so" in path, path
        # Libraries and programs get another RPATH on the way; all else is the same to the byte.
        if here.read_bytes()[:4] != b"\x7fELF":
            assert there.read_bytes() == here.read_bytes(), path
    assert (root / "lib/libamdhip64.so").resolve() == (
        installed.site / CORE / "lib/libamdhip64.so.6"
    ).resolve()


def test_every_library_loads_from_the_packages_and_from_the_devel_tree(
    environment: tuple[str, Installed, set[str]],
) -> None:
    _, installed, _ = environment
    root = Path(installed.run("rocm-sdk", "path", "--root").strip())
    places = [installed.site / CORE / "lib", installed.site / LIBRARIES / "lib", root / "lib"]
    libraries = [str(path) for place in places for path in sorted(place.glob("*.so*"))]
    assert len(libraries) == 1 + 1 + 6
    for path in libraries:
        installed.python(f"import ctypes; ctypes.CDLL({path!r}, mode=2)")


def test_a_process_uses_the_library_of_the_package(environment: tuple[str, Installed, set[str]]) -> None:
    _, installed, _ = environment
    said = installed.python(
        "import rocm_sdk, json; print(json.dumps(rocm_sdk.find_libraries('amdhip64', 'rocblas')))"
    )
    assert json.loads(said) == [
        str(installed.site / CORE / "lib/libamdhip64.so.6"),
        str(installed.site / LIBRARIES / "lib/librocblas.so.4"),
    ]
    said = installed.python(
        "import rocm_sdk, ctypes\n"
        f"rocm_sdk.initialize_process(preload_shortnames=['rocblas'], check_version={VERSION!r}, "
        "fail_on_version_mismatch=True)\n"
        "print(ctypes.CDLL(None).rocblas_hip())\n"
        "lines = [l for l in open('/proc/self/maps') if 'libamdhip64' in l]\n"
        "print(*{line.split(None, 5)[-1].strip() for line in lines})\n"
    )
    assert said == f"60443484\n{installed.site / CORE / 'lib/libamdhip64.so.6'}\n"


def test_an_unknown_and_an_absent_library_are_told_apart(
    environment: tuple[str, Installed, set[str]],
) -> None:
    said = environment[1].python(
        "import rocm_sdk\n"
        "for name in ('rccl', 'nonsense'):\n"
        "    try: rocm_sdk.find_libraries(name)\n"
        "    except ModuleNotFoundError as error: print(str(error).split(';')[0])\n"
    )
    assert said.splitlines() == [
        f"ROCm library 'rccl' is not part of ROCm {VERSION} as Python packages",
        "unknown ROCm library 'nonsense'",
    ]


def test_commands_run(environment: tuple[str, Installed, set[str]]) -> None:
    _, installed, _ = environment
    scripts = {path.name for path in (installed.root / "bin").iterdir()}
    assert {"rocminfo", "rocm-smi", "amdclang++", "rocm-sdk"} <= scripts
    assert not scripts & {"hipcc", "amd-smi", "amdclang"}
    assert installed.run("rocminfo") == "60443484"
    assert installed.run("rocminfo", "7", "a b", "", code=7) == "60443484 [7] [a b] []"
    # A script's link: what it looks for beside its own real path is there.
    assert installed.run("rocm-smi", "--x y", code=3) == "beside ['--x y']\n"
    # A compiler runs from the expanded tree, under the name it was called by.
    program = installed.site / DEVEL / "bin/amdclang++"
    assert installed.run("amdclang++", "--version") == f"{program} 2\n"


def test_the_self_test_passes_without_a_gpu(environment: tuple[str, Installed, set[str]]) -> None:
    report = json.loads(environment[1].run("rocm-sdk", "test", "--json"))
    assert report["counts"]["failed"] == 0
    verdicts = {check["id"]: check["verdict"] for check in report["checks"]}
    for name in (
        "package:core",
        "package:libraries",
        "package:devel",
        "library:amdhip64",
        "library:rocblas",
        f"load:{CORE}/lib/libamdhip64.so.6",
        f"load:{LIBRARIES}/lib/librocblas.so.4",
    ):
        assert verdicts[name] == "passed", name


def test_runtime_packages_hold_no_links_and_no_absolute_paths(
    environment: tuple[str, Installed, set[str]],
) -> None:
    _, installed, _ = environment
    for module in (CORE, LIBRARIES):
        for path in (installed.site / module).rglob("*"):
            assert not path.is_symlink(), path
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                said = subprocess.run(
                    ["readelf", "-dW", path], capture_output=True, text=True, check=True
                ).stdout
                assert "RUNPATH" not in said, path
                entries = "".join(re.findall(r"\(RPATH\).*\[(.*)\]", said)).split(":")
                assert len(set(entries)) == len(entries)
                assert all(entry.startswith("$ORIGIN") for entry in entries if entry), path


def test_a_moved_environment_still_finds_its_libraries(
    environment: tuple[str, Installed, set[str]], tmp_path: Path
) -> None:
    _, installed, _ = environment
    for module in (CORE, LIBRARIES):
        shutil.copytree(installed.site / module, tmp_path / "new place" / module)
    library = tmp_path / "new place" / LIBRARIES / "lib/librocblas.so.4"
    said = installed.python(f"import ctypes; print(ctypes.CDLL({str(library)!r}).rocblas_hip())")
    assert said == "60443484\n"


def test_checked_by_the_installer(environment: tuple[str, Installed, set[str]]) -> None:
    installer, installed, _ = environment
    if installer == "pip":
        assert "No broken requirements" in installed.run("python", "-m", "pip", "check")
    else:
        words = [str(UV), "pip", "check", "--no-config", "--python", str(installed.root / "bin/python")]
        subprocess.run(words, check=True, capture_output=True, env=installed.variables)


def test_without_extras_only_core_comes(built: BuiltPackages, tmp_path: Path) -> None:
    if not UV.exists():
        pytest.skip("uv is not there; pip would take seconds more for the same")
    installed = new_environment(tmp_path / "venv", pip=False)
    install("uv", installed, built, "rocm")
    assert {path.name for path in installed.site.glob("_rocm*")} == {CORE}
    assert installed.run("rocminfo") == "60443484"
    launcher = installed.site / CORE / "bin/amdclang++"
    assert installed.run("amdclang++", "a", "b") == f"{launcher} 3\n"
    said = installed.python(
        "import rocm_sdk\ntry: rocm_sdk.find_libraries('rocblas')\nexcept ImportError as error: print(error)"
    )
    assert "rocm[libraries]" in said
    root = installed.run("rocm-sdk", "path", "--root").strip()
    assert root == str(installed.site / CORE)
    install("uv", installed, built, f"rocm[libraries-{FAMILY}]")
    assert installed.run("rocm-sdk", "targets").strip().split(";") == sorted(built.targets)


# Last in the file, because it ends the environment that the others use.
def test_uninstalling_leaves_nothing(environment: tuple[str, Installed, set[str]]) -> None:
    installer, installed, before = environment
    installed.run("rocm-sdk", "init", "--quiet")
    names = ["rocm", "rocm-sdk-devel", "rocm-sdk-libraries-contract-set", "rocm-sdk-core"]
    if installer == "pip":
        installed.run("python", "-m", "pip", "uninstall", "-y", *names)
    else:
        python = str(installed.root / "bin/python")
        words = [str(UV), "pip", "uninstall", "--no-config", "--python", python, *names]
        subprocess.run(words, check=True, capture_output=True, env=installed.variables)
    assert files(installed.site) == before
    assert not {path.name for path in (installed.root / "bin").iterdir()} & {
        "rocminfo",
        "rocm-sdk",
        "rocm-smi",
    }


# Device code in packages of its own


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    """The packages of split artifacts, for gfx90a, gfx942 and gfx1100."""
    return artifact_trees.built(tmp_path_factory, split=True)


@pytest.fixture(scope="module")
def device(split: BuiltPackages, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with all packages but those of two targets."""
    installed = new_environment(tmp_path_factory.mktemp("contract device") / "venv", pip=not UV.exists())
    install(INSTALLER, installed, split, "rocm[libraries,devel,profiler,device-gfx942]")
    return installed


INSTALLER = "uv" if UV.exists() else "pip"
MODULE = "_rocm_sdk_libraries"


def targets(installed: Installed) -> list[str]:
    return installed.run("rocm-sdk", "targets").strip().split(";")


def uninstall(installed: Installed, *names: str) -> None:
    python = str(installed.root / "bin/python")
    if INSTALLER == "pip":
        installed.run("python", "-m", "pip", "uninstall", "-y", *names)
    else:
        words = [str(UV), "pip", "uninstall", "--no-config", "--python", python, *names]
        subprocess.run(words, check=True, capture_output=True, env=installed.variables)


def test_a_target_that_was_asked_for_is_there_and_no_other(device: Installed) -> None:
    assert targets(device) == ["gfx942"]
    found = {path.name for path in (device.site / MODULE / ".kpack").iterdir()}
    # Of each artifact what its host says of itself, the target's archive, and what the target's part says.
    endings = (".json", "_gfx942.kpack", "_gfx942.json")
    assert found == {f"{library}_lib{ending}" for library in ("blas", "rand") for ending in endings}


def test_the_devel_tree_of_split_packages_loads(device: Installed) -> None:
    root = Path(device.run("rocm-sdk", "path", "--root").strip())
    for library in ("librocblas.so", "librocrand.so", "libMIOpen.so.1", "libMIOpenCK_conv_gfx942.so"):
        device.python(f"import ctypes; ctypes.CDLL({str(root / 'lib' / library)!r}, mode=2)")
    # A split library looks for its archives from its own directory.
    assert (root / ".kpack/blas_lib_gfx942.kpack").is_file()
    # Another target's file is a link to where it will be.
    absent = root / "lib/libMIOpenCK_conv_gfx1100.so"
    assert absent.is_symlink()
    assert not absent.exists()


def test_a_device_package_comes_and_goes_without_a_new_expansion(
    device: Installed, split: BuiltPackages
) -> None:
    root = Path(device.run("rocm-sdk", "path", "--root").strip())
    before = (root / "lib").stat().st_ino
    install(INSTALLER, device, split, "rocm[device-gfx90a]")
    assert targets(device) == ["gfx90a", "gfx942"]
    archives = [f"{library}_lib_gfx90a:xnack{sign}.kpack" for library in ("blas", "rand") for sign in "+-"]
    inside = [
        root / "lib/libMIOpenCK_conv_gfx90a.so",
        root / "lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat",
        *(root / ".kpack" / name for name in archives),
    ]
    assert all(path.is_file() for path in inside)
    uninstall(device, "rocm-sdk-device-gfx90a")
    assert targets(device) == ["gfx942"]
    assert not any(path.exists() for path in inside)
    assert (root / "lib/rocblas/library/TensileLibrary_lazy_gfx942.dat").is_file()
    assert (root / "lib/rocblas/library/TensileManifest.txt").is_file()
    assert (root / "lib").stat().st_ino == before


def test_the_profiler_runs(device: Installed) -> None:
    assert device.run("rocprof-sys-run", "a b").splitlines()[1] == "<a b>"
    assert device.run("rocprof-compute") == "compute\n"


def test_the_self_test_of_split_packages_passes(device: Installed) -> None:
    report = json.loads(device.run("rocm-sdk", "test", "--static", "--json"))
    failed = [check for check in report["checks"] if check["verdict"] == "failed"]
    assert failed == []


def test_no_device_is_ever_chosen(device: Installed, split: BuiltPackages) -> None:
    before = files(device.site)
    with pytest.raises(AssertionError) as caught:
        install(INSTALLER, device, split, "rocm[device]")
    said = str(caught.value)
    for target in ("gfx90a", "gfx942", "gfx1100"):
        assert f"device-{target}" in said
    assert files(device.site) == before


def test_uninstalling_split_packages_leaves_nothing(device: Installed) -> None:
    device.run("rocm-sdk", "init", "--quiet")
    names = ["core", "libraries", "device-gfx942", "devel"]
    uninstall(device, "rocm", "rocm-profiler", *(f"rocm-sdk-{name}" for name in names))
    assert not [path for path in device.site.rglob("*rocm*") if not path.is_relative_to(device.site / "pip")]
