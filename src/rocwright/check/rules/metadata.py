"""Rules about METADATA and tags: who the wheel is, for whom, and what it promises of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import PurePosixPath

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import Version

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.environments import read_specifier
from rocwright.check.facts import Facts, Headers
from rocwright.check.gather.dist_info import LARGEST_TEXT
from rocwright.check.rules.archive import unreadable_members
from rocwright.wheel.tags import STABLE, platform_of

_BOTH = ("wheel", "sdist")
_REBUILD = "build the wheel again; a wheel is never repaired by hand"
# Newer minor versions only add fields; another major version changes what the known fields mean.
_KNOWN_MAJOR = 2
_MOST_TAGS, _LONG = 1000, 1000


def can_be_judged(facts: Facts, file: str = "METADATA") -> bool:
    """Whether a file of the .dist-info folder can be found and read; rules about the archive say if not."""
    if facts.kind == "sdist":
        return True
    return len(facts.dist_infos) == 1 and f"{facts.dist_infos[0]}/{file}" not in unreadable_members(facts)


def _identity(facts: Facts, _: Context) -> Iterator[Problem]:
    headers = facts.headers
    if not can_be_judged(facts):
        return
    if headers == Headers():
        file = "METADATA" if facts.kind == "wheel" else "PKG-INFO"
        most = next((one.size for one in facts.members if one.name.endswith(f".dist-info/{file}")), 0)
        what = f"its {file} has {most:,} bytes, far more than any real one" if most > LARGEST_TEXT else None
        yield Problem(what or f"it has no {file}, or one without any field", "build it again")
        return
    often = {key: headers.twice[key] for key in ("name", "version") if key in headers.twice}
    for key, values in often.items():
        yield Problem(
            f"{key.title()} is given {len(values)} times ({_cut(list(values))}); "
            "which counts depends on the reader",
            "leave the one of the file name, and build it again",
        )
    missing = (headers.name is None and "name" not in often) or (
        headers.version is None and "version" not in often
    )
    if often or (missing and headers.hidden):
        return
    try:
        name = canonicalize_name(headers.name or "", validate=True)
        same = name == facts.project and Version(headers.version or "") == Version(facts.version)
    except ValueError:  # also for numbers of thousands of digits
        same = False
    if not same:
        yield Problem(
            f"its metadata is for {headers.name} {headers.version}, not {facts.project} {facts.version}",
            "build it again; renaming a file does not change its version",
        )


def _fields(facts: Facts, context: Context) -> Iterator[Problem]:
    headers = facts.headers
    if not can_be_judged(facts) or headers == Headers():
        return
    fix = "correct the field where the project declares it, and build again"
    version = re.fullmatch(r"([0-9]{1,9})\.[0-9]+", headers.metadata_version or "")
    if version is None and not (headers.metadata_version is None and headers.hidden):
        yield Problem(f"Metadata-Version is {headers.metadata_version!r}, not a number like 2.4", fix)
    elif version is not None and int(version.group(1)) > _KNOWN_MAJOR:
        yield Problem(f"Metadata-Version {version.group()} is newer than any installer knows", fix)
    for extra in headers.extras:
        if not is_normalized_name(canonicalize_name(extra)):
            yield Problem(f"Provides-Extra {extra!r} is not a valid name of an extra", fix)
    if read_specifier(headers.requires_python) is None:
        yield Problem(f"Requires-Python {headers.requires_python!r} is not a version specifier", fix)
    if serves_none(facts):
        yield Problem(f"Requires-Python {headers.requires_python!r} excludes every Python in its tags", fix)
    yield from _untold(facts, context, fix)
    if headers.license_expression is not None:
        yield from _expression(headers, fix)
    for path in headers.license_files:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or "\\" in path or not parts:
            yield Problem(f"License-File {path!r} is not a path inside the wheel", fix)
        elif facts.kind == "wheel" and licence_member(facts, path) is None:
            yield Problem(
                f"License-File {path!r} names no file in the wheel",
                "add the text to the wheel, or remove the line",
            )
    for field, values in headers.twice.items():
        if field not in ("name", "version"):
            what = f"{field.title()} is given {len(values)} times, and may be given once"
            yield Problem(f"{what}; which one counts depends on the reader", fix)
    if headers.not_utf8 is not None:
        what = f"line {headers.not_utf8} of its metadata has bytes that are not UTF-8"
        yield Problem(what, "write the file as UTF-8 where the project declares it, and build again")
    for line in headers.unparsed:
        yield Problem(f"the line or field {line!r} cannot be read", fix)


# The metadata that brought License-Expression (PEP 639). Tools wrote License-File long before it was a field.
_LICENCES_SINCE = (2, 4)


def _upload(facts: Facts, _: Context) -> Iterator[Problem]:
    """What indexes refuse at an upload, and only there: installers leave it alone."""
    headers = facts.headers
    if not can_be_judged(facts):
        return
    number = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", headers.metadata_version or "")
    older = number is not None and (int(number[1]), int(number[2])) < _LICENCES_SINCE
    if older and headers.license_expression is not None:
        yield Problem(
            f"License-Expression came with metadata 2.4, and this is {headers.metadata_version}",
            "let a newer build tool write the metadata; PyPI refuses the upload",
        )
    for field in ("metadata-version", "name", "version"):
        if field in headers.dynamic:
            yield Problem(
                f"Dynamic names {field.title()}, which may never change",
                "remove the line; PyPI refuses the upload",
            )


def _hidden(facts: Facts, _: Context) -> Iterator[Problem]:
    hidden = facts.headers.hidden
    if hidden and can_be_judged(facts):
        more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
        yield Problem(
            f"its headers end too early: {_short(hidden[0])}{more} stand in the description, "
            "which no installer reads",
            "remove the empty or malformed line in front of it; often it comes from a field of several lines",
        )


def _short(line: str) -> str:
    return repr(line if len(line) <= 120 else f"{line[:120]}…")


def _untold(facts: Facts, context: Context, fix: str) -> Iterator[Problem]:
    """What an sdist tells only when it is installed must be declared dynamic since metadata 2.2 (PEP 643)."""
    headers = facts.headers
    if facts.kind != "sdist" or headers.extras or not context.terms(facts.project).extras:
        return
    fields = [name for name in ("Requires-Dist", "Provides-Extra") if name.lower() not in headers.dynamic]
    if fields and headers.metadata_version not in ("1.0", "1.1", "1.2", "2.0", "2.1"):
        yield Problem(
            "its extras are known only where it is installed, but Dynamic does not list "
            f"{' and '.join(fields)}: uv installs nothing for them",
            fix,
        )


def _expression(headers: Headers, fix: str) -> Iterator[Problem]:
    text = headers.license_expression or ""
    try:
        canonicalize_license_expression(text)
    except InvalidLicenseExpression as error:
        yield Problem(f"License-Expression {text!r} is not an SPDX expression: {error}", fix)
    if headers.license is not None:
        yield Problem("it has both License and License-Expression, which indexes refuse", fix)


def licence_member(facts: Facts, path: str) -> str | None:
    """The member that a License-File line names; None where there is none.

    From metadata 2.4 on it lies below `licenses` (PEP 639). Older tools put the files, or copies of them
    without their folders, beside METADATA.
    """
    for info in facts.dist_infos:
        for place in (f"licenses/{path}", path, f"license_files/{path}", PurePosixPath(path).name):
            if f"{info}/{place}" in facts.names:
                return f"{info}/{place}"
    return None


def _tags(facts: Facts, _: Context) -> Iterator[Problem]:
    # Without WHEEL there is nothing to compare with, and more is wrong than the tags.
    if not can_be_judged(facts, "WHEEL") or f"{facts.dist_infos[0]}/WHEEL" not in facts.names:
        return
    try:
        inside = frozenset(str(tag) for text in facts.wheel_tags for tag in _single_tags(text))
    except ValueError:
        yield Problem(f"WHEEL has a malformed tag among {_cut(sorted(facts.wheel_tags))}", _REBUILD)
        return
    if facts.tags != inside:
        shown = _cut(sorted(inside)) or "none"
        yield Problem(f"its name says {', '.join(sorted(facts.tags))}, WHEEL says {shown}", _REBUILD)
    yield from foreign_extensions(facts)


def _single_tags(text: str) -> frozenset[Tag]:
    """What a tag with sets in it stands for; raises `ValueError` for more than any wheel is for."""
    if prod(part.count(".") + 1 for part in text.split("-")) > _MOST_TAGS:
        raise ValueError(text)
    return parse_tag(text)


def _cut(texts: list[str]) -> str:
    joined = ", ".join(texts)
    return joined if len(joined) <= _LONG else f"{joined[:_LONG]}…"


def _tag_any(facts: Facts, _: Context) -> Iterator[Problem]:
    images = [pe for pe in facts.pe if not pe.portable]
    # What is there for several machines is chosen from when it runs, and belongs into such a wheel.
    machines = {("elf", elf.machine) for elf in facts.elf if elf.problem is None}
    machines |= {("pe", pe.machine) for pe in images if pe.problem is None}
    if len(machines) > 1:
        return
    # Programs of Windows are left out: launchers that installers copy are in pure wheels with good reason.
    compiled = [*(elf.member for elf in facts.elf), *(pe.member for pe in images if pe.is_dll)]
    if any(tag.endswith("-any") for tag in facts.tags):
        for member in compiled:
            yield Problem(
                "it is compiled, but the wheel is tagged for any platform",
                "give the wheel the platform's tag",
                member,
            )


RULES = (
    Rule(
        "metadata-identity",
        "Name and version in the metadata match the file name.",
        _identity,
        kinds=_BOTH,
        by_metadata=True,
        waivable=False,
    ),
    Rule(
        "metadata-fields",
        "Every line of the metadata can be read; versions, licence and paths in it are well-formed.",
        _fields,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "metadata-upload",
        "An index that checks what is uploaded takes the metadata.",
        _upload,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "metadata-hidden",
        "No field of the metadata stands behind an empty or malformed line, where nobody reads it.",
        _hidden,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule("tags", "The tags in the file name match those in WHEEL; extensions are for their Python.", _tags),
    Rule("tag-any", "A wheel with compiled files is not tagged for any platform.", _tag_any),
)


# -- which Pythons a wheel is for: what its tags, its extensions and Requires-Python say must be one thing


_INTERPRETER = re.compile(r"cp3([0-9]+)")
_ABI = re.compile(r"cp3[0-9]+t?")
# `_C.cpython-312-x86_64-linux-gnu.so`, `_C.cp312-win_amd64.pyd`; without a Python in its name it fits any.
_EXTENSION = re.compile(
    r"(?P<stem>.+)\.(cpython-(?P<unix>3[0-9]+[a-z]*)(?:-(?P<where>[^./]+))?\.so"
    r"|cp(?P<windows>3[0-9]+[a-z]*)-(?P<tag>[^./]+)\.pyd)"
)
_ANY_ABI = (*STABLE, "none")
# `x86_64-linux-gnu`; of machines with several spellings nothing is said.
_TRIPLETS = re.compile(r"(x86_64|aarch64|s390x)-linux-(?:gnu|musl)")
_CLEAN = "build it again from a clean tree, with the Python that the tag names"
# What any Python of the platform takes; Windows' modules have an ending of their own.
_PLAIN = {"linux": (".so", ".abi3.so", ".abi3t.so"), "windows": (".pyd",)}


def foreign_extensions(facts: Facts) -> Iterator[Problem]:
    """Extensions that no Python which the wheel is for looks at."""
    abis = {tag.split("-")[1] for tag in facts.tags}
    if not abis or not all(_ABI.fullmatch(abi) or abi in _ANY_ABI for abi in abis):
        return
    built = [match for member in facts.members if (match := _EXTENSION.fullmatch(member.name)) is not None]
    system = platform_of(facts.tags)
    machines = {tag.rpartition("-")[2] for tag in facts.tags}
    fitting = [match for match in built if _is_at_home(match, system, machines)]
    # Of an extension that is there for several Pythons each takes its own.
    served = {match["stem"] for match in fitting if abis & set(_ANY_ABI) or _abi_of(match) in abis}
    shown = " and ".join(sorted(abis))
    for match in sorted(built, key=lambda one: one.string):
        if match["stem"] in served or any(
            match["stem"] + end in facts.names for end in _PLAIN.get(system or "", ())
        ):
            continue
        what = f"it is an extension for {_abi_of(match)}, and the wheel is for {shown}"
        if match not in fitting:
            what = (
                f"it is an extension for {match['where'] or match['tag']}, and the wheel is for "
                + " and ".join(sorted(machines))
            )
        yield Problem(what, _CLEAN, match.string)
    yield from _unversioned(facts, built)


def _unversioned(facts: Facts, built: list[re.Match[str]]) -> Iterator[Problem]:
    """Extensions for one Python in a wheel that is for any: the others install it and cannot import it."""
    parts = [tag.split("-") for tag in facts.tags]
    if not all(abi in _ANY_ABI and platform != "any" for _, abi, platform in parts):
        return
    # Who names the Python in the tag (cp311-none) says it there; who has several builds, chooses.
    if any(abi == "none" and python.startswith("cp") for python, abi, _ in parts):
        return
    if len({_abi_of(match) for match in built}) != 1:
        return
    # Libraries that ctypes loads have such names, too, where setuptools built them; nobody imports these.
    loaded = {elf.member for elf in facts.elf if elf.symbols is not None and not elf.symbols.inits}
    for match in sorted(built, key=lambda one: one.string):
        # Other Pythons take the source beside it, as Cython and mypyc leave it there.
        instead = any(match["stem"] + end in facts.names for end in (*_PLAIN["linux"], ".py"))
        if match["unix"] and not instead and match.string not in loaded:
            yield Problem(
                f"it is an extension for {_abi_of(match)} alone, and the tag "
                f"{'-'.join(parts[0][:2])} promises any",
                "build it for the stable ABI (.abi3.so), or tag the wheel for that Python",
                match.string,
            )


def _abi_of(match: re.Match[str]) -> str:
    return f"cp{match['unix'] or match['windows']}"


def _is_at_home(match: re.Match[str], system: str | None, machines: set[str]) -> bool:
    """Whether a Python on the wheel's platforms looks at such a name; where that is not known, it does."""
    if system == "windows":
        return match["unix"] is None
    if system != "linux":
        return True
    if match["windows"] is not None:
        return False
    where = match["where"] or ""
    if where == "darwin":
        return False
    machine = _TRIPLETS.fullmatch(where)
    return machine is None or any(platform.endswith(f"_{machine[1]}") for platform in machines)


def serves_none(facts: Facts) -> bool:
    """Whether Requires-Python excludes every Python that the tags name."""
    wanted = read_specifier(facts.headers.requires_python)
    if wanted is None:
        return False
    parts = [tag.split("-") for tag in facts.tags]
    named = [_INTERPRETER.fullmatch(python) for python, *_ in parts]
    if not parts or any(abi in (*STABLE, "none") for _, abi, *_ in parts):
        return False  # those are for later ones as well
    # A specifier may ask for a certain bugfix release.
    releases = [f"3.{match[1]}.{patch}" for match in named if match is not None for patch in (0, 99)]
    return bool(releases) and all(named) and not any(wanted.contains(each) for each in releases)
