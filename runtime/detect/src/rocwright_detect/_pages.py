"""Pages of a package index, as HTML (PEP 503) or JSON (PEP 691), and what the names of files say."""

import html.parser
import json
import re
import urllib.parse

from ._fetch import IndexProblem, shown
from ._versions import allows, key, normal

_WHEEL = re.compile(r"([^-]+)-([^-]+)(?:-[0-9][^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl")
_LINUX = re.compile(r"(?:manylinux_([0-9]+)_([0-9]+)|manylinux1|manylinux2010|manylinux2014|linux)_(.+)")
# The stable ABI, with the lock and without it.
_STABLE = ("abi3", "abi3t")
_NAMED = re.compile(r"cp3([0-9]+)")
# What a page of HTML says of a file for installers.
_SAID = ("data-requires-python", "data-core-metadata", "data-dist-info-metadata", "data-yanked")


class File:
    """A file on a page of its project; `metadata` is the address of its METADATA, None: none is offered."""

    def __init__(self, name, url, requires, metadata, yanked):
        self.name, self.url, self.requires, self.metadata, self.yanked = name, url, requires, metadata, yanked
        match = _WHEEL.fullmatch(name)
        self.wheel = match is not None
        self.tags = [one.split(".") for one in match.groups()[2:]] if match else []
        if match:
            self.project, self.version = normal(match[1]), match[2]
        else:
            # The version of an sdist is what stands behind the last hyphen.
            stem = re.sub(r"\.(tar\.gz|zip)$", "", name)
            self.project, _, self.version = stem.rpartition("-") if stem != name else ("", "", "")
            self.project = normal(self.project)


class Place:
    """What packages are to run on: a Python (`3.12`, `3.13t`), `linux` or `windows`, a machine, a glibc."""

    def __init__(self, python, platform, machine="x86_64", glibc=None):
        self.python, self.platform, self.machine, self.glibc = python, platform, machine, glibc
        self.minor, self.free = int(python.rstrip("t").partition(".")[2]), python.endswith("t")

    def __str__(self):
        return f"Python {self.python} on {self.platform.capitalize()}, {self.machine}"

    def takes(self, file):
        """Whether a file can be installed here."""
        return self.runs(file) and self.python_fits(file)

    def python_fits(self, file):
        """Whether the file is for this Python, on whatever platform."""
        # Some patch release is enough: >=3.12.4 is a Python 3.12.
        version = self.python.rstrip("t")
        if file.requires and not any(allows(file.requires, f"{version}.{patch}") for patch in (0, 99)):
            return False
        return not file.wheel or any(self._tag_fits(tag, abi) for tag in file.tags[0] for abi in file.tags[1])

    def _tag_fits(self, tag, abi):
        match = re.fullmatch(r"(cp|py)3([0-9]*)", tag)
        if match is None:
            return False
        named = int(match[2]) if match[2] else None
        if match[1] == "py":
            return abi == "none" and (named is None or named <= self.minor)
        if abi in _STABLE:
            return abi == _STABLE[self.free] and named is not None and named <= self.minor
        return named == self.minor and abi in ("none", f"cp3{self.minor}" + ("t" if self.free else ""))

    def runs(self, file):
        """Whether the file is for this platform, whatever the Python; what is no wheel is for any."""
        return not file.wheel or any(map(self._platform_fits, file.tags[2]))

    def _platform_fits(self, tag):
        if tag == "any":
            return True
        if self.platform == "windows":
            return tag == {"x86_64": "win_amd64", "aarch64": "win_arm64"}.get(self.machine)
        match = _LINUX.fullmatch(tag)
        if match is None or match[3] != self.machine:
            return False
        return not (match[1] and self.glibc) or (int(match[1]), int(match[2])) <= self.glibc


def pythons(files):
    """Pythons that the files name, in order; `3.10+` for those that serve later ones, too."""
    found = set()
    for file in files:
        for tag in file.tags[0] if file.wheel else ():
            match = _NAMED.fullmatch(tag)
            for abi in file.tags[1] if match else ():
                found.add((int(match[1]), "t" * abi.endswith("t") + "+" * (abi in _STABLE)))
    return [f"3.{minor}{rest}" for minor, rest in sorted(found)]


def project_files(got, project):
    """The files of a project on its page, yanked ones left out; raises `IndexProblem` for what is no page."""
    found = [_file(one) for one in entries(got)]
    return [one for one in found if one.project == project and not one.yanked and _is_version(one.version)]


class Entry:
    """A file as a page lists it: `digest` is `sha256=…` or empty, `said` what else, as attributes of HTML."""

    def __init__(self, name, url, digest, said):
        self.name, self.url, self.digest, self.said = name, url, digest, said


def entries(got):
    """All that a page lists, be it a file or not; raises `IndexProblem` for what is no page."""
    return list(_of_json(got) if _is_json(got) else _of_html(got))


def _is_version(text):
    # It goes into a command line.
    return re.fullmatch(r"[A-Za-z0-9.+_!-]+", text) is not None and key(text) is not None


def links(got):
    """Names that a root page leads to: projects, or directories, as they are spelled there."""
    if _is_json(got):
        projects = _json(got).get("projects")
        names = (
            [one.get("name") for one in projects if isinstance(one, dict)]
            if isinstance(projects, list)
            else []
        )
        return [name for name in names if isinstance(name, str)]
    found = []
    for _, url in _anchors(got):
        path = urllib.parse.urlsplit(url).path.rstrip("/")
        found.append(urllib.parse.unquote(path.rpartition("/")[2]))
    return list(dict.fromkeys(filter(None, found)))


def _is_json(got):
    return "json" in got.kind.partition(";")[0]


def _json(got):
    try:
        found = json.loads(got.data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise IndexProblem(f"{shown(got.url)} is no page of an index: it is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise IndexProblem(f"{shown(got.url)} is no page of an index: its JSON is no object")
    return found


def _of_json(got):
    files = _json(got).get("files")
    for one in files if isinstance(files, list) else ():
        name, url = (one.get(key) for key in ("filename", "url")) if isinstance(one, dict) else (None, None)
        if isinstance(name, str) and isinstance(url, str):
            digest = _strongest(one.get("hashes"))
            yield Entry(name, _joined(got.url, url).partition("#")[0], digest, dict(_as_attributes(one)))


def _strongest(hashes):
    found = hashes.get("sha256") if isinstance(hashes, dict) else None
    return _digest(f"sha256={found}")


def _digest(text):
    return text if re.fullmatch(r"sha256=[0-9a-f]{64}", text) else ""


def _as_attributes(one):
    """What JSON says of a file, as HTML says it."""
    if isinstance(one.get("requires-python"), str):
        yield "data-requires-python", one["requires-python"]
    there = one.get("core-metadata", one.get("dist-info-metadata"))
    if there not in (None, False):
        yield "data-core-metadata", _strongest(there) or "true"
    if one.get("yanked") not in (None, False):
        yield "data-yanked", one["yanked"] if isinstance(one["yanked"], str) else ""


def _of_html(got):
    for attributes, url in _anchors(got):
        url, _, digest = url.partition("#")
        name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        said = {name: attributes[name] for name in _SAID if name in attributes}
        yield Entry(name, url, _digest(digest), said)


def _file(entry):
    said = entry.said
    there = said.get("data-core-metadata", said.get("data-dist-info-metadata"))
    metadata = entry.url + ".metadata" if there not in (None, "false") else None
    return File(entry.name, entry.url, said.get("data-requires-python", ""), metadata, "data-yanked" in said)


def _joined(base, href):
    try:
        joined = urllib.parse.urljoin(base, href or "")
        # Some addresses are found out only when they are taken apart.
        urllib.parse.urlsplit(joined)
        return joined
    except ValueError:
        return ""


class _Anchors(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.base = [], None

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        if tag == "base" and self.base is None:
            self.base = attributes.get("href")
        if tag == "a" and attributes.get("href"):
            self.found.append(attributes)


def _anchors(got):
    reader = _Anchors()
    try:
        reader.feed(got.data.decode("utf-8", "replace"))
        reader.close()
    except (AssertionError, NotImplementedError, ValueError, RecursionError):
        # Older Pythons refuse some of what is no HTML at all.
        raise IndexProblem(f"{shown(got.url)} is no page of an index: it is no HTML") from None
    base = _joined(got.url, reader.base)
    return [(attributes, _joined(base, attributes["href"])) for attributes in reader.found]
