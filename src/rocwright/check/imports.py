"""Import what a set offers at top level, where it was just installed, and judge what came of it.

Only what its own code and libraries show counts as a fault; where a GPU, a driver, or a package from
elsewhere would be needed, nothing is known.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.check.context import parsed_requirements, required_name
from rocwright.check.facts import Facts, ImportTry
from rocwright.check.installers import Surroundings, require_room
from rocwright.errors import CommandFailed
from rocwright.system import process, venv
from rocwright.system.files import remove_tree
from rocwright.system.venv import Environment
from rocwright.wheel.read import place_of

_PROBE = Path(__file__).with_name("inside.py")
_ONE_S, _ALL_S = 180.0, 900.0
_MOST_STAND_INS, _MOST_LETTERS = 24, 20_000
# The probe writes less, even of the longest chain of exceptions.
_MOST_BYTES = 8 << 20
# Extension modules say so in their suffix; a plain `.so` may be any library.
_MODULE = re.compile(r"(?P<name>[A-Za-z_]\w*)(/__init__)?(\.py|\.abi3t?\.so|\.cpython-[\w-]+\.so)")
_SYMBOL = re.compile(r"(?P<path>/\S+): undefined symbol: (?P<about>[^\s,]+)")
_ENTRY = re.compile(r"dynamic module does not define module export function \((?P<about>\w+)\)")
_NO_LIBRARY = re.compile(r"(?P<about>\S+): cannot open shared object file")
_NO_FILE = re.compile(r"No such file or directory: '(?P<about>/[^']+)'")
_BROKEN = re.compile(
    r"(?P<path>/\S+): (?P<about>invalid ELF header|wrong ELF class|file too short|(ELF|object file) .*"
    r"|shared object cannot be dlopen.*|cannot dynamically load .*)"
)
_OLDER = re.compile(r"version `(?P<about>[^']+)' not found")
_OWN_NAME = re.compile(
    r"(?:cannot import name '[^']+' from (?:partially initialized module )?"
    r"|(?:cannot access submodule '[^']+' of )?(?:partially initialized )?module )'(?P<of>[\w.]+)'"
)
_FRAME = re.compile(r'^\s*File "([^"]+)", line \d+', re.MULTILINE)
# As `object.__repr__` writes it, and C's `%p`; constants that a message names are shorter.
_ADDRESS = re.compile(r"(?<=\bat )0x[0-9a-f]+|\b0x[0-9a-f]{9,16}\b", re.IGNORECASE)
_TEMPORARY = re.compile(r"(?<=/tmp)[a-z0-9_]{8}\b")
# A signal by which the machine, not the code, ends a process: too little memory, an older processor.
_OF_THE_MACHINE = ("SIGKILL", "SIGTERM", "SIGILL", "SIGXCPU")


class Raised(msgspec.Struct, frozen=True):
    """An exception as the probe tells it: the names of its class and those above it, what it says, and where.

    `shared` says that others may add to the package that lacks what is missing.
    """

    kinds: tuple[str, ...]
    message: str = ""
    name: str = ""
    path: str = ""
    source: str = ""
    line: int = 0
    frames: tuple[str, ...] = ()
    shared: bool = False


class OfferedModule(msgspec.Struct, frozen=True):
    """A module that a file of the set puts at top level.

    An extension without a package around it (apex's `amp_C`) loads nothing before itself: who uses it imports
    what its wheel requires, the modules `before` it.
    """

    module: str
    file: str
    before: tuple[str, ...] = ()


class Holdings(msgspec.Struct, frozen=True):
    """What the set holds: files by installed place, all library names, and whole packages at top level."""

    owners: Mapping[str, str]
    libraries: frozenset[str]
    packages: frozenset[str]
    tops: frozenset[str]


def offers(files: Sequence[Facts]) -> tuple[OfferedModule, ...]:
    """The modules at top level, each once; private ones are imported by others, or by nobody."""
    of = {facts.project: _at_top(facts) for facts in files if facts.kind == "wheel"}
    found = {}
    for facts in files:
        required = [of.get(required_name(each), {}) for each in parsed_requirements(facts)]
        before = tuple(sorted({name for modules in required for name, alone in modules.items() if not alone}))
        for name, alone in of.get(facts.project, {}).items():
            found[name] = OfferedModule(name, facts.name, before if alone else ())
    return tuple(found[name] for name in sorted(found))


def _at_top(facts: Facts) -> dict[str, bool]:
    """The public modules that a wheel puts at top level, and whether each is an extension by itself."""
    matches = [_MODULE.fullmatch(place_of(member.name)) for member in facts.members]
    return {
        match["name"]: match[0].endswith(".so") and "/" not in match[0]
        for match in matches
        if match and not match["name"].startswith("_")
    }


def holdings(files: Sequence[Facts]) -> Holdings:
    """What these files put into an environment."""
    owners = {
        place_of(member.name): facts.name
        for facts in files
        if facts.kind == "wheel"
        for member in facts.members
    }
    modules = [match["name"] for place in owners if (match := _MODULE.fullmatch(place))]
    return Holdings(
        owners,
        frozenset(PurePosixPath(place).name for place in owners if ".so" in place),
        frozenset(modules),
        frozenset(place.partition("/")[0] for place in owners) | frozenset(modules),
    )


def try_imports(
    files: Sequence[Facts], environment: Environment, around: Surroundings, log: Path | None
) -> Iterator[ImportTry]:
    """Import each module that the files offer in a process of its own, without network."""
    held = holdings(files)
    sites = tuple(venv.package_directories(environment.root))
    ends = time.monotonic() + _ALL_S
    for offer in offers(files):
        if time.monotonic() > ends:
            yield ImportTry(offer.module, offer.file, left=f"the others took {_ALL_S:g} seconds")
            continue
        yield _imported(offer, held, environment, sites, around, log)


def _imported(
    offer: OfferedModule,
    held: Holdings,
    environment: Environment,
    sites: tuple[Path, ...],
    around: Surroundings,
    log: Path | None,
) -> ImportTry:
    """Import a module; what it cannot do without and nothing of the set brings is stood in for."""
    stand_ins: list[str] = []
    while True:
        raised = _run(offer, environment, around, stand_ins, log)
        if isinstance(raised, CommandFailed):
            return crashed(offer, raised.status, raised.tail, held, sites, stand_ins)
        missing = _from_elsewhere(raised, held)
        if missing is None or missing in stand_ins or len(stand_ins) == _MOST_STAND_INS:
            return judged(offer, raised, held, sites, stand_ins)
        stand_ins.append(missing)


def _run(
    offer: OfferedModule,
    environment: Environment,
    around: Surroundings,
    stand_ins: Sequence[str],
    log: Path | None,
) -> tuple[Raised, ...] | CommandFailed:
    result = around.home / "import.json"
    crash = Path(f"{result}.crash")
    modules = ",".join((*offer.before, offer.module))
    argv = [str(environment.python), "-I", "-B", str(_PROBE), modules, str(result)]
    try:
        process.run(
            [*argv, *stand_ins],
            cwd=around.home,
            env=around.env,
            drop_env=around.dropped,
            log=log,
            limit_s=_ONE_S,
        )
        answer = read_answer(result)
        return CommandFailed(offer.module, 0) if answer is None else answer
    except CommandFailed as failed:
        if failed.status == 1:
            # The probe itself could not write.
            require_room(failed, around.home)
        where = _beginning(crash, _MOST_LETTERS).decode(errors="replace")
        return CommandFailed(failed.command, failed.status, tail=f"{where}\n{failed.tail}")
    finally:
        # A module may have put anything there.
        remove_tree(result)
        remove_tree(crash)


def read_answer(path: Path) -> tuple[Raised, ...] | None:
    """What the probe wrote of an import; None where there is nothing, or nothing of its own."""
    try:
        return msgspec.json.decode(_beginning(path, _MOST_BYTES), type=tuple[Raised, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _beginning(path: Path, most: int) -> bytes:
    """The first bytes of a file; none of what is no file, or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def _from_elsewhere(raised: Sequence[Raised], held: Holdings) -> str | None:
    """The top-level name of a module that the import ended for want of, and that is none of the set's."""
    if not raised or "ModuleNotFoundError" not in raised[0].kinds:
        return None
    top = raised[0].name.partition(".")[0]
    return top if top and top not in held.tops and top not in sys.stdlib_module_names else None


# -- judging, pure


def judged(
    offer: OfferedModule,
    raised: Sequence[Raised],
    held: Holdings,
    sites: Sequence[Path],
    stand_ins: Collection[str],
) -> ImportTry:
    """What an import came to: an exception and those before it, none where it succeeded."""
    if not raised:
        return ImportTry(offer.module, offer.file)
    # What typing_extensions stands in for is Python's own.
    alone = not set(stand_ins) - {"typing_extensions"}
    for one in reversed(raised):
        found = _by_the_loader(one, held, sites, alone=alone)
        if found is not None:
            place, about, fault = found
            return ImportTry(offer.module, held.owners[place], fault, place, about)
    first = raised[0]
    place = _own(first.frames[::-1], held, sites)
    named = _by_its_code(first, held, sites) if alone and place else None
    if named is not None:
        return ImportTry(offer.module, held.owners[place], _plain(named[1], sites), place, named[0])
    said = ": ".join(filter(None, (*first.kinds[:1], first.message)))
    left = _plain(said, sites) or "it ended with an exception that says nothing"
    if not alone:
        left = f"it needs {', '.join(sorted(stand_ins))} from elsewhere; with stand-ins, {left}"
    return ImportTry(offer.module, offer.file, left=left)


def _by_the_loader(
    one: Raised, held: Holdings, sites: Sequence[Path], *, alone: bool
) -> tuple[str, str, str] | None:
    """The place, what it is about, and the fault: what neither a GPU nor another package would mend."""
    if "SyntaxError" in one.kinds:
        place = _own([one.source], held, sites)
        said = one.message.partition(" (")[0]
        return (place, "", f"line {one.line} is no Python: {said}") if place else None
    if not {"ImportError", "OSError"} & set(one.kinds):
        return None
    extension = _own([one.path], held, sites) or _own(one.frames[::-1], held, sites)
    if (entry := _ENTRY.search(one.message)) and extension:
        return extension, entry["about"], f"it does not define {entry['about']}"
    if (broken := _BROKEN.search(one.message)) and (place := _own([broken["path"]], held, sites)):
        return place, "", f"the loader refuses it: {broken['about']}"
    if (symbol := _SYMBOL.search(one.message)) and (place := _own([symbol["path"]], held, sites)):
        # A library of another package may define it, once that is imported.
        about = symbol["about"]
        return (place, about, f"nothing that it loads defines the symbol {about}") if alone else None
    if (library := _NO_LIBRARY.search(one.message)) and extension:
        name = PurePosixPath(library["about"]).name
        if name in held.libraries:
            return extension, name, f"{name} is in the set, and the loader does not find it"
    return None


def _by_its_code(one: Raised, held: Holdings, sites: Sequence[Path]) -> tuple[str, str] | None:
    """What it is about, and the fault of code that names what is not there."""
    if "FileNotFoundError" in one.kinds and (read := _NO_FILE.search(one.message)):
        place = _plain(read["about"], sites)
        return (place, f"it reads {place}, which is not there") if place.split("/")[0] in held.tops else None
    if "ModuleNotFoundError" in one.kinds:
        own = one.name.partition(".")[0] in held.packages and not one.shared
        return (one.name, f"it imports {one.name}, which is not there") if own else None
    if "NameError" in one.kinds:
        return one.name, f"it stops with NameError: {one.message}"
    if {"ImportError", "AttributeError"} & set(one.kinds):
        named = _OWN_NAME.match(one.message)
        if named and named["of"].partition(".")[0] in held.packages:
            return named["of"], f"it stops with {one.kinds[0]}: {one.message.partition(' (/')[0]}"
        if one.message.endswith("beyond top-level package"):
            return "", f"it stops with {one.kinds[0]}: {one.message}"
    # An extension broke a promise to the interpreter, which no GPU mends.
    if "SystemError" in one.kinds:
        return one.kinds[0], f"it stops with {one.kinds[0]}: {one.message}"
    # Who misses a GPU or a driver ends with a message or another status.
    if "SystemExit" in one.kinds and one.message in ("", "0"):
        return one.kinds[0], "it ends the interpreter, as if all were done, when it is imported"
    return None


def crashed(
    offer: OfferedModule,
    status: int,
    tail: str,
    held: Holdings,
    sites: Sequence[Path],
    stand_ins: Collection[str],
) -> ImportTry:
    """What the end of an interpreter that told nothing comes to; `tail` is what it printed last."""
    # The door to processes says so last, whatever the module printed before.
    if tail.rpartition("\n")[2].startswith("ended by force"):
        return ImportTry(offer.module, offer.file, left=f"it was not done after {_ONE_S:g} seconds")
    if status >= 0:
        return ImportTry(offer.module, offer.file, left=f"it ends the interpreter with exit code {status}")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name in _OF_THE_MACHINE or set(stand_ins) - {"typing_extensions"}:
        return ImportTry(offer.module, offer.file, left=f"it was ended by {name}")
    # The innermost comes first.
    place = _own(_FRAME.findall(tail), held, sites)
    file = held.owners.get(place, offer.file)
    return ImportTry(offer.module, file, f"the interpreter ends with {name} when it is imported", place, name)


def _own(paths: Sequence[str], held: Holdings, sites: Sequence[Path]) -> str:
    """The place of the first of these paths that a file of the set put there; empty where there is none."""
    for path in filter(None, paths):
        for site in sites:
            for root in (site, site.resolve()):
                place = path.removeprefix(f"{root.as_posix()}/")
                if place != path and place in held.owners:
                    return place
    return ""


def _plain(text: str, sites: Sequence[Path]) -> str:
    """The first line, the same in every run: without places of this environment, of memory, and of chance."""
    line = next(iter(text.strip().splitlines()), "")
    # Beside an environment is the home of its installer.
    above = [site.parents[3] for site in sites if len(site.parents) > 4]
    for place in (*sites, *above):
        for root in (place.resolve(), place):
            line = line.replace(f"{root}/", "")
    return _TEMPORARY.sub("…", _ADDRESS.sub("0x…", line))[:300]
