"""How compilers are launched: how many at once, and with a recorder and a compiler cache before them, by
launcher variables alone.

A compiler is never swapped for a wrapper of the same name: builds that look for the compiler's directory, as
aotriton's does, would then find the wrapper's. Where a build knows no launchers, as setuptools' does, CC and
CXX name programs that run them. Linux only records; on Windows the cache is the launcher.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import CACHES
from rocwright.builder.units.caches import find_cache
from rocwright.errors import UsageError
from rocwright.system.files import remove_tree, write_text
from rocwright.system.limits import Memory

# Part of the available memory that compilers may fill; the rest is for the page cache and for others.
_SHARE = 0.9


class Jobs(msgspec.Struct, frozen=True):
    """The number, a sentence for the user that says why, and whether one compiler alone may be too large."""

    number: int
    why: str
    too_large: bool = False


def asked_jobs(flag: int | None, caller: Mapping[str, str]) -> tuple[int, str] | None:
    """The number that the user wants, and where he said so: `--jobs`, else `MAX_JOBS`; None: nowhere.

    Raises `UsageError` for anything but a whole number from 1.
    """
    if flag is not None:
        if flag < 1:
            raise UsageError(
                f"--jobs {flag} is not a number of jobs", next_step="give 1 or more, or leave it out"
            )
        return flag, "--jobs"
    text = caller.get("MAX_JOBS", "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"the variable MAX_JOBS holds {text!r}, which is not a number of jobs",
            next_step="set it to 1 or more, or unset it",
        )
    return int(text), "the variable MAX_JOBS"


def choose_jobs(
    memory: Memory,
    cores: int,
    peaks: Sequence[int],
    *,
    default_peak: int,
    asked: tuple[int, str] | None = None,
) -> Jobs:
    """The most jobs whose largest translation units fit into memory together, at most one for each core.

    `peaks` are the bytes that each translation unit took in an earlier run; those that are not known are
    taken to need `default_peak` each. The largest may well meet: build systems start equal work together.
    What the user `asked` for wins.
    """
    if asked is not None:
        number, where = asked
        return Jobs(number, f"{_compilers(number)}, as {where} says")
    of_cores = "one for each core" if cores > 1 else "on one core"
    if memory.available is None:
        return Jobs(
            cores, f"{_compilers(cores)}, {of_cores}: the system does not say how much memory there is"
        )
    room = int(memory.available * _SHARE)
    largest = sorted(peaks, reverse=True)[:cores]
    needs = [*largest, *[default_peak] * (cores - len(largest))]
    number = next((n for n in range(cores) if sum(needs[: n + 1]) > room), cores)
    known = "recorded" if len(largest) > min(number, cores - 1) else "estimated"
    left = f"{_gb(room)} of memory are free for them{_where(memory)}"
    if number == cores:
        return Jobs(
            cores, f"{_compilers(cores)}, {of_cores}: at most {_gb(sum(needs))} ({known}), and {left}"
        )
    if number == 0:
        one = f"one may need {_gb(needs[0])} ({known})"
        return Jobs(1, f"{_compilers(1)}, and even {one}, while {left}", too_large=True)
    more = f"the {number + 1} largest translation units need {_gb(sum(needs[: number + 1]))} ({known})"
    return Jobs(number, f"{_compilers(number)}, not {cores}: {more}, and {left}")


def _compilers(number: int) -> str:
    return "one compiler at a time" if number == 1 else f"{number} compilers at a time"


def _where(memory: Memory) -> str:
    return f" (the limit of the control group {memory.limit_of})" if memory.limit_of else ""


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


HOST = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
# Of these the one that belongs to each variable that names a compiler.
LAUNCHER_OF = dict(zip(("CC", "CXX"), HOST, strict=True))
HIP = ("CMAKE_HIP_COMPILER_LAUNCHER", "HIP_CLANG_LAUNCHER")
# Variables with which a cache tells results apart that it would take for the same.
KEYS = {"ccache": "CCACHE_NAMESPACE", "sccache": "SCCACHE_C_CUSTOM_CACHE_BUSTER"}
LINK = ("CMAKE_C_LINKER_LAUNCHER", "CMAKE_CXX_LINKER_LAUNCHER")
# Tells the launchers, and whoever compares builds, for which targets device code is compiled.
PART, PART_ROOT = "HIP_DEVICE_PART", "HIP_DEVICE_PART_ROOT"
# Not imported: copies lie below the programs that import them, so that Python compiles them once. As part of
# each program they were more than a third of what a call took.
_HERE = Path(__file__).parent
_PACKAGE = __name__.rpartition(".")[0] + "."
_MODULES = ("by_target.py", "recorder.py")


# Variable, the compiler where nobody names one (torch's, for C++), and what stands in for it.
_STAND_INS = (("CC", "", "record-cc"), ("CXX", "c++", "record-cxx"))


class Launcher(msgspec.Struct, frozen=True):
    """One generated program: what it stands before, and the launcher that it runs itself.

    One with a `variable` stands in for the compiler whose words ROCWRIGHT_CC or ROCWRIGHT_CXX has, in lines.
    """

    name: str
    kind: str
    behind: tuple[str, ...] = ()
    extra: dict[str, str] = {}
    variable: str = ""


def launcher_environment(
    work_dir: Path,
    *,
    cache: str = "",
    cache_hip: bool = True,
    record: bool = True,
    platform: str = "linux",
    caller: Mapping[str, str] | None = None,
    roots: Sequence[Path] = (),
    cache_settings: Mapping[str, str] | None = None,
    exact: bool = False,
) -> dict[str, str]:
    """Variables that put launchers before the compilers of a build.

    `cache` is "", `ccache` or `sccache`; `cache_hip` lets it see device compilers too. `roots` are the source
    trees: cached results are found again when all of them and `work_dir` have moved together, unless it
    is to be `exact`. `cache_settings` say where it keeps them. What `caller` sets himself is left out, so
    that it stays.
    """
    caller = caller or {}
    values: dict[str, str] = {}
    if record and platform == "linux" and not re.search(r"[;\n'\"\\$`]", str(work_dir)):
        for names, launcher in ((HOST, "record-host"), (HIP, "record-hip"), (LINK, "record-link")):
            values |= dict.fromkeys(names, str(work_dir / "bin" / launcher))
        if re.search(r"\s", str(work_dir)):
            # hipcc pastes this one into a shell command without quotes.
            del values["HIP_CLANG_LAUNCHER"]
    elif cache:
        values |= dict.fromkeys(HOST, cache)
        if cache_hip and platform == "linux":
            values |= dict.fromkeys(HIP, cache)
    if cache:
        values |= _cache_settings(cache, platform, [] if exact else [work_dir, *roots])
        values |= cache_settings or {}
    # Launchers of the caller's run behind ours (see `plan_launchers`); other settings of his win.
    ours = {*HOST, *HIP, *LINK} if "CMAKE_CXX_COMPILER_LAUNCHER" in values and not cache else set()
    return {name: value for name, value in values.items() if name in ours or name not in caller}


def stand_ins(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that put launchers before the compilers of a build that knows none.

    Nothing where there are no programs for it: on Windows, and without records. A CC that nobody names stays
    as it is: setuptools takes that of its Python, which may have options of its own.
    """
    launcher = Path(environment.get(HOST[1], ""))
    # Build systems take the value apart as a shell does.
    if launcher.name != "record-host" or shlex.quote(str(launcher)) != str(launcher):
        return {}
    values: dict[str, str] = {}
    for variable, default, name in _STAND_INS:
        try:
            words = shlex.split(environment.get(variable) or "") or shlex.split(default)
        except ValueError:
            # Whoever wrote it learns of it from the build.
            continue
        if words:
            values[f"ROCWRIGHT_{variable}"] = "\n".join(words)
            values[variable] = str(launcher.with_name(name))
    return values


def require_launchers(environment: Mapping[str, str]) -> None:
    """Raise `UsageError` unless these variables put launchers before the compilers of device code."""
    if not all(Path(environment.get(name, "")).name == "record-hip" for name in HIP):
        raise UsageError(
            "a part of the device code is compiled through launchers, but this build has none",
            next_step="build on Linux, in a work directory without spaces, without --no-report-units",
        )


def _cache_settings(cache: str, platform: str, places: Sequence[Path]) -> dict[str, str]:
    """Keys without absolute paths, and a server that lives as long as the slowest unit needs."""
    if platform == "windows":
        # Debug information in a file of its own is shared between units: ccache cannot keep that.
        return {"CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "Embedded"} if cache == "ccache" else {}
    base = _common_directory(places)
    if cache == "ccache":
        return ({"CCACHE_NOHASHDIR": "1"} if places else {}) | ({"CCACHE_BASEDIR": base} if base else {})
    # An idle server ends after ten minutes, which one device unit can take; its counts were then lost. One
    # that died costs what is kept, not the build.
    alive = {"SCCACHE_IDLE_TIMEOUT": "0", "SCCACHE_IGNORE_SERVER_IO_ERROR": "1"}
    return alive | ({"SCCACHE_BASEDIRS": base} if base else {})


def _common_directory(places: Sequence[Path]) -> str:
    """The directory that all are in; empty when that is the root, below which the system lies too."""
    try:
        common = os.path.commonpath([str(place.parent) for place in places])
    except ValueError:
        return ""
    return "" if common in (os.sep, "") else common


def plan_launchers(
    *,
    cache: str = "",
    cache_hip: bool = True,
    caller: Mapping[str, str] | None = None,
    keys: tuple[str, str] = ("", ""),
) -> tuple[Launcher, ...]:
    """The programs that `launcher_environment` names, and those of `stand_ins`; without a cache, the caller's
    launchers run in them.

    `keys` are what a result of a host compiler, and one of a device compiler, depends on besides what the
    cache itself looks at.
    """
    caller = caller or {}
    if cache:
        host_key, hip_key = ({KEYS[cache]: key} if key else {} for key in keys)
        # A compiler from a wheel has the time of its installation: only its content says what it is.
        extra = hip_key | ({"CCACHE_COMPILERCHECK": "content"} if cache == "ccache" else {})
        hip = Launcher("record-hip", "hip", (cache,), extra) if cache_hip else Launcher("record-hip", "hip")
        host = Launcher("record-host", "host", (cache,), host_key)
        return host, hip, Launcher("record-link", "link"), *_standing_in(host)
    host = Launcher("record-host", "host", _words(caller.get(HOST[1]) or caller.get(HOST[0], "")))
    hip_words = _words(caller.get(HIP[0], "")) or tuple(shlex.split(caller.get(HIP[1], "")))
    return (
        host,
        Launcher("record-hip", "hip", hip_words),
        Launcher("record-link", "link", _words(caller.get(LINK[1], ""))),
        *_standing_in(host),
    )


def _standing_in(host: Launcher) -> Iterator[Launcher]:
    for variable, _, name in _STAND_INS:
        yield msgspec.structs.replace(host, name=name, variable=f"ROCWRIGHT_{variable}")


def _words(value: str) -> tuple[str, ...]:
    """A CMake list."""
    return tuple(filter(None, value.split(";")))


def write_launchers(
    work_dir: Path,
    *,
    cache: str = "",
    cache_hip: bool = True,
    caller: Mapping[str, str] | None = None,
    keys: tuple[str, str] = ("", ""),
) -> None:
    """Write the programs into WORK/bin; records go to WORK/units.

    A cache that is not on PATH is run by name all the same: it may be there later, and a launcher that finds
    none runs the compiler alone.
    """
    bin_dir = work_dir / "bin"
    modules = _write_modules(bin_dir)
    for launcher in plan_launchers(cache=cache, cache_hip=cache_hip, caller=caller, keys=keys):
        behind = launcher.behind
        if behind and behind[0] in CACHES:
            behind = (find_cache(behind[0]), *behind[1:])
        program = msgspec.structs.replace(launcher, behind=behind)
        _write(bin_dir / launcher.name, _program(program, modules, work_dir / "units"), program=True)
    (work_dir / "units").mkdir(parents=True, exist_ok=True)


def runs(program: Path) -> tuple[str, ...]:
    """The launcher that a program of `write_launchers` runs; nothing for any other program."""
    if program.name not in ("record-host", "record-hip") or not program.is_file():
        return ()
    (last,) = ast.parse(program.read_text(encoding="utf-8").splitlines()[-1]).body
    call = last.value.args[0] if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else None
    return tuple(ast.literal_eval(call.args[2])) if isinstance(call, ast.Call) else ()


def _write_modules(bin_dir: Path) -> str:
    """Write what the programs import; the name of its directory, which is another one for another text."""
    texts = {name: (_HERE / name).read_text(encoding="utf-8").replace(_PACKAGE, "") for name in _MODULES}
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    modules = bin_dir / f"recorder-{digest[:8]}"
    # What Python kept when a disk was full is half a file, with the time of a whole one.
    remove_tree(modules / "__pycache__")
    for name, text in texts.items():
        _write(modules / name, text)
    return modules.name


def _write(path: Path, text: str, *, program: bool = False) -> None:
    # One that a build runs at this moment stays as it is.
    if (
        path.exists()
        and path.read_text(encoding="utf-8") == text
        and (not program or os.access(path, os.X_OK))
    ):
        return
    write_text(path, text)
    if program:
        path.chmod(0o755)


def _program(launcher: Launcher, modules: str, units: Path) -> str:
    """A file that /bin/sh starts and Python reads: a `#!` line takes no path with spaces, nor a long one."""
    python = shlex.quote(sys.executable)
    more = f"{launcher.kind!r}, {list(launcher.behind)!r}, {str(units)!r}, {launcher.extra!r}"
    if launcher.variable:
        more += f", {launcher.variable!r}"
    return f"""#!/bin/sh
'''exec' {python} -I -S "$0" "$@"
' '''
import sys

sys.path.insert(0, sys.argv[0].rpartition("/")[0] + "/{modules}")
try:
    from recorder import run
except Exception:  # What Python kept of it may be half a file.
    sys.pycache_prefix = "/dev/null"
    from recorder import run

sys.exit(run(sys.argv[1:], {more}))
"""
