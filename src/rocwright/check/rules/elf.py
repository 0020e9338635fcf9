"""Rules about each Linux library and program by itself.

That it can be read and loaded as it is; where it looks for what it needs (RPATH, RUNPATH), and whom that lets
in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.libraries import directory_of, path_on_disk, search_entries
from rocwright.model.patterns import fits
from rocwright.wheel.tags import platform_of

_REBUILD = "build the wheel again; a wheel is never repaired by hand"
OTHER_SYSTEM = "build the wheel on the system that its tag names, or give it the other tag"
_LOADED = ("dyn", "exec")
_LINUX = (0, 3)  # EI_OSABI: System V, GNU
_APPLE = ("macosx_", "ios_")
_SHOWN = 4


def loadable(facts: Facts) -> Iterator[ElfFacts]:
    """The libraries and programs that could be read; object files are for a linker and may be anything."""
    return (elf for elf in facts.elf if elf.problem is None and elf.kind in _LOADED)


def linux_tags(facts: Facts, *, musl: bool = False) -> list[str]:
    """The platform tags for Linux, each once; those for musl's C library only when asked for."""
    wanted = ("linux_", "manylinux", "musllinux_") if musl else ("linux_", "manylinux")
    platforms = {tag.rpartition("-")[2] for tag in facts.tags}
    return sorted(tag for tag in platforms if tag.startswith(wanted))


def native(facts: Facts, context: Context) -> list[ElfFacts]:
    """Those that are loaded on a machine the wheel's tags name; none in a wheel that is not for glibc."""
    machines = {context.platforms.machine(tag) for tag in linux_tags(facts)}
    return [elf for elf in loadable(facts) if elf.machine in machines]


def _readable(facts: Facts, _: Context) -> Iterator[Problem]:
    if facts.tags and all(tag.rpartition("-")[2].startswith(_APPLE) for tag in facts.tags):
        return  # libraries for macOS have the same ending and another format
    for elf in facts.elf:
        if elf.problem is not None:
            yield Problem(elf.problem, _REBUILD, elf.member)


def _machine(facts: Facts, context: Context) -> Iterator[Problem]:
    # Beside DLLs they may be data, for another machine to load.
    if platform_of(facts.tags) == "windows" and not facts.pe:
        for elf in loadable(facts):
            yield Problem("it is for Linux, the wheel is tagged for Windows", OTHER_SYSTEM, elf.member)
        return
    names = {number: name for name, number in context.platforms.linux.machines.items()}
    machines = {context.platforms.machine(tag) for tag in linux_tags(facts, musl=True)} - {None}
    if not machines:
        return
    wanted = " and ".join(sorted(names[machine] for machine in machines if machine is not None))
    for elf in loadable(facts):
        if fits(elf.member, context.platforms.linux.foreign):
            continue
        if elf.machine not in machines:
            yield Problem(
                f"it is for {names.get(elf.machine, f'machine {elf.machine}')}, the wheel is for {wanted}",
                "build the wheel for one machine at a time, or give it the other tag",
                elf.member,
            )
        elif (form := context.platforms.linux.form(elf.machine)) != (elf.bits, elf.order):
            yield Problem(
                f"it is for {elf.bits}-bit {elf.order}-endian {names.get(elf.machine)}, the wheel is for "
                f"{form[0]}-bit {form[1]}-endian",
                "build it with the compiler of the platform that the tag names (no -mx32, -mabi=ilp32)",
                elf.member,
            )
        elif elf.system not in _LINUX and elf.kind == "dyn" and elf.interp is None:
            yield Problem(
                f"it is for the system with number {elf.system}, and the loader of Linux refuses it",
                "build it with the compiler of the platform that the tag names; edit no headers",
                elf.member,
            )


def _text_relocation(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in loadable(facts):
        if elf.text_relocations:
            yield Problem(
                "its code has to be changed when it is loaded, which hardened systems refuse",
                "compile everything in it with -fPIC; -Wl,-z,text makes the linker name what is not",
                elf.member,
            )


def _executable_stack(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in loadable(facts):
        if elf.stack == "rwx":
            yield Problem(
                "it asks for an executable stack; glibc since 2.41 does not load such a library",
                "link with -z noexecstack; give assembly sources a .note.GNU-stack section",
                elf.member,
            )
        elif elf.stack is None and elf.kind == "dyn" and elf.interp is None and elf.needed:
            yield Problem(
                "it has no GNU_STACK header, so the loader makes its stack executable",
                "link with -z noexecstack",
                elf.member,
            )


def _dynamic(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in loadable(facts):
        if elf.writable_dynamic is False:
            yield Problem(
                "its dynamic table lies in a segment that cannot be written: glibc before 2.35 crashes on it",
                "edit its RPATH with a tool that keeps the table writable, or link it again",
                elf.member,
            )


def _runpath(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in facts.elf:
        if elf.runpath is not None:
            yield Problem(
                f"it has RUNPATH {_shown(elf.runpath.split(':'))}, which indirect needs do not inherit",
                "link with --disable-new-dtags, or turn it into an RPATH",
                elf.member,
            )


def _absolute_path(facts: Facts, _: Context) -> Iterator[Problem]:
    yield from _entries(
        facts,
        lambda _, entry: entry.startswith("/"),
        "which holds on one machine only: whatever lies there elsewhere is loaded instead",
        "build without it (CMake: CMAKE_BUILD_WITH_INSTALL_RPATH), or use entries relative to $ORIGIN",
    )


def _rpath(facts: Facts, _: Context) -> Iterator[Problem]:
    yield from _entries(
        facts,
        lambda _, entry: not entry,
        "which stands for the directory that the process happens to run in",
        "look for a variable that was not set, or a colon too many, in the link flags",
    )
    yield from _entries(
        facts,
        lambda elf, entry: bool(entry) and not entry.startswith("/") and _leaves(elf, entry),
        "which does not lie inside the installation",
        "use entries relative to $ORIGIN that stay inside site-packages",
    )


def _entries(
    facts: Facts, wrong: Callable[[ElfFacts, str], bool], why: str, next_step: str
) -> Iterator[Problem]:
    """A problem for the entries of each file's RPATH and RUNPATH that are wrong."""
    for elf in facts.elf:
        for tag, text in (("RPATH", elf.rpath), ("RUNPATH", elf.runpath)):
            # Of a text that is empty as a whole the loader makes nothing.
            found = [entry for entry in text.split(":") if wrong(elf, entry)] if text else []
            if found:
                yield Problem(f"it has {tag} {_shown(found)}, {why}", next_step, elf.member)


def _shown(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    return repr(":".join(entry or "(empty)" for entry in entries[:_SHOWN])) + more


def _leaves(elf: ElfFacts, entry: str) -> bool:
    """Whether an entry leads out of what the wheel is installed in; an empty one is the current folder."""
    directory = directory_of(elf, entry)
    if directory is None:
        return True
    # What a wheel installs beside site-packages (`bin`) may look anywhere below the environment.
    highest = 3 if path_on_disk(elf.member).startswith("../") else 0
    return PurePosixPath(directory).parts[: highest + 1] == ("..",) * (highest + 1)


def _search_path(facts: Facts, context: Context) -> Iterator[Problem]:
    libraries = context.libraries
    # What loads in order needs no way to ROCm's packages; to a ROCm of its own nothing else leads.
    loads_in_order = bool(context.terms(facts.project).own_rocm)
    own = {
        PurePosixPath(member.name).name
        for member in facts.members
        if loads_in_order and context.is_own_rocm(facts, path_on_disk(member.name))
    }
    for elf in native(facts, context):
        here = [directory_of(elf, entry) for entry in search_entries(elf)]
        for name in elf.needed:
            # The loader looks for the file's name; what nothing holds is a matter of another rule.
            if context.platforms.on_every(name) or not libraries.provides(facts, name):
                continue
            if loads_in_order and name not in own:
                continue
            if not any(
                _at(directory, name) in libraries.places for directory in here if directory is not None
            ):
                shown = ":".join(search_entries(elf)) or "nowhere"
                yield Problem(
                    f"it needs {name}, which is there, but not where it looks ({shown})",
                    "add the library's directory, relative to $ORIGIN, to the RPATH",
                    elf.member,
                )


def _at(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"


def _soname(facts: Facts, context: Context) -> Iterator[Problem]:
    """What is loaded under one name answers for its SONAME, too: the library of that name never gets in."""
    needed = {name for elf in facts.elf for name in elf.needed}
    named = {PurePosixPath(elf.member).name: elf for elf in native(facts, context)}
    for name, elf in named.items():
        soname = elf.soname or name
        other = named.get(soname)
        # The same library may be there under several names, as a wheel has no links.
        if other is None or soname.partition(".so")[0] == name.partition(".so")[0] or _alike(elf, other):
            continue
        if name in needed and soname in needed:
            yield Problem(
                f"its SONAME is {soname}: once it is loaded, nothing loads {other.member}, which others need",
                "link it with its own name: -Wl,-soname",
                elf.member,
            )


def _alike(one: ElfFacts, other: ElfFacts) -> bool:
    if one.symbols is None or other.symbols is None:
        return True
    return one.symbols.defined.hashes == other.symbols.defined.hashes


def _system_soname(facts: Facts, context: Context) -> Iterator[Problem]:
    """One copy serves a whole process: an older copy of ours breaks what the system built with the newer."""
    if not linux_tags(facts):
        return
    runtime = context.platforms.linux.runtime
    taken = [
        (elf, name)
        for elf in loadable(facts)
        for name in dict.fromkeys((elf.soname or "", PurePosixPath(elf.member).name))
        if fits(name, runtime)
    ]
    if not taken:
        return
    searched = _searched(context)
    for elf, name in taken:
        who = searched.get(path_on_disk(elf.member).rpartition("/")[0])
        if who is not None:
            yield Problem(
                f"it takes the place of the system's {name} in every process that loads {who}",
                "leave it out: the system brings it; or link it statically",
                elf.member,
            )


def _searched(context: Context) -> dict[str, str]:
    """Directories that RPATHs of the set lead to, with a library that looks there."""
    found: dict[str, str] = {}
    for facts in context.files:
        for elf in loadable(facts):
            for entry in search_entries(elf):
                directory = directory_of(elf, entry)
                if directory is not None:
                    found.setdefault("" if directory == "." else directory, PurePosixPath(elf.member).name)
    return found


RULES = (
    Rule("elf-readable", "Each compiled file is a well-formed ELF object.", _readable, waivable=False),
    Rule("elf-machine", "Libraries and programs are for the machine that the wheel's tag names.", _machine),
    Rule("elf-text-relocation", "No library has relocations in its code.", _text_relocation),
    Rule("elf-executable-stack", "No library asks for an executable stack.", _executable_stack),
    Rule("elf-dynamic", "The dynamic table of a library lies in a writable segment.", _dynamic),
    Rule(
        "elf-runpath",
        "No library has a RUNPATH, which, unlike an RPATH, indirect dependencies do not inherit.",
        _runpath,
    ),
    Rule(
        "elf-absolute-path",
        "No entry of an RPATH or RUNPATH is absolute: /opt/rocm, a build directory.",
        _absolute_path,
    ),
    Rule(
        "elf-rpath",
        "Each entry of an RPATH or RUNPATH is relative to $ORIGIN and stays in site-packages.",
        _rpath,
    ),
    Rule(
        "elf-search-path",
        "Libraries needed from the same package, or a required one, lie where the RPATH leads.",
        _search_path,
    ),
    Rule("elf-soname", "No library has the SONAME of another one that is needed beside it.", _soname),
    Rule(
        "elf-system-soname",
        "No library takes the place of the system's C or C++ runtime in a directory that is searched.",
        _system_soname,
    ),
)
