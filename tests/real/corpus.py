"""Published packages with ROCm device code, frozen in corpus.toml: which they are, and how to get them.

Tests take `of_this_run()` or one `item(name)`, then `obtain` it: that brings the package into a cache and
checks its sha256. `unpack` lays a package out as a tree. Both work for any user. The cache is
ROCWRIGHT_TEST_CACHE, or a directory that is removed when the tests end.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from rocwright.sdk.intake.fetch import apt_options

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("corpus.toml")
DEBIAN = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Gone(Exception):
    """A suite that moves no longer has the frozen version."""


@dataclass(frozen=True)
class Library:
    """An ELF file with device code: `objects` code objects in `bundles` bundles, one per wrapper.

    `size` and `code` (all code objects together, uncompressed) are bytes, `form` is "raw" or "ccob2" or
    "ccob3". `sha256` is `digest_of` all code objects.
    """

    path: str
    size: int
    bundles: int
    form: str
    objects: int
    code: int
    targets: tuple[str, ...]
    sha256: str


@dataclass(frozen=True)
class Database:
    """A directory of kernels that a library loads by file name.

    `targets` maps what the names say, "" for nothing, to (number of files, bytes); `forms` counts the files
    by what they start with: "elf" (a code object), "bundle", "ccob2", "data".
    """

    path: str
    forms: dict[str, int]
    targets: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Item:
    """One published package; `size` is the download in bytes, `holds` says what it is here for.

    A `moving` suite replaces its packages; a `wide` item is fetched only with ROCWRIGHT_TEST_CORPUS=all.
    """

    kind: str
    name: str
    version: str
    file: str
    size: int
    sha256: str
    holds: str
    suite: str
    moving: bool
    wide: bool
    libraries: tuple[Library, ...]
    databases: tuple[Database, ...]


def load(table: Path = TABLE) -> tuple[Item, ...]:
    """Every item of the table, in its order."""
    return tuple(_item(row) for row in tomllib.loads(table.read_text())["item"])


def of_this_run() -> tuple[Item, ...]:
    """The items that tests work on: all but the wide ones, or with ROCWRIGHT_TEST_CORPUS=all really all."""
    everything = os.environ.get("ROCWRIGHT_TEST_CORPUS") == "all"
    return tuple(item for item in load() if everything or not item.wide)


def item(name: str, version: str | None = None) -> Item:
    """The item of that name; `version` tells several apart."""
    (found,) = (row for row in load() if row.name == name and version in (None, row.version))
    return found


def _item(row: dict) -> Item:
    libraries = tuple(
        Library(**{**library, "targets": tuple(library["targets"])}) for library in row.pop("library", [])
    )
    databases = tuple(
        Database(
            entry["path"],
            entry["forms"],
            {key: (files, size) for key, (files, size) in entry["targets"].items()},
        )
        for entry in row.pop("database", [])
    )
    defaults = {"suite": "", "moving": False, "wide": False}
    return Item(**{**defaults, **row, "libraries": libraries, "databases": databases})


@functools.cache
def cache_directory() -> Path:
    """Where packages are kept between tests, and with ROCWRIGHT_TEST_CACHE between runs."""
    named = os.environ.get("ROCWRIGHT_TEST_CACHE")
    if named:
        return Path(named)
    path = Path(tempfile.mkdtemp(prefix="rocwright-corpus-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def obtain(item: Item) -> Path:
    """`fetch` for tests: what a moving suite no longer has is a skip that says so."""
    try:
        return fetch(item)
    except Gone as error:
        pytest.skip(f"{error}: its row wants to be made anew with real.corpus_rows")


def fetch(item: Item, cache: Path | None = None) -> Path:
    """The package file, from the cache or its publisher; its sha256 is the table's.

    Raises `Gone` when a moving suite has another version by now, `CalledProcessError` when the publisher
    cannot be reached, `ValueError` when the file is another one.
    """
    cache = cache or cache_directory()
    kept = cache / "corpus" / item.file
    # `rocwright sdk fetch` keeps some of the same packages there.
    for path in (kept, cache / "debian-12" / "debs" / item.file):
        if path.exists():
            return _verified(path, item)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="landing-") as landing:
        bring = {"pypi": _from_index, "debian": _from_debian}[item.kind]
        bring(item, Path(landing), cache)
        return _verified(Path(landing) / item.file, item).replace(kept)


def _verified(path: Path, item: Item) -> Path:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != item.sha256:
        raise ValueError(f"{path} has sha256 {digest.hexdigest()}, not {item.sha256}: delete it or the row")
    return path


def _from_index(item: Item, landing: Path, cache: Path) -> None:
    # The very file of the table, whichever Python runs the tests.
    tags = parse_wheel_filename(item.file)[3]
    platforms = sorted({tag.platform for tag in tags})
    pythons = {tag.interpreter[2:] for tag in tags if tag.interpreter.startswith("cp")}
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    for platform in platforms:
        words += ["--platform", platform]
    for python in pythons:
        words += ["--python-version", f"{python[0]}.{python[1:]}"]
    run([*words, "--dest", str(landing), f"{item.name}=={item.version}"])


def _from_debian(item: Item, landing: Path, cache: Path) -> None:
    apt = ["apt-get", *apt_world(cache / "corpus" / "apt" / item.suite, item.suite)]
    try:
        run([*apt, "download", f"{item.name}={item.version}"], cwd=landing)
    except subprocess.CalledProcessError as error:
        if item.moving and any(words in error.stderr for words in ("was not found", "Unable to locate")):
            raise Gone(f"Debian {item.suite} no longer has {item.name} {item.version}") from error
        raise


@functools.cache
def apt_world(state: Path, suite: str) -> list[str]:
    """Options that give apt a world of its own, with the suite's list read once per process."""
    if not KEYRING.exists():
        raise FileNotFoundError(f"{KEYRING}: install debian-archive-keyring")
    options = apt_options(state)
    sources, none = state / "sources.list", state / "none"
    sources.write_text(f"deb [arch=amd64 signed-by={KEYRING}] {DEBIAN} {suite} main\n")
    none.mkdir(exist_ok=True)
    for setting in (f"sourcelist={sources}", f"sourceparts={none}"):
        options += ["-o", f"Dir::Etc::{setting}"]
    options += ["-o", "APT::Architecture=amd64"]
    run(["apt-get", *options, "update", "--error-on=any"])
    return options


def run(words: list[str], cwd: Path | None = None) -> None:
    """Run a publisher's client or an archiver; what it said of its failure is in the test's report."""
    done = subprocess.run(words, cwd=cwd, text=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        # The report shows stderr alone.
        sys.stderr.write(done.stderr)
        done.check_returncode()


def unpack(package: Path, tree: Path) -> Path:
    """Lay the files of a wheel or Debian package out below `tree`, which is made, and give it back."""
    tree.mkdir(parents=True)
    if package.suffix == ".deb":
        run(["dpkg-deb", "--extract", str(package), str(tree)])
    else:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(tree)
    return tree
