"""The devel package's manifest: what its tree consists of, read strictly, and compared with a tree."""

import hashlib
import json
import os

from ._devel import STAMP, DevelError

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
        count = manifest["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise DevelError(damaged(distribution, f"{MANIFEST} is not readable: {error}")) from error
    kinds = {path: kind for path, kind, _ in entries}
    problem = None
    if len(kinds) != len(entries) or count != len(entries):
        problem = f"it lists {len(entries)} entries, {len(kinds)} distinct, and says {count}"
    for path, kind, value in entries:
        parents = path.split("/")[:-1]
        passed = ["/".join(parents[: i + 1]) for i in range(len(parents))]
        if not _is_inside(path) or path == STAMP or any(step in kinds for step in passed):
            problem = f"bad path {path!r}"
        elif kind not in KINDS or not isinstance(value, str):
            problem = f"bad entry {[path, kind, value]!r}"
        elif kind in ("link", "dirlink"):
            target = os.path.normpath("/".join([*parents, value]))
            if os.path.isabs(value) or target.split("/")[0] == "..":
                problem = f"link {path!r} leaves the tree: {value!r}"
        elif kind in ACROSS and not (value.startswith("../") and _is_inside(value[3:]) and "/" in value[3:]):
            problem = f"bad {kind} {value!r}"
    if problem:
        raise DevelError(damaged(distribution, f"{MANIFEST}: {problem}"))
    return entries


def _is_inside(path):
    return bool(path) and all(step not in ("", ".", "..") for step in path.split("/")) and "\0" not in path


def verify(entries, partial, distribution):
    """Every entry is there and every link but an overlay leads to something, and there is nothing else."""
    found = sum(
        len(files) + sum(os.path.islink(os.path.join(here, name)) for name in names)
        for here, names, files in os.walk(partial)
    )
    bad = [path for path, kind, _ in entries if not _is_there(os.path.join(partial, path), kind)]
    if bad or found != len(entries):
        what = f"{found} of {len(entries)} entries made; "
        what += "dangling or missing: " + ", ".join(bad[:5]) if bad else "names collide"
        raise DevelError(damaged(distribution, what))


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
