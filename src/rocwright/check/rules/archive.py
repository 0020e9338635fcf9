"""Rules about the file as an archive: its members, their names and modes, its RECORD; and how large it is."""

from __future__ import annotations

import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator
from zipfile import ZIP_DEFLATED, ZIP_STORED

from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import ElfFacts, Facts, Member
from rocwright.check.report import SizeChange, code_sizes, size_key
from rocwright.wheel.read import place_of

_BOTH = ("wheel", "sdist")
# Bits of a member's flags: encrypted, data descriptor, strong encryption (APPNOTE 4.4.4).
_ENCRYPTED = 1 << 0 | 1 << 6
_DATA_DESCRIPTOR = 1 << 3
_REBUILD = "build the wheel again; a wheel is never repaired by hand"


# Control characters, marks of direction, and spaces without width; joiners are left out, which scripts need.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_LONGEST_PART = 255  # bytes, of every file system in use


def _path(member: Member) -> str:
    """The name without the slash that marks a folder."""
    return member.name.removesuffix("/")


def _member_names(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        path = _path(member)
        if path.startswith("/") or "\\" in path or re.match("[A-Za-z]:[/\\\\]", path):
            yield Problem("the name is not a relative path with forward slashes", _REBUILD, member.name)
        elif any(part in ("", ".", "..") for part in path.split("/")):
            yield Problem("the name leaves the folder it is installed in", _REBUILD, member.name)
        elif (found := _UNSEEN.search(path)) is not None:
            what = f"U+{ord(found.group()):04X}"
            yield Problem(f"the name has {what}, so that people read another one", _REBUILD, member.name)


def _twice(facts: Facts) -> set[str]:
    return {name for name, times in Counter(map(_path, facts.members)).items() if times > 1}


def _member_twice(facts: Facts, _: Context) -> Iterator[Problem]:
    for name in sorted(_twice(facts)):
        yield Problem(
            "it is in the archive more than once; which copy counts depends on the tool that reads it",
            _REBUILD,
            name,
        )


def _is_file(member: Member) -> bool:
    return stat.S_IFMT(member.mode) in (0, stat.S_IFREG) and not member.name.endswith("/")


def _member_links(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        if stat.S_ISLNK(member.mode):
            yield Problem(
                "it is a symbolic link, which installers write as a file that holds the link's text",
                "put the file itself there, once",
                member.name,
            )
        elif not _is_file(member) and not stat.S_ISDIR(member.mode) and not member.name.endswith("/"):
            yield Problem("it is neither a file nor a folder", "leave it out", member.name)


def _member_modes(facts: Facts, _: Context) -> Iterator[Problem]:
    if facts.tags and all(_platform(tag).startswith("win") for tag in facts.tags):
        return  # no system that this wheel is installed on has modes
    programs = {elf.member for elf in facts.elf if _is_program(elf)}
    next_step = "give the file its mode before the wheel is built"
    for member in facts.members:
        if not member.mode or not _is_file(member):
            continue
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            yield Problem("it would run with its owner's rights (setuid or setgid)", next_step, member.name)
        if member.mode & stat.S_IWOTH:
            yield Problem("everybody may write to it", next_step, member.name)
        if not member.mode & stat.S_IRUSR:
            yield Problem("its owner may not read it", next_step, member.name)
        if not member.mode & stat.S_IXUSR and (member.name in programs or _is_script(member.name)):
            yield Problem("it is a program and is not executable", next_step, member.name)


def _is_program(elf: ElfFacts) -> bool:
    """Libraries with an interpreter can be run as well, but need not be."""
    return elf.kind == "exec" or (elf.kind == "dyn" and elf.interp is not None and elf.soname is None)


def _is_script(name: str) -> bool:
    top, _, below = name.partition("/")
    return top.endswith(".data") and below.startswith("scripts/")


def _refused(member: Member) -> str | None:
    """Why no installer reads the member."""
    if member.flags & _ENCRYPTED:
        return "it is encrypted"
    if member.method not in (ZIP_STORED, ZIP_DEFLATED):
        return f"it is compressed with method {member.method}, which installers need not support"
    return None


def _member_method(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        if (why := _refused(member)) is not None:
            yield Problem(why, "store or deflate it, as the wheel format asks", member.name)


def _stored_descriptor(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        if member.method == ZIP_STORED and member.flags & _DATA_DESCRIPTOR:
            yield Problem(
                "it is stored with a data descriptor; uv refuses such a member over HTTP",
                "write its size and checksum into the local header",
                member.name,
            )


def _explained(facts: Facts) -> set[str]:
    """Members of which another rule says already why they cannot be read, or not as one file."""
    return _twice(facts) | {member.name for member in facts.members if _refused(member) is not None}


def unreadable_members(facts: Facts) -> set[str]:
    """Members whose content is unknown: rules about the archive report them, others leave them alone."""
    return _explained(facts) | {fault.member for fault in facts.damaged}


def _member_damaged(facts: Facts, _: Context) -> Iterator[Problem]:
    known = _explained(facts)
    for fault in facts.damaged:
        if fault.member not in known:
            yield Problem(
                fault.what, "fetch the file again; if that does not help, build it again", fault.member
            )


def _layout(facts: Facts, _: Context) -> Iterator[Problem]:
    known = unreadable_members(facts)
    for fault in facts.layout:
        # Where a member cannot be read, its header says something wrong of what follows, too.
        if not fault.member or not known:
            yield Problem(
                fault.what,
                "write the archive again; a wheel is one zip archive, from the first byte to the last",
                fault.member,
            )


def _name_clash(facts: Facts, _: Context) -> Iterator[Problem]:
    rename = "rename one of them"
    # A name that is there twice is told as such.
    paths = dict.fromkeys(_path(member) for member in facts.members if not _is_folder(member))
    folders = set[str]()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    places: dict[str, str] = {}
    for path in paths:
        if path in folders:
            yield Problem("it is a file, and a folder of the same name has files in it", rename, path)
        if any(len(part.encode("utf-8", "replace")) > _LONGEST_PART for part in path.split("/")):
            yield Problem(f"a name of more than {_LONGEST_PART} bytes cannot be written", "shorten it", path)
        place = unicodedata.normalize("NFC", place_of(path))
        if _blind_to_case(facts):
            place = place.casefold()
        first = places.setdefault(place, path)
        if first != path:
            yield Problem(f"it is installed as the same file as {first}", rename, path)


def _is_folder(member: Member) -> bool:
    return member.name.endswith("/") or stat.S_ISDIR(member.mode)


def _blind_to_case(facts: Facts) -> bool:
    """Whether it is for macOS only; Windows has a rule of its own."""
    return bool(facts.tags) and all(_platform(tag).startswith("macosx") for tag in facts.tags)


def _record(facts: Facts, _: Context) -> Iterator[Problem]:
    known = unreadable_members(facts)
    for fault in facts.record:
        if not fault.member or fault.member not in known:
            yield Problem(fault.what, "write RECORD after the last change to a member", fault.member)


def _dist_info(facts: Facts, _: Context) -> Iterator[Problem]:
    if len(facts.dist_infos) != 1:
        held = ", ".join(sorted(facts.dist_infos)) or "none"
        yield Problem(f"a wheel has exactly one .dist-info folder; this one has: {held}", _REBUILD)
        return
    name, _separator, version = facts.dist_infos[0].removesuffix(".dist-info").partition("-")
    try:
        same = canonicalize_name(name, validate=True) == facts.project
        same = same and Version(version) == Version(facts.version)
    except ValueError:  # also for numbers of thousands of digits
        same = False
    if not same:
        yield Problem(
            f"its folder {facts.dist_infos[0]} is not that of {facts.project} {facts.version}",
            "build it again; renaming a file does not change its version",
        )


def _platform(tag: str) -> str:
    return tag.rpartition("-")[2]


def _for_windows(facts: Facts) -> bool:
    """Whether the wheel can be installed on Windows."""
    return any(_platform(tag) == "any" or _platform(tag).startswith("win") for tag in facts.tags)


# Of no file on Windows, whatever follows after a dot (learn.microsoft.com, "Naming Files, Paths").
_DEVICES = re.compile(r"(con|prn|aux|nul|com[1-9¹²³]|lpt[1-9¹²³])(\..*)?", re.IGNORECASE)
_ILLEGAL = re.compile(r'[:<>"|?*]')  # control characters are no name anywhere: `member-names`
_LONGEST = 160


def _windows_names(facts: Facts, _: Context) -> Iterator[Problem]:
    if not _for_windows(facts):
        return
    rename = "rename the file"
    by_fold: dict[str, str] = {}
    for member in facts.members:
        place = place_of(_path(member))
        path = _below_scheme(place)
        if (found := _ILLEGAL.search(path)) is not None:
            yield Problem(f"Windows allows no {found.group()!r} in a name", rename, member.name)
        parts = path.split("/")
        for part in parts:
            if _DEVICES.fullmatch(part):
                yield Problem(f"on Windows {part} names a device", rename, member.name)
            elif part.endswith((".", " ")) and part not in (".", ".."):
                yield Problem("Windows drops a dot or space at the end of a name", rename, member.name)
        first = by_fold.setdefault(place.casefold(), place)
        if first != place:
            yield Problem(f"on Windows it is the same file as {_below_scheme(first)}", rename, member.name)


def _below_scheme(place: str) -> str:
    """A path without `<scripts>/` and the like, for which Windows has a directory of its own."""
    return place.partition(">/")[2] if place.startswith("<") else place


def _windows_lengths(facts: Facts, _: Context) -> Iterator[Problem]:
    if not _for_windows(facts):
        return
    for member in facts.members:
        length = len(_below_scheme(place_of(_path(member))))
        if length > _LONGEST:
            yield Problem(
                f"its path has {length} characters; more than {_LONGEST} leave too little of "
                "Windows' 260 to the environment it is installed in",
                "shorten the names of its folders",
                member.name,
            )


def _budget(facts: Facts, context: Context) -> Iterator[Problem]:
    terms = context.terms(facts.project)
    if terms.budget is not None and facts.size > terms.budget:
        yield Problem(
            f"it has {_bytes(facts.size)}, its budget is {_bytes(terms.budget)}",
            "see what is large with `rocwright wheel show`; if all of it should be there, raise `budget`",
        )
    for target, size in code_sizes(facts).items():
        if terms.target_budget is not None and size > terms.target_budget:
            yield Problem(
                f"its code for {target} has {_bytes(size)}, "
                f"the budget of a target is {_bytes(terms.target_budget)}",
                "build fewer kernels for it, or raise `target_budget`",
            )


def _growth(facts: Facts, context: Context) -> Iterator[Problem]:
    previous = context.request.previous
    before = None if previous is None else previous.files.get(size_key(facts.name))
    if before is None:
        return
    next_step = (
        "see what was added with `rocwright wheel show`; if it belongs there, waive this once with a reason"
    )
    if _grew(SizeChange("", None, before.size, facts.size), context):
        yield Problem(f"it grew {_figures(before.size, facts.size)} since the previous set", next_step)
    for target, size in code_sizes(facts).items():
        # A target that is new has nothing to grow from.
        old = (before.targets or {}).get(target)
        if old is not None and _grew(SizeChange("", target, old, size), context):
            yield Problem(
                f"its code for {target} grew {_figures(old, size)} since the previous set", next_step
            )


def _grew(change: SizeChange, context: Context) -> bool:
    if change.before is None or change.after is None:
        return False
    more, contract = change.after - change.before, context.contract
    return more > contract.growth * change.before and more > contract.small_growth


def _figures(before: int, after: int) -> str:
    return f"from {_bytes(before)} to {_bytes(after)} ({after / before - 1:+.1%})"


def _bytes(size: int) -> str:
    """A size for people to read, to the byte where it is small."""
    return f"{size} bytes" if size < 1_000_000 else f"{size / 1e6:,.1f} MB".replace(",", " ")


RULES = (
    Rule(
        "member-names",
        "Names are relative, with forward slashes, and stay inside the wheel.",
        _member_names,
        kinds=_BOTH,
        waivable=False,
    ),
    Rule("member-twice", "No name is in the archive twice.", _member_twice, kinds=_BOTH, waivable=False),
    Rule("member-links", "Members are files: no links, no devices.", _member_links),
    Rule(
        "member-modes",
        "Files are readable, programs runnable; none is writable by everybody, setuid or setgid.",
        _member_modes,
    ),
    Rule(
        "member-method",
        "Members are stored or deflated, and not encrypted.",
        _member_method,
        waivable=False,
    ),
    Rule("stored-descriptor", "No stored member has a data descriptor.", _stored_descriptor),
    Rule(
        "member-damaged",
        "Each member unpacks to the size and checksum that the archive gives.",
        _member_damaged,
        kinds=_BOTH,
        waivable=False,
    ),
    Rule(
        "archive-layout",
        "The file is one archive: its directory lists all of it, and every record tells the same.",
        _layout,
        waivable=False,
    ),
    Rule(
        "record",
        "RECORD lists every member, and nothing else, with the right digest and size.",
        _record,
        waivable=False,
    ),
    Rule(
        "dist-info",
        "There is one .dist-info folder, named after the project and version in the file name.",
        _dist_info,
        waivable=False,
    ),
    Rule(
        "name-clash",
        "No two members are installed as one file, none as both file and folder; each name can be written.",
        _name_clash,
        waivable=False,
    ),
    Rule(
        "windows-names",
        "A wheel that installs on Windows has only names that Windows allows and tells apart.",
        _windows_names,
    ),
    Rule(
        "windows-lengths",
        f"A wheel that installs on Windows has no path of more than {_LONGEST} characters.",
        _windows_lengths,
    ),
    Rule(
        "size-budget",
        "The file, and the device code of each target in it, are within their budgets.",
        _budget,
        kinds=_BOTH,
    ),
    Rule(
        "size-growth",
        "Neither the file nor the code of a target in it grew more since the last set than is allowed.",
        _growth,
        kinds=_BOTH,
    ),
)
