"""Rules about each Linux library and program by itself: that it can be read and loaded as it is."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.rules.base import Problem, Rule
from rocwright.model.patterns import fits
from rocwright.wheel.tags import platform_of

_REBUILD = "build the wheel again; a wheel is never repaired by hand"
OTHER_SYSTEM = "build the wheel on the system that its tag names, or give it the other tag"
_LOADED = ("dyn", "exec")
_APPLE = ("macosx_", "ios_")


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
        if elf.machine not in machines and not fits(elf.member, context.platforms.linux.foreign):
            yield Problem(
                f"it is for {names.get(elf.machine, f'machine {elf.machine}')}, the wheel is for {wanted}",
                "build the wheel for one machine at a time, or give it the other tag",
                elf.member,
            )


def _text_relocation(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in loadable(facts):
        if elf.text_relocations:
            yield Problem(
                "its code has to be changed when it is loaded, which hardened systems refuse",
                "compile everything in it with -fPIC; -Wl,-z,text makes the linker say what is not",
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
                "it does not say that its stack need not be executable, so the loader makes it so",
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


RULES = (
    Rule("elf-readable", "Each compiled file is a well-formed ELF object.", _readable, waivable=False),
    Rule("elf-machine", "Libraries and programs are for the machine that the wheel's tag names.", _machine),
    Rule("elf-text-relocation", "No library has relocations in its code.", _text_relocation),
    Rule("elf-executable-stack", "No library asks for an executable stack.", _executable_stack),
    Rule("elf-dynamic", "The dynamic table of a library lies in a writable segment.", _dynamic),
)
