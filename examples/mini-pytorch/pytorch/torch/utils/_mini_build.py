"""Compile and link C++ and HIP in parallel for the miniature PyTorch family.

Nothing but the standard library, no import of torch: torch's setup.py loads this file from the source
tree, the other projects get it through torch.utils.cpp_extension. HIP sources are compiled with the
clang++ of the ROCm tree directly (as CMake's HIP language does); hipcc only serves where it is missing.

As with ninja, an output is made anew when its command is another one than last time, or when one of its
inputs (headers among them) is newer. So one build folder serves several Pythons.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path


class BuildError(SystemExit):
    """A build cannot go on; the message says why and what to set."""


def flag(environment, name, default=False):
    """A CMake-like switch: 1/ON/YES/TRUE or 0/OFF/NO/FALSE; empty or missing means the default."""
    text = environment.get(name, "").strip().upper()
    if text in ("1", "ON", "YES", "TRUE", "Y"):
        return True
    if text in ("0", "OFF", "NO", "FALSE", "N"):
        return False
    if text:
        raise BuildError(f"error: {name}={environment[name]!r} is no switch; use 1 or 0")
    return default


def cmake_list(environment, name):
    """The items of a variable that CMake reads as a list, such as a launcher with its arguments."""
    return [item for item in environment.get(name, "").split(";") if item]


def wheel_version(environment, root):
    """BUILD_VERSION (with .postN for a BUILD_NUMBER above 1), otherwise root/version.txt."""
    version = environment.get("BUILD_VERSION")
    if not version:
        return (Path(root) / "version.txt").read_text(encoding="utf-8").strip()
    number = int(environment.get("BUILD_NUMBER") or "1")
    return f"{version}.post{number}" if number > 1 else version


def rocm_targets(environment):
    """The GPU targets of PYTORCH_ROCM_ARCH, separated by ';', ',' or blanks, in their order, each once."""
    targets = tuple(
        dict.fromkeys(filter(None, re.split(r"[;,\s]+", environment.get("PYTORCH_ROCM_ARCH", ""))))
    )
    if not targets:
        raise BuildError(
            "error: PYTORCH_ROCM_ARCH names no GPU target, so there is nothing to compile device code for; "
            "set it, for example PYTORCH_ROCM_ARCH='gfx90a;gfx942', or build with USE_ROCM=0"
        )
    return targets


def rocm_home(environment):
    """The ROCm tree that ROCM_HOME or ROCM_PATH names."""
    text = environment.get("ROCM_HOME") or environment.get("ROCM_PATH")
    if not text:
        raise BuildError(
            "error: neither ROCM_HOME nor ROCM_PATH is set; point one at a ROCm tree or set USE_ROCM=0"
        )
    root = Path(text)
    if not (root / "include" / "hip" / "hip_runtime.h").is_file():
        raise BuildError(
            f"error: no include/hip/hip_runtime.h under the ROCm tree {root}; is it a devel tree?"
        )
    return root


def hip_version(root):
    """major.minor.patch of HIP, from include/hip/hip_version.h."""
    text = (root / "include" / "hip" / "hip_version.h").read_text(encoding="utf-8")
    found = dict(re.findall(r"#define\s+HIP_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", text))
    if len(found) != 3:
        raise BuildError(f"error: {root}/include/hip/hip_version.h does not state the HIP version")
    return f"{found['MAJOR']}.{found['MINOR']}.{found['PATCH']}"


@dataclass(frozen=True)
class Rocm:
    """A ROCm tree and the targets to compile for."""

    root: Path
    targets: tuple

    @classmethod
    def from_environment(cls, environment):
        """Reads ROCM_HOME or ROCM_PATH, and PYTORCH_ROCM_ARCH."""
        return cls(rocm_home(environment), rocm_targets(environment))

    def compiler(self, environment):
        """The command line head that compiles HIP."""
        launcher = cmake_list(environment, "CMAKE_HIP_COMPILER_LAUNCHER")
        launcher = launcher or shlex.split(environment.get("HIP_CLANG_LAUNCHER", ""))
        folder = Path(environment.get("HIP_CLANG_PATH") or self.root / "lib" / "llvm" / "bin")
        if (folder / "clang++").is_file():
            return [*launcher, str(folder / "clang++"), "-x", "hip", f"--rocm-path={self.root}"]
        if (self.root / "bin" / "hipcc").is_file():
            return [*launcher, str(self.root / "bin" / "hipcc"), "-x", "hip"]
        raise BuildError(f"error: neither {folder}/clang++ nor {self.root}/bin/hipcc exists")


@dataclass(frozen=True)
class Unit:
    """A translation unit: the source is relative to the folder in which the compiler runs."""

    source: str
    object: Path
    arguments: tuple = ()


def _run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"error: exit status {done.returncode} from\n  {shlex.join(command)}\n{done.stderr}")
    return done.stderr


def _beside(path, suffix):
    return path.with_name(path.name + suffix)


def depfile_inputs(path):
    """The inputs that a compiler wrote into a depfile: names separated by blanks, which `\\ ` may hold."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ").partition(": ")[2]
    return [name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", text)]


def is_current(output, command, folder, inputs=()):
    """True when this very command made the output, after the last change of what it read."""
    stamp, depfile = _beside(output, ".cmd"), _beside(output, ".d")
    try:
        if json.loads(stamp.read_text(encoding="utf-8")) != list(command):
            return False
        names = depfile_inputs(depfile) if depfile.is_file() else []
        made = output.stat().st_mtime_ns
        return all((folder / name).stat().st_mtime_ns <= made for name in [*names, *inputs])
    except (OSError, ValueError):
        return False


def make(output, command, folder, inputs=()):
    """Runs the command that makes the output unless that is current; returns its warnings, or None.

    What a run leaves that was ended half-way has no stamp, so it is not taken for the output.
    """
    output, folder = Path(output), Path(folder)
    if is_current(output, command, folder, inputs):
        return None
    stamp = _beside(output, ".cmd")
    stamp.unlink(missing_ok=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    warnings = _run(command, folder)
    stamp.write_text(json.dumps(list(command)), encoding="utf-8")
    return warnings


def compile_command(unit, folder, rocm, environment):
    """The argument vector for a unit; .hip goes to ROCm's compiler, everything else to CXX.

    Paths below the folder are relative to it, so that two checkouts have the same commands.
    """
    target = unit.object.relative_to(folder) if unit.object.is_relative_to(folder) else unit.object
    common = ["-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
    tail = [*unit.arguments, "-MD", "-MT", str(target), "-MF", f"{target}.d"]
    tail += ["-c", unit.source, "-o", str(target)]
    if unit.source.endswith(".hip"):
        # The unit's identity is fixed, so that builds for different targets have the same host half.
        identity = hashlib.sha256(unit.source.encode()).hexdigest()[:16]
        offload = [f"--offload-arch={target}" for target in rocm.targets]
        return [*rocm.compiler(environment), *offload, f"-cuid={identity}", *common, "-DUSE_ROCM", *tail]
    launcher = cmake_list(environment, "CMAKE_CXX_COMPILER_LAUNCHER")
    cxx = shlex.split(environment.get("CXX") or "g++")
    flags = shlex.split(environment.get("CPPFLAGS", "")) + shlex.split(environment.get("CXXFLAGS", ""))
    if rocm is not None:
        flags += ["-D__HIP_PLATFORM_AMD__", "-DUSE_ROCM", "-isystem", str(rocm.root / "include")]
    return [*launcher, *cxx, *common, *flags, *tail]


def jobs(environment):
    """How many compilers run at once: MAX_JOBS, otherwise one per CPU."""
    text = environment.get("MAX_JOBS", "").strip()
    if not text:
        return os.cpu_count() or 1
    if not text.isdigit() or int(text) == 0:
        raise BuildError(f"error: MAX_JOBS={text!r} is not a positive number")
    return int(text)


def compile_all(units, folder, rocm, environment):
    """Compiles what is not current, with `folder` as working directory, the slow HIP units first."""
    folder = Path(folder)
    ordered = sorted(units, key=lambda unit: not unit.source.endswith(".hip"))
    with concurrent.futures.ThreadPoolExecutor(jobs(environment)) as pool:
        futures = {
            pool.submit(make, unit.object, compile_command(unit, folder, rocm, environment), folder): unit
            for unit in ordered
        }
        try:
            for future in concurrent.futures.as_completed(futures):
                warnings = future.result()
                if warnings is not None:
                    print(f"compiled {futures[future].source}")
                    sys.stderr.write(warnings)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def link_shared(output, objects, environment, *, libraries=(), folders=(), rpath=None, soname=True):
    """Links a shared library unless it is current; rpath is relative to $ORIGIN, or None for none at all."""
    output = Path(output)
    launcher = cmake_list(environment, "CMAKE_CXX_LINKER_LAUNCHER")
    command = [*launcher, *shlex.split(environment.get("CXX") or "g++"), "-shared", "-o", str(output)]
    command += [str(item) for item in objects] + [f"-L{item}" for item in folders]
    command += shlex.split(environment.get("LDFLAGS", ""))
    # Each named library is recorded, also where the compiler drops unused ones by default.
    command += ["-Wl,--push-state,--no-as-needed", *(f"-l{item}" for item in libraries), "-Wl,--pop-state"]
    command += ["-Wl,--disable-new-dtags", "-Wl,-z,relro"]
    if soname:
        command += [f"-Wl,-soname,{output.name}", "-Wl,-z,defs"]
    if rpath is not None:
        command.append(f"-Wl,-rpath,$ORIGIN{'/' + rpath if rpath else ''}")
    named = [Path(folder) / f"lib{name}.so" for folder in folders for name in libraries]
    inputs = [*objects, *(path for path in named if path.exists())]
    if make(output, command, output.parent, inputs) is not None:
        print(f"linked {output.name}")


def copy_if_different(source, target):
    """Copies a file; one of the same content keeps its time, so that nothing is made anew for it."""
    source, target = Path(source), Path(target)
    if not (target.is_file() and target.read_bytes() == source.read_bytes()):
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = _beside(target, ".new")
        shutil.copyfile(source, beside)
        os.replace(beside, target)


def python_include():
    """The folder with Python.h."""
    return sysconfig.get_paths()["include"]


def python_tag():
    """What extension modules of this Python are named after; free-threaded ones have their own."""
    return sysconfig.get_config_var("SOABI")
