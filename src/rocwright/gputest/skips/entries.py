"""Skip entries of the built-in table, the user's overlay and files: read, chosen, written, taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from rocwright.data import load_table, parse_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.inside.rocwright_patterns import is_exact, problem_of
from rocwright.gputest.skips.hold import FamilyMembers, is_specifier, near_names, targets_of
from rocwright.model.gpu import Families
from rocwright.model.suites import SkipEntry, SkipTable
from rocwright.system.files import write_text

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ISSUE = re.compile(r"https?://\S+|[\w.-]+/[\w.-]+#[0-9]+")
_BUILT_IN = "data/skips.toml"
_HEADER = re.compile(r"\s*\[\[\s*entry\s*\]\]\s*(#.*)?")


class Origin(msgspec.Struct, frozen=True):
    """Where an entry stands: the file's name, its text, the header of a row, and the row's number from 0."""

    file: str
    text: str
    header: str
    number: int

    def line(self, field: str = "") -> int | None:
        """The line of a field of the row, of its header, or None where the text is laid out otherwise."""
        lines = self.text.splitlines()
        header = re.compile(rf"\s*\[\[\s*{re.escape(self.header)}\s*\]\]\s*(#.*)?")
        found = [number for number, line in enumerate(lines, 1) if header.fullmatch(line)]
        if self.number >= len(found):
            return None
        begin = found[self.number]
        end = found[self.number + 1] if self.number + 1 < len(found) else len(lines) + 1
        key = re.compile(rf"\s*(where\s*\.\s*|where\s*=.*[{{,]\s*)?{re.escape(field)}\s*=")
        fields = (number for number in range(begin + 1, end) if field and key.match(lines[number - 1]))
        return next(fields, begin)

    def named(self, field: str = "") -> str:
        """`skips.toml:12`, or the file alone."""
        line = self.line(field)
        return self.file if line is None else f"{self.file}:{line}"


def families_table(overlay: Overlay | None = None) -> FamilyMembers:
    """The members of each family."""
    return load_table("families", Families, overlay).families


def generic_targets(overlay: Overlay | None = None) -> FamilyMembers:
    """Which targets the code for generic targets runs on."""
    return load_table("families", Families, overlay).generic


def load_entries(files: Sequence[Path] = (), overlay: Overlay | None = None) -> tuple[SkipEntry, ...]:
    """The built-in entries, those of an overlay, and those of files of the form of `skips.toml`, in order.

    Raises `InvalidData` naming file, line and field.
    """
    families = families_table(overlay)
    found: list[SkipEntry] = []
    origins: dict[str, Origin] = {}
    for entry, origin in [*_built_in(overlay), *(pair for file in files for pair in read_file(file))]:
        _require_sense(entry, origin, families)
        first = origins.setdefault(entry.id, origin)
        if first is not origin:
            raise InvalidData(
                f"{origin.named('id')}: another entry is named {entry.id!r}: {first.named('id')}",
                where=origin.file,
                next_step="give each entry an id of its own",
            )
        found.append(entry)
    return tuple(found)


def _built_in(overlay: Overlay | None) -> list[tuple[SkipEntry, Origin]]:
    own = load_table("skips", SkipTable).entry
    both = load_table("skips", SkipTable, overlay).entry
    # An array of plain tables is appended to; an empty built-in array is replaced: the same.
    added = both[len(own) :]
    pairs = [(entry, Origin(_BUILT_IN, "", "entry", number)) for number, entry in enumerate(own)]
    if overlay is not None and added:
        text = _text_or_nothing(Path(overlay.where))
        pairs += [
            (entry, Origin(overlay.where, text, "skips.entry", number)) for number, entry in enumerate(added)
        ]
    return pairs


def _text_or_nothing(path: Path) -> str:
    # Read before, by whoever made the overlay; only lines of messages are lost.
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def read_file(path: Path) -> list[tuple[SkipEntry, Origin]]:
    """The entries of one file, each with where it stands; raises `InvalidData` for what does not fit."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidData(
            f"{path} cannot be read: {why}", where=path, next_step="name a TOML file with [[entry]] tables"
        ) from error
    try:
        table = parse_table(text, SkipTable, where=str(path))
    except InvalidData as error:
        raise _with_line(error, path, text) from error
    return [(entry, Origin(str(path), text, "entry", number)) for number, entry in enumerate(table.entry)]


def _with_line(error: InvalidData, path: Path, text: str) -> InvalidData:
    """The schema's message, with the line of the row and field that it names."""
    row = re.search(r"\$\.entry\[([0-9]+)\]((?:\.\w+)*)", error.what)
    if row is None:
        return error
    field = re.search(r"field `([^`]+)`", error.what)
    name = row[2].rpartition(".")[2]
    if field is not None and "unknown" in error.what:
        name = field[1]
    origin = Origin(str(path), text, "entry", int(row[1]))
    line = origin.line(name)
    what = error.what if line is None else error.what.replace(str(path), f"{path}:{line}", 1)
    return InvalidData(what, where=path, next_step=error.next_step)


def _require_sense(entry: SkipEntry, origin: Origin, families: FamilyMembers) -> None:
    """Raise `InvalidData` for the first field that is well-formed TOML and yet says nothing."""

    def refuse(field: str, what: str, next_step: str) -> InvalidData:
        name = entry.id or f"number {origin.number + 1}"
        return InvalidData(
            f"{origin.named(field)}: {field} of the entry {name} {what}",
            where=origin.file,
            next_step=next_step,
        )

    if not _ID.fullmatch(entry.id):
        raise refuse("id", "is not a valid name", "write letters, digits, dots, dashes: miopen-rnn-dropout")
    if not entry.reason.strip():
        raise refuse("reason", "is empty", "say why the test is not expected to pass")
    if entry.issue and not _ISSUE.fullmatch(entry.issue):
        raise refuse("issue", f"is not an issue: {entry.issue!r}", "write its URL, or owner/repository#123")
    if entry.expires is not None and entry.expires < entry.added:
        raise refuse("expires", "lies before added", "correct one of the two days")
    _require_tests(entry, refuse)
    for name in entry.where.targets:
        if not targets_of((name,), families):
            raise refuse(
                "targets", f"has {name!r}, which is not a known target or family", near_names(name, families)
            )
    versions = (("torch", entry.where.torch), ("rocm", entry.where.rocm), ("python", entry.where.python))
    for field, specifier in versions:
        if specifier and not is_specifier(specifier):
            raise refuse(
                field, f"is not a version specifier: {specifier!r}", "write it like >=2.9,<2.11 or 2.10"
            )


def _require_tests(entry: SkipEntry, refuse: Callable[[str, str, str], InvalidData]) -> None:
    if not entry.tests:
        raise refuse("tests", "is empty", "name the tests: file::class::test")
    for number, test in enumerate(entry.tests):
        problem = problem_of(test)
        if problem:
            raise refuse(
                "tests", f"has {test!r}, which {problem}", "compare it with pytest --collect-only -q"
            )
        if test in entry.tests[:number]:
            raise refuse("tests", f"has {test!r} twice", "remove one of them")
    if entry.matches is None:
        return
    if entry.matches < 1:
        raise refuse("matches", "is below 1", "say how many tests the patterns match at most")
    if all(map(is_exact, entry.tests)) and entry.matches != len(entry.tests):
        raise refuse(
            "matches",
            f"is {entry.matches}, but its {len(entry.tests)} tests are exact",
            "leave it out: it belongs to patterns with a star",
        )


def chosen_entries(entries: Sequence[SkipEntry], ids: Sequence[str]) -> tuple[SkipEntry, ...]:
    """The entries with these ids, all for none; raises `InvalidData` naming near ids."""
    known = {entry.id: entry for entry in entries}
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            raise InvalidData(
                f"there is no entry {name!r}",
                next_step=f"perhaps {' or '.join(near)}" if near else "rocwright test skips show names them",
            )
    return tuple(known[name] for name in dict.fromkeys(ids)) if ids else tuple(entries)


def rendered(entries: Iterable[SkipEntry], head: str = "") -> str:
    """Entries as the text of a file for `--skips`, behind the lines of a comment."""
    blocks = ["".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())] if head else []
    return "\n".join([*blocks, *map(_block, entries)])


def _block(entry: SkipEntry) -> str:
    lines = ["[[entry]]", f"id = {_text(entry.id)}", f"tests = {_list(entry.tests)}"]
    if entry.matches is not None:
        lines.append(f"matches = {entry.matches}")
    where = [
        *([f"targets = {_list(entry.where.targets)}"] if entry.where.targets else []),
        *([f"platforms = {_list(entry.where.platforms)}"] if entry.where.platforms else []),
        *([f"torch = {_text(entry.where.torch)}"] if entry.where.torch else []),
        *([f"rocm = {_text(entry.where.rocm)}"] if entry.where.rocm else []),
        *([f"python = {_text(entry.where.python)}"] if entry.where.python else []),
    ]
    if where:
        lines.append(f"where = {{ {', '.join(where)} }}")
    lines += [f"kind = {_text(entry.kind)}", f"reason = {_text(entry.reason)}"]
    if entry.issue:
        lines.append(f"issue = {_text(entry.issue)}")
    lines.append(f"added = {entry.added}")
    if entry.expires is not None:
        lines.append(f"expires = {entry.expires}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # What JSON escapes, TOML's basic strings escape the same; DEL only TOML does.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Collection[str]) -> str:
    if len(values) == 1:
        return f"[{_text(next(iter(values)))}]"
    short = f"[{', '.join(map(_text, values))}]"
    if len(short) <= 80:
        return short
    return "[\n" + "".join(f"  {_text(value)},\n" for value in values) + "]"


def without(text: str, ids: Collection[str], path: Path) -> str:
    """The text of a file without some of its entries, and without the comments right above them.

    Everything else stays byte by byte. Raises `InvalidData` where the text is laid out so that this cannot be
    done safely: what is left is read again and compared.
    """
    before = parse_table(text, SkipTable, where=str(path)).entry
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip("\r\n"))]
    gone: set[int] = set()
    if len(headers) == len(before):
        for entry, begin in zip(before, headers, strict=True):
            if entry.id in ids:
                gone.update(range(_with_comments(lines, begin), _end(lines, begin)))
    left = "".join(line for number, line in enumerate(lines) if number not in gone)
    kept = tuple(entry for entry in before if entry.id not in ids)
    if not _holds_exactly(left, kept, path):
        raise InvalidData(
            f"{path} is laid out in a way that does not allow removing entries line by line",
            where=path,
            next_step=f"begin each with a line [[entry]]; or remove by hand: {', '.join(sorted(ids))}",
        )
    return left


def _with_comments(lines: list[str], begin: int) -> int:
    while begin > 0 and lines[begin - 1].lstrip().startswith("#"):
        # The head of the file, which a blank line parts from the first entry, is not reached.
        begin -= 1
    return begin


def _end(lines: list[str], begin: int) -> int:
    """The line behind an entry: the next entry with the comments above it, or the end."""
    for number in range(begin + 1, len(lines)):
        if _HEADER.fullmatch(lines[number].rstrip("\r\n")):
            return _with_comments(lines, number)
    return len(lines)


def _holds_exactly(text: str, entries: tuple[SkipEntry, ...], path: Path) -> bool:
    try:
        found = parse_table(text, SkipTable, where=str(path)).entry
    except InvalidData:
        return False
    return found == entries


def write_new(path: Path, text: str) -> None:
    """Write a new file; raises `UsageError` for a file that is there."""
    write_all_new(path.parent, {path.name: text})


def write_all_new(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into a directory, none of them if any is there already; raises `UsageError` naming it."""
    paths = {directory / name: text for name, text in files.items()}
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists already", next_step="name another place, or move it away")
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def remove_entries(paths: Iterable[Path], ids: Collection[str]) -> dict[Path, tuple[str, ...]]:
    """Take entries out of the files that hold them; returns what was taken out of which.

    All new texts are made before the first is written. Raises `InvalidData` as `without`.
    """
    texts: dict[Path, tuple[str, tuple[str, ...]]] = {}
    for path in paths:
        text = path.read_bytes().decode()
        held = parse_table(text, SkipTable, where=str(path)).entry
        gone = tuple(entry.id for entry in held if entry.id in ids)
        if gone:
            texts[path] = without(text, gone, path), gone
    for path, (text, _) in texts.items():
        write_text(path, text)
    return {path: gone for path, (_, gone) in texts.items()}
