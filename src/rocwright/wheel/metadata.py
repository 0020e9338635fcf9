"""What a wheel says of itself, as values and as text: its names, METADATA, and RECORD with all digests."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import parse_tag
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from rocwright.errors import InvalidInput, InvalidWheel

METADATA_VERSION = "2.4"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Metadata(msgspec.Struct, frozen=True):
    """Core metadata 2.4 (packaging.python.org, "Core metadata specifications").

    `requires_dist` are PEP 508 strings, `license_expression` is SPDX, `license_files` are paths below
    `.dist-info/licenses`, `project_urls` maps a label to an address. Raises `InvalidInput` naming the field
    that is malformed.
    """

    name: str
    version: str
    summary: str | None = None
    requires_python: str | None = None
    requires_dist: tuple[str, ...] = ()
    provides_extra: tuple[str, ...] = ()
    license_expression: str | None = None
    license_files: tuple[str, ...] = ()
    description: str | None = None
    description_content_type: str | None = None
    author: str | None = None
    keywords: tuple[str, ...] = ()
    classifiers: tuple[str, ...] = ()
    project_urls: Mapping[str, str] = msgspec.field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        normalized_name(self.name)
        normalized_version(self.version)
        try:
            for requirement in self.requires_dist:
                Requirement(requirement)
            SpecifierSet(self.requires_python or "")
        except (InvalidRequirement, InvalidSpecifier) as error:
            raise InvalidInput(f"metadata of {self.name}: {error}") from error
        except RecursionError as error:
            raise InvalidInput(f"metadata of {self.name}: a marker is nested too deeply") from error


def normalized_name(name: str) -> str:
    """The canonical project name (`rocm-sdk-core`); raises `InvalidInput` for a name no index takes."""
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName as error:
        raise InvalidInput(f"{name!r} is not a valid project name") from error


def normalized_version(version: str) -> str:
    """The canonical spelling of a PEP 440 version; raises `InvalidInput` for another text."""
    try:
        return str(Version(version))
    except ValueError as error:  # also for numbers of thousands of digits
        raise InvalidInput(f"{version!r} is not a valid version (PEP 440)") from error


def wheel_stem(name: str, version: str) -> str:
    """`name-version` as file and `.dist-info` names escape them."""
    return f"{normalized_name(name).replace('-', '_')}-{normalized_version(version)}"


def wheel_filename(name: str, version: str, tag: str) -> str:
    """File name of a wheel; `tag` is `python-abi-platform`, each part perhaps a `.`-joined set."""
    if tag.count("-") != 2 or not all(tag.split("-")) or "/" in tag:
        raise InvalidInput(f"{tag!r} is not a wheel tag", next_step="write it as python-abi-platform")
    return f"{wheel_stem(name, version)}-{tag}.whl"


def render_metadata(metadata: Metadata) -> bytes:
    """METADATA's bytes: UTF-8, one header a line, the description as the body."""
    headers: list[tuple[str, str | None]] = [
        ("Metadata-Version", METADATA_VERSION),
        ("Name", metadata.name),
        ("Version", normalized_version(metadata.version)),
        ("Summary", metadata.summary),
        ("Keywords", ",".join(metadata.keywords) or None),
        ("Author", metadata.author),
        ("License-Expression", metadata.license_expression),
        *(("License-File", path) for path in metadata.license_files),
        *(("Classifier", text) for text in metadata.classifiers),
        *(("Project-URL", f"{label}, {url}") for label, url in metadata.project_urls.items()),
        ("Requires-Python", metadata.requires_python),
        *(("Requires-Dist", text) for text in metadata.requires_dist),
        *(("Provides-Extra", extra) for extra in metadata.provides_extra),
        ("Description-Content-Type", metadata.description_content_type),
    ]
    lines = []
    for key, value in headers:
        if value is None:
            continue
        if "\n" in value or "\r" in value:
            raise InvalidInput(f"metadata of {metadata.name}: {key} has more than one line")
        lines.append(f"{key}: {value}\n")
    body = f"\n{metadata.description}" if metadata.description else ""
    return ("".join(lines) + body).encode()


# Far above any real METADATA; readers of headers and ranges take time that grows with the square of them.
_MOST_HEADERS, _LONGEST_RANGE = 50_000, 4096


def beyond_bounds(data: bytes) -> str | None:
    """What of METADATA is more than can be right; None for any real one."""
    head = re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0]
    if (count := head.count(b"\n")) > _MOST_HEADERS:
        return f"{count + 1:,} lines of headers"
    for text in re.findall(rb"(?im)^Requires-Python:(.*(?:\n[ \t].*)*)", head):
        if len(text) > _LONGEST_RANGE:
            return f"Requires-Python with {len(text):,} letters"
    return None


def parse_metadata(data: bytes) -> Metadata:
    """METADATA of any version as a value; fields that are not kept are ignored.

    Raises `InvalidWheel` when name or version are missing or a field is malformed.
    """
    if (what := beyond_bounds(data)) is not None:
        raise InvalidWheel(f"METADATA has {what}, which is more than can be right")
    raw, _ = parse_email(data)
    if "name" not in raw or "version" not in raw:
        raise InvalidWheel("METADATA lacks Name or Version")
    try:
        return Metadata(
            name=raw["name"],
            version=raw["version"],
            summary=raw.get("summary"),
            requires_python=raw.get("requires_python"),
            requires_dist=tuple(raw.get("requires_dist", ())),
            provides_extra=tuple(raw.get("provides_extra", ())),
            license_expression=raw.get("license_expression"),
            license_files=tuple(raw.get("license_files", ())),
            description=raw.get("description"),
            description_content_type=raw.get("description_content_type"),
            author=raw.get("author"),
            keywords=tuple(raw.get("keywords", ())),
            classifiers=tuple(raw.get("classifiers", ())),
            project_urls=raw.get("project_urls", {}),
        )
    except InvalidInput as error:
        raise InvalidWheel(error.what) from error


def header_fields(data: bytes) -> tuple[tuple[str, str], ...]:
    """Every header of METADATA or WHEEL in order: its key in lower case, and its text as written.

    The text keeps key, spelling and folded lines; it ends without a line break. Bytes that are no UTF-8
    become surrogates, which `surrogateescape` turns back.
    """
    head, _ = _head_and_body(data)
    fields: list[tuple[str, str]] = []
    for line in head.decode("utf-8", "surrogateescape").replace("\r\n", "\n").removesuffix("\n").split("\n"):
        if line[:1] in (" ", "\t") and fields:
            key, text = fields[-1]
            fields[-1] = (key, f"{text}\n{line}")
        elif ":" in line:
            fields.append((line.partition(":")[0].strip().lower(), line))
    return tuple(fields)


def add_headers(data: bytes, lines: Sequence[str]) -> bytes:
    """METADATA with more headers behind its own; everything else stays as it is, byte for byte."""
    head, body = _head_and_body(data)
    end = b"\r\n" if head.partition(b"\n")[0].endswith(b"\r") else b"\n"
    if head and not head.endswith(b"\n"):
        head += end
    return head + b"".join(line.encode() + end for line in lines) + body


def edit_headers(data: bytes, edit: Callable[[str, str], Sequence[str] | None]) -> bytes:
    """METADATA with some headers written anew; everything else stays as it is, byte for byte.

    `edit` gets key (in lower case) and unfolded value of each header and returns the lines that stand in its
    place, without line breaks; None keeps the header.
    """
    head, body = _head_and_body(data)
    kept: list[bytes] = []
    for lines in re.findall(rb"[^\n]*\n?(?:[ \t][^\n]*\n?)*", head):
        key, found, value = lines.decode("utf-8", "surrogateescape").partition(":")
        made = edit(key.strip().lower(), " ".join(value.split())) if found else None
        if made is None:
            kept.append(lines)
        else:
            end = b"\r\n" if lines.endswith(b"\r\n") else b"\n"
            kept += [line.encode("utf-8", "surrogateescape") + end for line in made]
    return b"".join(kept) + body


def _head_and_body(data: bytes) -> tuple[bytes, bytes]:
    """Headers with their last line break, and the rest from the empty line on."""
    found = re.search(rb"^\r?$", data, re.MULTILINE)
    return (data[: found.start()], data[found.start() :]) if found else (data, b"")


def render_wheel_file(tag: str, *, root_is_purelib: bool, generator: str) -> bytes:
    """The WHEEL file: one Tag line for each combination that a compressed tag stands for."""
    tags = sorted(str(single) for single in parse_tag(tag))
    lines = [
        "Wheel-Version: 1.0",
        f"Generator: {generator}",
        f"Root-Is-Purelib: {str(root_is_purelib).lower()}",
    ]
    return "".join(f"{line}\n" for line in (*lines, *(f"Tag: {tag}" for tag in tags))).encode()


def render_entry_points(groups: Mapping[str, Mapping[str, str]]) -> bytes:
    """entry_points.txt: group → name → object reference (`rocm_sdk._cli:main`), sorted."""
    parts = []
    for group, entries in sorted(groups.items()):
        for text in (group, *entries, *entries.values()):
            if "\n" in text or not text.strip():
                raise InvalidInput(f"entry point {text!r} is empty or has more than one line")
        parts.append(f"[{group}]\n" + "".join(f"{name} = {entries[name]}\n" for name in sorted(entries)))
    return "\n".join(parts).encode()


def exact_version(requirement: Requirement) -> str | None:
    """The version of a `==` pin without wildcard, normalised; None for any other specifier."""
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or specifiers[0].version.endswith("*"):
        return None
    return str(Version(specifiers[0].version))


class RecordRow(msgspec.Struct, frozen=True):
    """One line of RECORD; `sha256` is hex, None (with `size`) for RECORD itself and its signatures."""

    path: str
    sha256: str | None
    size: int | None


def encode_digest(sha256: str) -> str:
    """A hex sha256 as RECORD writes it: URL-safe base64 without `=`."""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def decode_digest(text: str) -> str:
    """The hex sha256 of a RECORD field; raises `InvalidWheel` for another algorithm or spelling."""
    algorithm, _, value = text.partition("=")
    if algorithm != "sha256":
        raise InvalidWheel(f"RECORD digest {text!r} is not sha256")
    try:
        digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        digest = b""
    # Encoding again also catches padding, the +/ alphabet and hex, which decoders let through.
    if len(digest) != 32 or encode_digest(digest.hex()) != text:
        raise InvalidWheel(f"RECORD digest {text!r} is not URL-safe base64 of a sha256 without '='")
    return digest.hex()


def render_record(rows: Iterable[RecordRow]) -> bytes:
    """RECORD's bytes, rows in the order given."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        digest = "" if row.sha256 is None else encode_digest(row.sha256)
        writer.writerow((row.path, digest, "" if row.size is None else row.size))
    return stream.getvalue().encode()


def parse_record(data: bytes) -> tuple[RecordRow, ...]:
    """The rows of a RECORD; raises `InvalidWheel` naming the line that is malformed."""
    rows = []
    try:
        lines = list(csv.reader(io.StringIO(data.decode(), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidWheel(f"RECORD cannot be read: {error}") from error
    for number, fields in enumerate(lines, start=1):
        if not fields:
            continue
        if len(fields) != 3 or not (fields[2] == "" or (fields[2].isascii() and fields[2].isdigit())):
            raise InvalidWheel(f"RECORD line {number} is not path,digest,size: {','.join(fields)!r}")
        path, digest, size = fields
        rows.append(RecordRow(path, decode_digest(digest) if digest else None, int(size) if size else None))
    return tuple(rows)
