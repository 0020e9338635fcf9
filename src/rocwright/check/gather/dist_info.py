"""What lies in a `.dist-info` folder: METADATA and lines such as those of WHEEL, licences, SBOMs.

Also which members' text rules read, and how much of it is kept.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.metadata import parse_email

from rocwright.check.facts import Headers, OriginFacts
from rocwright.device_code.origin import LARGEST_ORIGIN, is_origin, parse_origin, speaks_of_origin
from rocwright.errors import InvalidArchive
from rocwright.model.variants import WHEEL_FILE
from rocwright.wheel.metadata import beyond_bounds
from rocwright.wheel.read import all_headers, place_of

# Sources that rules read; far above any real source, as is that of RECORD.
LARGEST_TEXT, LARGEST_RECORD = 4 << 20, 32 << 20
# Rules compare requirements with each other; real packages have some hundreds.
_MOST_FIELDS = 10_000
# Fields that may be given once; what the parser cannot place under such a name is not unknown to it.
_SINGLE = (
    *(
        "metadata-version",
        "name",
        "version",
        "summary",
        "description",
        "description-content-type",
        "keywords",
    ),
    *("home-page", "download-url", "author", "author-email", "maintainer", "maintainer-email"),
    *("license", "license-expression", "requires-python"),
)
# Lines of metadata as tools write them; a text for people does not begin with those of the second kind.
_FIELD = re.compile(
    r"(Metadata-Version|Name|Version|Summary|License|Author|[A-Z][a-z]+(-[A-Z][A-Za-z]+)+|Classifier): "
)
_TELLING = re.compile(
    r"(Metadata-Version|Requires-Dist|Requires-Python|Provides-Extra|Provides-Dist|License-File|License-Expression"
    r"|Project-URL|Description-Content-Type|Dynamic|Classifier): "
)
_MOST_HIDDEN = 1 << 16
_TEXTS = ("torch/version.py", "torch/_rocm_init.py", "torch/__init__.py")
_DIST_INFO = re.compile(r"(?P<folder>[^/]+\.dist-info)/(?P<part>.+)", re.DOTALL)
_PARTS = ("METADATA", "WHEEL", WHEEL_FILE)
_LICENCE = re.compile(r"licenses/.|([^/]*/)*(LICEN[CS]E|COPYING|NOTICE)[^/]*$", re.IGNORECASE)
_SBOM = "sboms/"


def dist_info_of(name: str) -> tuple[str, str] | None:
    """The `.dist-info` folder that a member lies in, and its path there."""
    match = _DIST_INFO.fullmatch(name)
    return (match["folder"], match["part"]) if match else None


def _is_path_file(name: str) -> bool:
    """Whether Python reads the file at its start: a .pth in site-packages itself."""
    return name.endswith(".pth") and "/" not in place_of(name)


def is_text(name: str) -> bool:
    """Whether rules read the member's text."""
    inside = dist_info_of(name)
    if inside is not None:
        return inside[1] in ("entry_points.txt", "top_level.txt") or inside[1].startswith(_SBOM)
    return name in _TEXTS or _is_path_file(name)


def wanted(name: str) -> int:
    """How many bytes of a member may be kept as they are."""
    inside = dist_info_of(name)
    if inside is not None and inside[1] == "RECORD":
        return LARGEST_RECORD
    if is_origin(name):
        return LARGEST_ORIGIN
    return LARGEST_TEXT if is_text(name) or (inside is not None and inside[1] in _PARTS) else -1


def origins(texts: Mapping[str, bytes]) -> tuple[OriginFacts, ...]:
    """What the files beside archives say of the split that they are of; other tools' are passed over."""
    found = []
    for name, data in texts.items():
        if is_origin(name) and speaks_of_origin(data):
            try:
                found.append(OriginFacts(name, parse_origin(data, posixpath.basename(name))))
            except InvalidArchive as error:
                found.append(OriginFacts(name, problem=error.what))
    return tuple(found)


def licences(names: Iterable[str]) -> tuple[str, ...]:
    """Members that are licences, notices or copying terms, below a dist-info folder."""
    return tuple(name for name in names if (inside := dist_info_of(name)) and _LICENCE.match(inside[1]))


def sboms(names: Iterable[str]) -> tuple[str, ...]:
    """Members that are software bills of materials."""
    return tuple(name for name in names if (inside := dist_info_of(name)) and inside[1].startswith(_SBOM))


def line_values(text: bytes | None, key: str) -> frozenset[str]:
    """Values of `Key: value` lines such as those of WHEEL."""
    pairs = (line.partition(":") for line in (text or b"").decode("utf-8", "replace").splitlines())
    return frozenset(value.strip() for name, _, value in pairs if name.strip().lower() == key)


def all_values(text: bytes | None) -> dict[str, tuple[str, ...]] | None:
    """Every `Key: value` line of WHEEL by its key in lower case; None without the file."""
    if text is None:
        return None
    return all_headers(text)


def read_headers(data: bytes | None) -> Headers:
    """METADATA or PKG-INFO as written."""
    if data is None:
        return Headers()
    left = beyond_bounds(data)
    raw, unparsed = parse_email(data if left is None else b"")
    bad = _not_utf8(data)
    twice = {
        key: tuple(values)
        for key, values in unparsed.items()
        if len(values) > 1 and all(isinstance(value, str) for value in values) and key in _SINGLE
    }
    # Bytes that are no UTF-8 stand there as surrogates, which nothing can write.
    odd = [
        key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        for key, values in unparsed.items()
        if key not in twice and (bad is None or not _spoilt(key, values))
    ]
    odd += [] if left is None else [left]
    requires, extras = raw.get("requires_dist", []), raw.get("provides_extra", [])
    for field, found in (("Requires-Dist", requires), ("Provides-Extra", extras)):
        if len(found) > _MOST_FIELDS:
            odd.append(f"{field}, {len(found):,} times")
    return Headers(
        raw.get("metadata_version"),
        raw.get("name"),
        raw.get("version"),
        tuple(requires[:_MOST_FIELDS]),
        tuple(extras[:_MOST_FIELDS]),
        raw.get("requires_python"),
        raw.get("license"),
        raw.get("license_expression"),
        tuple(raw.get("license_files", ())),
        tuple(odd),
        tuple(field.lower() for field in raw.get("dynamic", ())),
        twice,
        _hidden(raw.get("description", "")),
        bad,
    )


def _not_utf8(data: bytes) -> int | None:
    """The first line, from 1, with bytes that are not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return None


def _spoilt(key: str, values: Sequence[object]) -> bool:
    """Whether the parser gave a field up for its bytes, not for what is not known of it."""
    return key in _SINGLE or any(isinstance(value, bytes) for value in values)


def _hidden(body: str) -> tuple[str, ...]:
    """Fields at the start of the body: the headers ended too early, and nobody reads these.

    A description may quote such lines further down, and begin with a line that looks like one.
    """
    lines = body.lstrip("\ufeff\r\n")[:_MOST_HIDDEN].splitlines()
    end = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    found = tuple(line for line in lines[:end] if _FIELD.match(line))
    return found if any(map(_TELLING.match, found)) else ()
