"""A view of an index: pages that lead to its files, and variants.json that say which GPUs there are."""

import html
import json
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

from . import _known, _variants
from ._answer import asked, counted, seen, show_gpus, status
from ._ask import _plain
from ._fetch import IndexProblem, Source, shown
from ._install import TORCH, checked
from ._offered import _list
from ._pages import entries, links
from ._versions import is_pre, key, normal

# A file at the top of a view: what it is of.
MARK = "rocwright-view.json"
# Projects of an index; those of ROCm for all GPUs are less than a hundred.
MOST = 1000
# The project whose variants require torch's device packages, each for one target.
_SELECTOR = f"amd-{TORCH}-device"
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_FILE = re.compile(r".+\.(whl|tar\.gz|zip)")
_PAGE = """\
<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">
<title>{}</title></head><body>
{}</body></html>
"""


def wanted(report):
    """The packages' targets that a view names for the GPUs of a report, best first.

    One installation takes one variant. Where there are cards, the GPU of a processor beside them is left out.
    """
    cards = [gpu for gpu in report["gpus"] if not gpu["integrated"]]
    left = [gpu for gpu in report["gpus"] if gpu["integrated"] and cards]
    for gpu in left:
        report["notes"].append(
            f"{gpu['target']} ({gpu['name'] or gpu['chip']}) is part of the processor, and there is a card: "
            f"left out; --target {gpu['target']} takes it"
        )
    found = [_known.package_of(gpu["target"]) for gpu in cards or report["gpus"] if gpu["target"]]
    return list(dict.fromkeys(found))


def answer(index, directory, root="/", text=None, targets=()):
    """Write the view of an index for this machine's GPUs, and say what it is; `--json` prints it.

    What `seen` says, and `unserved`, targets that no variant of the index is for, each with advice;
    `exit_status`; `view`: {"directory", "index", "problem", "requests", "projects", "variants", "properties",
    "changed", "uv"}. `problem` is why the index cannot be asked or is none, `uv` the line that installs.
    Where there is a problem, no GPU, or nothing for any, nothing is written and `uv` is None. `ValueError`,
    `OSError`: the options make no sense, or the directory cannot be used.
    """
    index, directory = checked(index, None), os.path.abspath(directory)
    if os.path.lexists(directory) and not _is_ours(directory):
        raise ValueError(f"{directory} is not empty and no view: name another by --directory, or remove it")
    report = seen(root, text, targets)
    found = {"directory": directory, "index": shown(index), "problem": None, "requests": 0, "projects": 0}
    found.update(variants=0, properties={}, changed=False, uv=None)
    report.update(unserved=[], view=found)
    chosen, source = wanted(report), Source()
    try:
        if chosen:
            _make(_Read(source, index), chosen, report)
    except IndexProblem as problem:
        found["problem"] = _plain(problem)
    found["requests"] = source.requests
    report["exit_status"] = status(report, found["problem"])
    return report


def _make(read, targets, report):
    found = report["view"]
    found.update(projects=len(read.pages), variants=len(read.said))
    served = [one for one in targets if one in read.values]
    there = f"it has: {_list(read.values)}" if read.values else "it has none for AMD GPUs"
    for target in targets:
        if target not in served:
            advice = _plain(f"no variant on {shown(read.index)} is for {target}; {there}")
            report["unserved"].append({"target": target, "advice": advice})
    if served:
        found["changed"] = write(found["directory"], read.rendered(targets))
        found["properties"] = _properties(targets)
        found["uv"] = read.line(found["directory"], served)
    report["notes"] += map(_plain, read.notes)


def show(report, out=print, err=None):
    """Print it for people: GPUs and the line with `out`, all else with `err` (default: to stderr)."""
    err = err or (lambda line: print(line, file=sys.stderr))
    found = report["view"]
    if not found["uv"]:
        err("no view is written:")
    show_gpus(report, out, err)
    asked(found, False, err)
    if found["uv"]:
        (values,) = found["properties"][_variants.NAMESPACE].values()
        done = "written" if found["changed"] else "there already, and current"
        err(
            f"{found['directory']} is {done}, for {' '.join(values)}: {found['projects']} projects of "
            f"{found['index']}, {found['variants']} variants.json ({counted(found)})"
        )
        out("")
        out(found["uv"])


class _Read:
    """All pages of an index, and what its variants.json say; raises `IndexProblem`."""

    def __init__(self, source, index):
        self.index, self.notes, self.pages, self.said = index, [], {}, {}
        names = self._names(source)
        pages = source.find_all([f"{index}{name}/" for name in names])
        for name, page in zip(names, pages):
            if page is not None:
                # A page without files says, too, that the project is of this index and of no other.
                files = [one for one in entries(page) if _is_file(one.name, name)]
                self.pages[name] = [_usable(one, index) for one in files]
        if not any(self.pages.values()):
            to = f"; it leads to: {_list(names)}" if names else ""
            raise IndexProblem(f"{index} is no index: it leads to no page with files{to}")
        about = [
            (name, one)
            for name, files in self.pages.items()
            for one in files
            if _variants.is_variants(one.name, name)
        ]
        for (name, one), got in zip(about, source.find_all([one.url for _, one in about])):
            if got is None:
                raise IndexProblem(f"{one.url} is not there, and a page of the index leads to it")
            self.said[name, one.name] = _variants.read(got, one.digest)
        static = [name for (name, _), said in self.said.items() if _variants.is_static(said)]
        if static:
            self.notes.append(
                f"replaced what {index} itself says of everybody's GPUs: {' '.join(dict.fromkeys(static))}"
            )
        every = [_variants.values(one) for one in self.said.values()]
        self.values = set().union(*(self.of_torch().values() or every))

    def _names(self, source):
        root = source.find(self.index)
        if root is None:
            raise IndexProblem(f"{self.index} is no index: it does not list its projects")
        names = [name for name in dict.fromkeys(map(normal, links(root))) if _PROJECT.fullmatch(name)]
        if len(names) > MOST:
            raise IndexProblem(
                f"{self.index} lists {len(names)} projects, and a view is of an index with at most {MOST}: "
                "give the one that the packages of ROCm are on"
            )
        return names

    def rendered(self, targets):
        """The files of the view: path to bytes."""
        files = {}
        for name, listed in self.pages.items():
            rows = []
            for one in listed:
                said = self.said.get((name, one.name))
                url, digest = one.url, one.digest
                if said is not None and _variants.is_of_amd(said):
                    data = files[f"{name}/{one.name}"] = _variants.with_properties(said, targets)
                    url, digest = urllib.parse.quote(one.name), _variants.digest(data)
                rows.append(_row(one, url, digest))
            files[f"{name}/index.html"] = _page(name, rows)
        rows = [f'<a href="{name}/">{name}</a><br>\n' for name in sorted(self.pages)]
        files["index.html"] = _page("index", rows)
        mark = {"index": shown(self.index), "properties": _properties(targets)}
        files[MARK] = (json.dumps(mark, indent=1) + "\n").encode()
        return files

    def of_torch(self):
        """By version of torch, newest first: the targets that a variant is for, None where it has none."""
        said = {
            _variants.version(name): one for (project, name), one in self.said.items() if project == _SELECTOR
        }
        wheels = {one.name.split("-")[1] for one in self.pages.get(TORCH, ()) if one.name.endswith(".whl")}
        finals = [one for one in wheels if not is_pre(one)]
        newest_first = sorted((one for one in finals or wheels if key(one)), key=key, reverse=True)
        return (
            {one: _variants.values(said[one]) if one in said else set() for one in newest_first}
            if said
            else {}
        )

    def line(self, directory, served):
        """What installs by uv: one device by the variant, those of other cards by their extras.

        torch is pinned where its newest version has no variants for them, and an earlier one has.
        """
        found = self.of_torch()
        pick = next((one for one in found if set(served) <= found[one]), None)
        pick = pick or next((one for one in found if served[0] in found[one]), None)
        name = TORCH if TORCH in self.pages else min(name for name, _ in self.said)
        more = [one for one in served[1:] if pick and one in found[pick]]
        word = name + (f"[{','.join('device-' + one for one in more)}]" if more else "")
        if pick and pick != next(iter(found)):
            self.notes.append(f"torch {next(iter(found))} has no variant for {' '.join(served)}")
            word += f"=={pick}"
        if served[1:] != more:
            self.notes.append(f"uv takes one variant, that for {served[0]}; the others are left out")
        pre = " --prerelease allow" if pick and is_pre(pick) else ""
        place = pathlib.Path(directory).as_uri()
        word = f'"{word}"' if more else word
        return f"uv pip install --preview-features wheel-variants --index {place}{pre} {word}"


def _properties(targets):
    return {_variants.NAMESPACE: {_variants.FEATURE: list(targets)}}


def _is_file(name, project):
    return bool(_FILE.fullmatch(name)) or _variants.is_variants(name, project)


def _usable(entry, index):
    """The entry, where a page in a directory can lead to its file; raises `IndexProblem`."""
    parts = urllib.parse.urlsplit(entry.url)
    if parts.scheme not in ("https", "http", "file") or (
        parts.scheme == "file" and not index.startswith("file:")
    ):
        raise IndexProblem(f"{index} leads to {entry.url!r}, which is no address of a file for everybody")
    if urllib.parse.unquote(parts.path.rpartition("/")[2]) != entry.name:
        raise IndexProblem(
            f"{index} has {entry.name} at {entry.url}, whose address ends otherwise: no page of HTML has it"
        )
    return entry


def _row(entry, url, digest):
    said = "".join(f' {name}="{html.escape(text)}"' for name, text in entry.said.items())
    target = html.escape(url + (f"#{digest}" if digest else ""))
    return f'<a href="{target}"{said}>{html.escape(entry.name)}</a><br>\n'


def _page(title, rows):
    return _PAGE.format(title, "".join(rows)).encode()


def _is_ours(directory):
    """Whether it is empty, or holds a view and nothing else; whatever else it is is never replaced."""
    if not os.path.isfile(os.path.join(directory, MARK)):
        return os.path.isdir(directory) and not os.listdir(directory)
    names = (name for _, _, names in os.walk(directory) for name in names)
    return all(name in (MARK, "index.html") or name.endswith("-variants.json") for name in names)


def write(directory, files):
    """Make the directory hold exactly these files, all or nothing; False where it did already."""
    directory = os.path.realpath(directory)
    if _held(directory) == files:
        return False
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    partial, old = (f"{directory}.{word}-{os.getpid()}" for word in ("partial", "replaced"))
    try:
        os.mkdir(partial)
        for path, data in files.items():
            place = os.path.join(partial, *path.split("/"))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as stream:
                stream.write(data)
        if os.path.isdir(directory):
            os.rename(directory, old)
        os.rename(partial, directory)
    finally:
        if os.path.isdir(old) and not os.path.isdir(directory):
            os.rename(old, directory)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return True


def _held(directory):
    """The files in a directory: path to bytes."""
    found = {}
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                found[os.path.relpath(path, directory).replace(os.sep, "/")] = stream.read()
    return found
