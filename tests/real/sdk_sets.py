"""ROCm packages that the newcomer made, and environments to install them into, with pip and with uv.

Two kinds of sets: the distribution's whole ROCm, and a small ROCm made by gcc that installs in a blink. All
are made by the command line. An environment knows nothing of the caller's, not even a ROCm variable.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.fat_library import bundle, code_object
from trees import link, script, write
from unit.sdk import sdk_trees, split_trees

if TYPE_CHECKING:
    from real.conftest import Newcomer
    from real.sdk_index import Index

# The small ROCm has code for these; the EF_AMDGPU_MACH numbers are those of LLVM's documentation.
SMALL_TARGETS = {"gfx942": 0x4C, "gfx1100": 0x41}
# The default families of the small set in legacy mode.
FAMILIES = {"gfx94X-dcgpu": "gfx942", "gfx110X-all": "gfx1100"}


# -- trees and sets ----------------------------------------------------------------------------------------


def small_tree(root: Path, version: str, targets: Iterable[str] = SMALL_TARGETS) -> Path:
    """An installed ROCm with files of every package and code for `targets`; its bytes differ by version."""
    seed = hashlib.sha256(version.encode()).digest()[0]
    lib = root / "lib"
    hip = sdk_trees.library(lib / "libamdhip64.so.6.1", soname="libamdhip64.so.6", symbol=f"hip_{seed}")
    link(lib / "libamdhip64.so.6", hip.name)
    link(lib / "libamdhip64.so", "libamdhip64.so.6")
    code = [(target, split_trees.code(SMALL_TARGETS[target], seed + i)) for i, target in enumerate(targets)]
    flags = ["-Wl,-soname,librocblas.so.4", "-Wl,--no-as-needed", str(hip)]
    split_trees.library(lib / "librocblas.so.4.1", [bundle(code)], ldflags=flags)
    link(lib / "librocblas.so.4", "librocblas.so.4.1")
    link(lib / "librocblas.so", "librocblas.so.4")
    for target in targets:
        kernel = code_object(SMALL_TARGETS[target], f"{version} {target}".encode() * 50)
        write(lib / f"rocblas/library/Kernels.so-000-{target}.hsaco", kernel)
    sdk_trees.program(root / "bin/rocminfo", flags=[str(hip)])
    sdk_trees.program(lib / "llvm/bin/clang-19")
    link(lib / "llvm/bin/clang++", "clang-19")
    link(root / "bin/amdclang++", "../lib/llvm/bin/clang++")
    script(root / "bin/hipcc", f'#!/bin/sh\necho {version} "$@"\n')
    script(root / "bin/hipconfig", f"#!/bin/sh\necho {version}\n")
    script(root / "bin/rocprof-compute", f"#!/bin/sh\necho profiler {version}\n")
    write(root / "libexec/rocprofiler-compute/rocprof_compute.py", f"print({version!r})\n")
    link(root / "llvm", "lib/llvm")
    write(root / "include/hip/hip_version.h", f"#define HIP_VERSION {version}\n")
    write(root / "include/rocblas/rocblas.h", f"// {version}\n")
    write(lib / "cmake/hip/hip-config.cmake", f'set(hip_VERSION "{version}")\n')
    write(root / ".info/version", f"{version}\n")
    return root


@dataclass(frozen=True)
class SmallSets:
    """The small ROCm in two versions for any GPU; the older also without sdists, and for families."""

    old: Path
    new: Path
    static: Path
    legacy: Path


def make_small_sets(newcomer: Newcomer, root: Path) -> SmallSets:
    for version in ("1.0", "1.1"):
        small_tree(root / f"rocm-{version}", version)
    artifacts = _family_artifacts(root)
    newcomer.own(root)
    for version in ("1.0", "1.1"):
        newcomer.rocwright(
            "kpack", "split", root / f"rocm-{version}", "--output-dir", root / f"split-{version}"
        )
        newcomer.rocwright("sdk", "import", root / f"split-{version}", "--dest-dir", root / f"dist-{version}")
    options = ["--dest-dir", root / "static", "--selector", "wheel"]
    newcomer.rocwright("sdk", "import", root / "split-1.0", *options)
    options = ["--dest-dir", root / "legacy", "--version", "1.0", "--without", "profiler"]
    newcomer.rocwright("sdk", "build", "--artifact-dir", artifacts, *options)
    return SmallSets(root / "dist-1.0", root / "dist-1.1", root / "static", root / "legacy/dist")


def _family_artifacts(root: Path) -> Path:
    """Artifacts of the small ROCm as a build for two families leaves them, device code inside."""
    place = root / "artifacts"
    for family, target in FAMILIES.items():
        tree = small_tree(root / f"rocm-{family}", "1.0", [target])
        artifact(place, f"blas_lib_{family}", tree, ["lib/librocblas*", "lib/rocblas/**/*"])
    artifact(place, "base_lib_generic", tree, [".info/*"])
    artifact(place, "amd-llvm_lib_generic", tree, ["lib/llvm/**/*", "llvm", "bin/amdclang*", "bin/hipc*"])
    artifact(place, "core-hip_lib_generic", tree, ["lib/libamdhip64*"])
    artifact(place, "core-runtime_run_generic", tree, ["bin/rocminfo"])
    artifact(place, "core-hip_dev_generic", tree, ["include/hip/*", "lib/cmake/hip/*"])
    artifact(place, "blas_dev_generic", tree, ["include/rocblas/*"])
    return place


def artifact(place: Path, name: str, tree: Path, patterns: Iterable[str]) -> Path:
    """An artifact directory with the files of `tree` that match, as hard links."""
    base = place / name / "part/stage"
    base.mkdir(parents=True)
    for source in sorted({path for pattern in patterns for path in tree.glob(pattern)}):
        target = base / source.relative_to(tree)
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target, follow_symlinks=False)
    (place / name / "artifact_manifest.txt").write_text("part/stage\n")
    return base


@dataclass(frozen=True)
class RealSets:
    """The distribution's ROCm: as it is, split, and as packages of each kind."""

    prefix: Path
    split: Path
    kpack: Path
    legacy: Path
    split_compiler: Path

    @property
    def version(self) -> str:
        return "5.2.3"


def make_real_sets(newcomer: Newcomer, cache: Path) -> RealSets:
    root = newcomer.home / "real"
    sets = RealSets(*(root / name for name in ("rocm", "split", "kpack", "legacy", "split-compiler")))
    newcomer.run("mkdir", root)
    newcomer.rocwright("sdk", "fetch", sets.prefix, "--cache-dir", cache)
    newcomer.rocwright("kpack", "split", sets.prefix, "--output-dir", sets.split)
    newcomer.rocwright("sdk", "import", sets.split, "--dest-dir", sets.kpack)
    options = ["--split-compiler", "--wheel-compression", "none"]
    newcomer.rocwright("sdk", "import", sets.split, "--dest-dir", sets.split_compiler, *options)
    options = ["--family", "debian12", "--wheel-compression", "fast"]
    newcomer.rocwright("sdk", "import", sets.prefix, "--dest-dir", sets.legacy, *options)
    return sets


# -- environments ------------------------------------------------------------------------------------------


@dataclass
class Environment:
    """A virtual environment of the newcomer's; its installers ask `index` only and keep to `cache`."""

    newcomer: Newcomer
    root: Path
    installer: str
    index: Index
    cache: Path
    baseline: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        words = [
            self._tool("uv"),
            "venv",
            "--quiet",
            "--no-config",
            "--python",
            "/usr/bin/python3",
            self.root,
        ]
        self._check(words)
        self.baseline = self.present()

    @property
    def variables(self) -> dict[str, str]:
        """All there is of an environment: what every user has, and no variable of ROCm, pip or uv."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.newcomer.home),
            "TMPDIR": "/tmp",
        }

    @cached_property
    def site(self) -> Path:
        (found,) = self.root.glob("lib/python3*/site-packages")
        return found

    def _tool(self, name: str) -> Path:
        return self.newcomer.clone / ".venv/bin" / name

    def _check(self, words: list[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
        done = self.call(*words, **more)
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
        return done

    def call(
        self, *words: str | Path, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run any program in this environment, ended well or not."""
        return subprocess.run(
            self.newcomer.command(*words),
            cwd=cwd or self.newcomer.home,
            env={**self.variables, **more},
            text=True,
            capture_output=True,
        )

    def run(
        self, program: str, *words: str | Path, cwd: Path | None = None, code: int = 0, **more: str
    ) -> str:
        """Standard output of a program of the environment, which must end with `code`."""
        done = self.call(self.root / "bin" / program, *words, cwd=cwd, **more)
        assert done.returncode == code, f"{program} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def command(self, verb: str) -> list[str | Path]:
        """The installer with a verb, for this environment."""
        python = self.root / "bin/python"
        if self.installer == "uv":
            return [self._tool("uv"), "pip", verb, "--no-config", "--python", python]
        # What `pip --python` starts in the environment's interpreter, in half the time.
        (runner,) = self.newcomer.clone.glob(".venv/lib/python3*/site-packages/pip/__pip-runner__.py")
        return [python, runner, verb, "--isolated", "--quiet", "--disable-pip-version-check"]

    def installing(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`install` with any options and requirements; may fail."""
        options = ["--cache-dir", self.cache, "--index-url", self.index.url]
        return self.call(*self.command("install"), *options, *words, **more)

    def install(self, *words: str, **more: str) -> str:
        """Install requirements (and give options); returns what the installer said."""
        done = self.installing(*words, **more)
        assert done.returncode == 0, f"{self.installer} install {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def uninstall(self, *names: str) -> None:
        options = ["--yes"] if self.installer == "pip" else []
        self._check([*self.command("uninstall"), *options, *names])

    # What is there, and whose it is.

    def present(self) -> set[str]:
        """Every path of site-packages and of bin, relative to the environment; links are not followed."""
        found: set[str] = set()
        for place in (self.site, self.root / "bin"):
            for here, directories, files in os.walk(place):
                base = os.path.relpath(here, self.root)
                found.update(f"{base}/{name}" for name in (*directories, *files))
        return found

    def records(self) -> dict[str, list[list[str]]]:
        """`name-version` of each installed distribution to the rows of its RECORD."""
        found = {}
        for record in sorted(self.site.glob("*.dist-info/RECORD")):
            with record.open(newline="", encoding="utf-8") as stream:
                found[record.parent.name.removesuffix(".dist-info")] = list(csv.reader(stream))
        return found

    def problems(self) -> list[str]:
        """What is wrong: files missing or changed, owned twice, or owned by nobody; empty directories."""
        bad: list[str] = []
        owners: dict[str, str] = {}
        for name, rows in self.records().items():
            for path, digest, _ in rows:
                place = Path(os.path.normpath(self.site / path))
                key = os.path.relpath(place, self.root)
                if owners.setdefault(key, name) != name:
                    bad.append(f"{path} is owned by {name} and {owners[key]}")
                if not os.path.lexists(place):
                    bad.append(f"{path} of {name} is gone")
                elif digest and f"sha256={_digest(place)}" != digest:
                    bad.append(f"{path} of {name} was changed")
        return bad + self._ownerless(set(owners))

    def _ownerless(self, owned: set[str]) -> list[str]:
        parents = {str(parent) for path in owned for parent in Path(path).parents}
        modules = {path for path in owned if path.endswith(".py")}
        # What Python itself writes beside an installed module is removed with the module.
        compiled = {f"{Path(path).parent}/__pycache__" for path in modules}
        bad = []
        for path in sorted(self.present() - self.baseline - owned - parents - compiled):
            place = Path(path)
            source = f"{place.parent.parent}/{place.name.split('.')[0]}.py"
            if place.parent.name == "__pycache__" and source in modules:
                continue
            # pip removes only a directory that a file lay in; the rest goes with the package around it.
            inside = self.root / path
            empty = inside.is_dir() and not any(found.is_file() for found in inside.rglob("*"))
            if not (self.installer == "pip" and empty and str(place.parent) in parents):
                bad.append(f"{path} is nobody's")
        return bad

    def test(self, **more: str) -> dict[str, dict[str, str]]:
        """`rocm-sdk test --static --json`: check id to check."""
        done = self.call(self.root / "bin/rocm-sdk", "test", "--static", "--json", **more)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout, done.stderr
        return {check["id"]: check for check in json.loads(done.stdout)["checks"]}

    def failed(self, **more: str) -> dict[str, str]:
        """Id to cause of what `rocm-sdk test --static` finds wrong."""
        return {
            name: check["cause"] for name, check in self.test(**more).items() if check["verdict"] == "failed"
        }


def _digest(path: Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
