"""The devel package's manifest: what its tree consists of, read strictly, and compared with a tree."""

import hashlib
import json
import os

from ._dist import WINDOWS
from ._stamp import INIT, STAMP, DevelError

MANIFEST = "_devel.json"
KINDS = ("file", "link", "dirlink", "sibling", "overlay")
# Of these the value is a path in another package of the set.
ACROSS = ("sibling", "overlay")


def damaged(distribution, what):
    return (
        f"the installed {distribution} is damaged ({what}); "
        f"repair it with: pip install --force-reinstall --no-deps {distribution}"
    )


def parse(text, distribution):
    """The manifest's entries as (path, kind, value), checked: none leaves the tree or passes a link."""
    try:
        manifest = json.loads(text.decode("utf-8"))
        entries = [(path, kind, value) for path, kind, value in manifest["entries"]]
        kinds = {path: kind for path, kind, _ in entries}
        count = manifest["files"]
        problem = _first_problem(entries, kinds)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DevelError(damaged(distribution, f"{MANIFEST} is not readable: {error}")) from error
    if len(kinds) != len(entries) or count != len(entries):
        problem = f"it lists {len(entries)} entries, {len(kinds)} distinct, and says {count}"
    if problem:
        raise DevelError(damaged(distribution, f"{MANIFEST}: {problem}"))
    return entries


def _first_problem(entries, kinds):
    directories = {""}
    for path, kind, value in entries:
        parent = path.rpartition("/")[0]
        while parent not in directories:
            if parent in kinds:
                return f"bad path {path!r}"
            directories.add(parent)
            parent = parent.rpartition("/")[0]
        if not _is_inside(path) or path in (STAMP, INIT):
            return f"bad path {path!r}"
        if kind not in KINDS or not isinstance(value, str):
            return f"bad entry {[path, kind, value]!r}"
        if kind in ("link", "dirlink"):
            target = os.path.normpath(os.path.join(os.path.dirname(path), value))
            if os.path.isabs(value) or target.replace(os.sep, "/").split("/")[0] == "..":
                return f"link {path!r} leaves the tree: {value!r}"
        elif kind in ACROSS and not (value.startswith("../") and _is_inside(value[3:]) and "/" in value[3:]):
            return f"bad {kind} {value!r}"
    return None


def _is_inside(path):
    if "\0" in path or (WINDOWS and ("\\" in path or ":" in path)):
        return False
    around = f"/{path}/"
    return "//" not in around and "/./" not in around and "/../" not in around


def verify(entries, partial, distribution):
    """Every entry is there and every link but an overlay leads to something, and there is nothing else."""
    kinds = {path: kind for path, kind, _ in entries}
    found = set(_everything(partial, "", kinds))
    bad = [
        path
        for path, kind in kinds.items()
        if path not in found or (kind != "file" and not _is_there(os.path.join(partial, path), kind))
    ]
    if bad or len(found) != len(entries):
        what = f"{len(found)} of {len(entries)} entries made; "
        what += "dangling or missing: " + ", ".join(sorted(bad)[:5]) if bad else "names collide"
        raise DevelError(damaged(distribution, what))


def _everything(root, inside, known):
    """Paths of all files and links below a directory, `/`-separated; nothing below a known path."""
    with os.scandir(os.path.join(root, inside)) as entries:
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            # A junction of Windows passes for a directory.
            if path not in known and entry.is_dir(follow_symlinks=False):
                yield from _everything(root, path, known)
            else:
                yield path


def _is_there(path, kind):
    if kind == "overlay":
        return os.path.lexists(path)  # it leads nowhere until a device package with it is installed
    return os.path.isdir(path) if kind == "dirlink" else os.path.isfile(path)


def problems(module, tree):
    """What is wrong with an expanded tree now: files changed or gone, links that lead nowhere."""
    with open(os.path.join(module, MANIFEST), "rb") as stream:
        entries = parse(stream.read(), os.path.basename(module))
    bad = []
    for path, kind, value in entries:
        place = os.path.join(tree, path)
        if not _is_there(place, kind):
            bad.append(f"{path} is missing or leads nowhere")
        elif kind == "file":
            with open(place, "rb") as stream:
                if hashlib.sha256(stream.read()).hexdigest() != value:
                    bad.append(f"{path} was changed")
    return bad
