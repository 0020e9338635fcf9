"""Ways in which an archive and its members go wrong on the way: uploads, transfers, packers, copies."""

from __future__ import annotations

import re
import zlib
from random import Random

from real.fault_generator.base import any_wheel, members, open_wheel, operator, pick
from real.fault_generator.blind.places import (
    LARGEST,
    change_text,
    found,
    is_library,
    is_module,
    is_text,
)
from real.mutations_base import Workbench
from real.wheel_edit import FILE, LINK, pack


@operator
def upload_cut_short(bench: Workbench, rng: Random) -> str | None:
    """The connection broke, and the part that had arrived was kept."""
    project = any_wheel(bench, rng)
    lost = rng.choice((1, 4, 22, rng.randint(23, 4096), bench.paths[project].stat().st_size // 3))
    bench.overwrite(project, lambda data: data[:-lost])
    return f"{project}: the last {lost} bytes are lost"


@operator
def bit_rot(bench: Workbench, rng: Random) -> str | None:
    """One bit of the file is another."""
    project = any_wheel(bench, rng)
    place, bit = rng.randrange(bench.paths[project].stat().st_size), rng.randrange(8)

    def flip(data: bytes) -> bytes:
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    bench.overwrite(project, flip)
    return f"{project}: bit {bit} of byte {place} of the file"


@operator
def text_mode_transfer(bench: Workbench, rng: Random) -> str | None:
    """A transfer in text mode changed the line ends of the archive."""
    project = any_wheel(bench, rng)
    old, new = rng.choice(((b"\n", b"\r\n"), (b"\r", b""), (b"\r\n", b"\n")))
    bench.overwrite(project, lambda data: data.replace(old, new))
    return f"{project}: {old!r} became {new!r} in the whole file"


@operator
def zip_updated_twice(bench: Workbench, rng: Random) -> str | None:
    """A tool appended a second member of the same name, an older or a newer state of it."""
    place = found(bench, rng, is_text, info=True)
    if place is None:
        return None
    project, name, data = place
    lines = data.splitlines(keepends=True)
    del lines[rng.randrange(len(lines)) if lines else 0 :]
    with bench.edit(project) as wheel:
        if name.endswith("/RECORD"):
            wheel.record()
        at = rng.choice((0, len(wheel.parts)))
        wheel.parts.insert(at, pack(name, b"".join(lines)))
    return f"{project}: a second {name}, at {at}"


@operator
def packed_on_windows(bench: Workbench, rng: Random) -> str | None:
    """Names of members with backslashes, of all or of one package's."""
    project = any_wheel(bench, rng)
    wheel = open_wheel(bench.paths[project])
    whole = rng.random() < 0.3
    names = [name for name in members(wheel, info=whole) if "/" in name]
    if not whole:
        names = rng.sample(names, min(len(names), 1))
    if not names:
        return None
    with bench.edit(project) as wheel:
        wheel.record()
        for part in wheel.parts:
            if part.text_name in names:
                part.name = part.text_name.replace("/", "\\")
    return f"{project}: backslashes in {len(names)} names, as {names[0]}"


@operator
def links_kept_by_zip(bench: Workbench, rng: Random) -> str | None:
    """`zip --symlinks`: what was a link on the build machine is a member that holds the target's name."""
    place = found(bench, rng, lambda name: is_library(name) or is_module(name))
    if place is None:
        return None
    project, name, _ = place
    target = rng.choice(("{}.real", "/build/wheel/lib/{}", "../{}", "{}")).format(name.rpartition("/")[2])
    with bench.edit(project) as wheel:
        data = wheel.read(name)
        wheel.put(name, target, mode=LINK | 0o777)
        if target.endswith(".real"):
            wheel.put(f"{name}.real", data)
    return f"{project}: {name} is a link to {target}"


@operator
def modes_lost(bench: Workbench, rng: Random) -> str | None:
    """Members carry modes of another kind."""
    project = any_wheel(bench, rng)
    mode = rng.choice((0, FILE, FILE | 0o200, FILE | 0o4755, 0o040755, FILE | 0o111))
    with bench.edit(project) as wheel:
        names = members(wheel, info=True)
        chosen = names if rng.random() < 0.5 else [rng.choice(names)]
        for part in wheel.parts:
            if part.text_name in chosen:
                part.mode = mode
    return f"{project}: mode {mode:o} of {len(chosen)} members"


@operator
def directory_as_member(bench: Workbench, rng: Random) -> str | None:
    """An entry for a directory, under the name of a file or beside files."""
    place = found(bench, rng, lambda _: True)
    if place is None:
        return None
    project, name, _ = place
    instead = rng.random() < 0.5
    with bench.edit(project) as wheel:
        if instead:
            wheel.remove(name)
            wheel.put(f"{name}/__init__.py", "")
        wheel.parts.insert(0, pack(f"{name}/" if instead else f"{name}.d/", b"", 0, 0o040755))
    return f"{project}: a directory {'instead of' if instead else 'beside'} {name}"


# -- any member


@operator
def member_renamed(bench: Workbench, rng: Random) -> str | None:
    """A member has another name."""
    place = found(bench, rng, lambda _: True, info=True)
    if place is None:
        return None
    project, name, _ = place
    folder, slash, last = name.rpartition("/")
    stem, dot, ending = last.partition(".")
    new = folder + slash + rng.choice(
        (last.upper(), last.swapcase(), f"{last}.orig", f"{stem}-1{dot}{ending}", f"_{last}", last[:-1])
    )  # fmt: skip
    if new == name:
        return None
    with bench.edit(project) as wheel:
        if name.endswith(".dist-info/RECORD"):
            wheel.record()
        wheel.rename(name, new)
    return f"{project}: {name} is named {new}"


@operator
def members_swapped(bench: Workbench, rng: Random) -> str | None:
    """Two members have each other's bytes."""
    project = any_wheel(bench, rng)
    wheel = open_wheel(bench.paths[project])
    names = [name for name in members(wheel) if wheel.part(name).size < LARGEST]
    kind = rng.choice([name.rpartition(".")[2] for name in names])
    same = [name for name in names if name.endswith(f".{kind}")]
    if len(same) < 2:
        same = names
    if len(same) < 2:
        return None
    one, other = rng.sample(same, 2)
    first, second = wheel.read(one), wheel.read(other)
    if first == second:
        return None
    with bench.edit(project) as wheel:
        wheel.put(one, second)
        wheel.put(other, first)
    return f"{project}: {one} and {other} are swapped"


@operator
def member_left_out(bench: Workbench, rng: Random) -> str | None:
    """A member is not there, in the archive or in RECORD too."""
    place = found(bench, rng, lambda _: True, info=True)
    if place is None:
        return None
    project, name, _ = place
    listed = rng.random() < 0.4 and not name.endswith("/RECORD")
    with bench.edit(project) as wheel:
        rows = [list(row) for row in wheel.record()]
        wheel.remove(name)
        wheel.rows = rows if listed else [row for row in rows if row[0] != name]
    return f"{project}: {name} is left out{', but listed' if listed else ''}"


@operator
def other_bytes_fetched(bench: Workbench, rng: Random) -> str | None:
    """A member holds what a download, a checkout or a full disk left of it."""
    place = found(bench, rng, lambda _: True)
    if place is None:
        return None
    project, name, data = place
    what, new = rng.choice(
        (
            (
                "a pointer of Git LFS",
                b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\n",
            ),
            (
                "a page of an error",
                b"<!DOCTYPE html>\n<html><body><h1>503 Backend fetch failed</h1></body></html>\n",
            ),
            ("nothing", b""),
            ("its first half", data[: len(data) // 2]),
            ("zeros", bytes(len(data))),
            ("a page of zeros at its end", data[:-512] + bytes(min(512, len(data)))),
            ("itself twice", data + data),
            ("gzip of it", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + zlib.compress(data)[2:-4] + bytes(8)),
        )
    )
    if new == data:
        return None
    with bench.edit(project) as wheel:
        wheel.put(name, new)
    return f"{project}: {name} holds {what}"


@operator
def line_deleted(bench: Workbench, rng: Random) -> str | None:
    """A line of a text is gone."""

    def change(text: str) -> tuple[str, str] | None:
        lines = text.splitlines(keepends=True)
        at = pick(rng, [str(number) for number, line in enumerate(lines) if line.strip()])
        if at is None:
            return None
        gone = lines.pop(int(at))
        return "".join(lines), f"line {int(at) + 1} is gone: {gone.strip()[:60]}"

    return change_text(bench, rng, is_text, change, info=True)


@operator
def metadata_character_changed(bench: Workbench, rng: Random) -> str | None:
    """One character of METADATA is another."""

    def change(text: str) -> tuple[str, str] | None:
        head = text.partition("\n\n")[0]
        at = rng.randrange(len(head))
        new = rng.choice("0123456789.+-_ ;:=<>[]()\n\t\0éaZ")
        return text[:at] + new + text[at + 1 :], f"{text[at]!r} at {at} became {new!r}"

    return change_text(bench, rng, lambda name: name.endswith(".dist-info/METADATA"), change, info=True)


@operator
def literal_changed(bench: Workbench, rng: Random) -> str | None:
    """A number or a string of Python source is another."""
    literal = re.compile(r"""(?<![\w"'])(\d+(?:\.\d+)?|'[^'\n]*'|"[^"\n]*")(?![\w"'])""")

    def change(text: str) -> tuple[str, str] | None:
        places = list(literal.finditer(text))
        if not places:
            return None
        place = rng.choice(places)
        old = place.group()
        new = f"{old[:-1]}_{old[-1]}" if old[0] in "\"'" else rng.choice((f"{old}0", "-1", "None", "0"))
        if len(old) > 2 and old[0] in "\"'" and rng.random() < 0.5:
            new = old[:-2] + old[-1]
        return text[: place.start()] + new + text[place.end() :], f"{old[:60]} became {new[:60]}"

    return change_text(bench, rng, is_module, change)
