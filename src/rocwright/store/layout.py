"""Where things stand in a store: every key is made here, and what a client is told about an object by it.

::

    files/<sha256>/<name>                     a wheel or sdist, once, however many sets and channels list it
    files/<sha256>/<name>.metadata            its METADATA (PEP 658)
    sets/<id>/manifest.json                   a set
    sets/<id>/_statements/  _signatures/      statements about it, and who vouches for it
    sets/<id>/_provenance/                    where its files come from, as others attest (PEP 740)
    sets/<id>/_tests/                         reports of its tests, for later ones to be compared with
    sets/<id>/…                               pages of this set alone, its locks; never changed
    <channel>/<family>/<project>/index.html   pages of a channel (PEP 503); the root page is index.html
    <channel>/<family>/_json/…  _flat/…       the same as JSON (PEP 691), and on one page (--find-links)
    <channel>/<family>/_variants/<sha256>/…   which variants of a project's version there are, as pages say it
    <channel>/<family>/_log/                  what was listed and withdrawn: the pages follow from it
    <channel>/<family>/_projects.json         what is said of projects: status, where else they are
    <channel>/index.html                      for people: which line installs what
    cache/<profile>/…                         what compilers made, as sccache keeps it, apart for each profile
    pins/<name>.json                          sets that are kept whatever the channels list
    _damaged/<key>                            what stood under a key and was damaged, moved there by a repair
    {external_repo}{run_id}-{platform}/{python,pytorch}/{artifact_group}/    packages of one run
    {external_repo}{run_id}-{platform}/<name>_<component>_<target>.tar.zst   artifacts of one run
    {external_repo}{run_id}-{platform}/_run/  _combined/   its records, its pages of both kinds of packages

Content-Type and Cache-Control of an object follow from its key, too: a bucket keeps them with each object, so
they must be right from the first write on.

Names with an underscore in front are the store's own: no project's name begins so (PEP 503). The layouts of
runs and channels are those that users of ROCm's CI and nightly indexes know.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.sets import FileEntry
from rocwright.system.files import PARTIAL

Kind = Literal["python", "pytorch"]
KINDS: tuple[Kind, ...] = ("python", "pytorch")
PLATFORMS = ("linux", "windows")
# The place of a set for all families at once.
MULTI_ARCH = "multi-arch"
# Below a channel's prefix, and below that of a set.
JSON_PAGES = "_json/"
FLAT_PAGE = "_flat/index.html"
# Under their digests, so that a page which is no longer the newest one leads to what it promises.
VARIANTS = "_variants/"
LOG = "_log/"
PROJECTS = "_projects.json"
# Of compilers.
CACHE = "cache/"

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A colon stands in names of artifacts (gfx942:xnack+); behind a single letter it would be a Windows drive.
_KEY_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!-]*(?:(?<=[A-Za-z0-9._+!-]{3}):[A-Za-z0-9._+!-]*)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
# Leases, and what tells whether a store can be used: nobody misses them after a power cut.
_PASSING = ("_leases/", "_probe/")
# What S3 and web servers call a year; longer is not honoured everywhere.
_FOR_EVER = "public, max-age=31536000, immutable"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".provenance": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".toml": "application/toml",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".whl": "application/zip",
    # Without Content-Encoding: clients would unpack the file on the way and its digest would be another.
    ".gz": "application/gzip",
    ".xz": "application/x-xz",
    ".zst": "application/zstd",
}
# Written again under the same key, outside of places where nothing changes.
_PAGES = (".html", ".json", ".txt", ".toml", ".css", ".js", ".svg", ".png")


def is_key(text: str) -> bool:
    """Whether text is a key: relative, without `..`, backslashes or empty parts, not of a partial file."""
    return not text.endswith(PARTIAL) and all(map(_KEY_PART.fullmatch, text.split("/")))


def check_key(key: str) -> str:
    """The key itself, if it is a key (`is_key`); else `InvalidInput`."""
    if not is_key(key):
        raise InvalidInput(
            f"{key!r} is not a valid store key",
            next_step="join parts of letters, digits and . _ + ! - by /; none starts with . + ! or -",
        )
    return key


def _part(value: str, what: str) -> str:
    if _PART.fullmatch(value) is None or ".." in value:
        raise InvalidInput(
            f"{value!r} is not a valid {what}",
            next_step=f"give a {what} of letters, digits, dots, dashes and underscores",
        )
    return value


def run_folder(run_id: str, platform: str, *, external_repo: str = "") -> str:
    """The folder of one run, ending with `/`; its artifacts lie in it, its packages below.

    `external_repo` is `""` or `owner-repo/` for runs of a fork or another repository. Raises
    `InvalidInput` for parts that could leave their place.
    """
    if platform not in PLATFORMS:
        raise InvalidInput(
            f"{platform!r} is not a platform; known: {', '.join(PLATFORMS)}",
            next_step="write linux or windows",
        )
    if external_repo:
        if not external_repo.endswith("/"):
            raise InvalidInput(
                f"external repository {external_repo!r} must end with /", next_step=f"write {external_repo}/"
            )
        external_repo = _part(external_repo[:-1], "external repository") + "/"
    return f"{external_repo}{_part(run_id, 'run id')}-{platform}/"


def run_prefix(
    run_id: str, platform: str, kind: Kind, artifact_group: str | None, *, external_repo: str = ""
) -> str:
    """Prefix of one run's packages, ending with `/`; without a group, that of packages for all GPUs.

    Raises `InvalidInput` as `run_folder`, and for another kind of package.
    """
    if kind not in KINDS:
        raise InvalidInput(
            f"{kind!r} is not a kind of package; known: {', '.join(KINDS)}", next_step="choose one of these"
        )
    group = "" if artifact_group is None else f"{_part(artifact_group, 'artifact group')}/"
    return f"{run_folder(run_id, platform, external_repo=external_repo)}{kind}/{group}"


def channel_prefix(prefix: str, family: str) -> str:
    """Prefix of a family in a channel, ending with `/`; `prefix` is the channel's, such as `v2`."""
    return f"{_part(prefix, 'prefix of a channel')}/{_part(family, 'GPU family')}/"


def set_prefix(set_digest: str) -> str:
    """`sets/<id>/`: the manifest of a set, the statements about it, and its own pages."""
    return f"sets/{_digest(set_digest, 'set id')}/"


def file_key(sha256: str, name: str) -> str:
    """`files/<sha256>/<name>`: where a distribution file lies."""
    return f"files/{_digest(sha256, 'sha256')}/{check_key(name)}"


def entry_key(entry: FileEntry) -> str:
    """`file_key` of an entry: its name and digest are those that a key may have since it was made."""
    return f"files/{entry.sha256}/{entry.name}"


def metadata_key(sha256: str, name: str) -> str:
    """Where the METADATA of a wheel lies: beside it, as PEP 658 has it."""
    return f"{file_key(sha256, name)}.metadata"


def _digest(value: str, what: str) -> str:
    if _SHA256.fullmatch(value) is None:
        raise InvalidInput(f"{value!r} is not a {what}", next_step="give all 64 hexadecimal digits")
    return value


class ObjectHeaders(msgspec.Struct, frozen=True):
    """Two headers of an answer that holds an object."""

    content_type: str
    cache_control: str


def headers_for(key: str, max_age: int) -> ObjectHeaders:
    """The headers of a key; `max_age` is for how many seconds a page may be kept (`channels.max_age`)."""
    return ObjectHeaders(_content_type(key), _cache_control(key, max_age))


def is_immutable(key: str) -> bool:
    """Whether nothing else ever stands under this key: files, what belongs to a set, logs of channels."""
    lasting = any(f"/{place}" in f"/{key}" for place in (LOG, VARIANTS))
    return lasting or key.startswith(("files/", "sets/")) or not key.endswith(_PAGES)


def is_passing(key: str) -> bool:
    """Whether the object means nothing once the machine has stopped."""
    return key.startswith(_PASSING)


def _content_type(key: str) -> str:
    name = key.rpartition("/")[2]
    if f"/{JSON_PAGES}" in f"/{key}" and name == "index.html":
        return SIMPLE_JSON
    _, dot, suffix = name.rpartition(".")
    return _TYPES.get(dot + suffix, "application/octet-stream")


def _cache_control(key: str, max_age: int) -> str:
    if key.startswith(("pins/", "_")):
        # Read by ourselves alone, and then as it is now.
        return "no-cache"
    return _FOR_EVER if is_immutable(key) else f"public, max-age={max_age}"
