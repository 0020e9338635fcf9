"""Asks an index what it has: one with all packages, or a directory that holds one for each family."""

import json
import os
import platform as machines
import re
import sys

from . import _known
from ._detect import serving
from ._fetch import IndexProblem, NotThere, Source, shown
from ._install import entry, pin
from ._offered import TORCH, Refused, Shelf, choose
from ._pages import Place, links, pythons


def place_of(python, platform):
    """What packages are to run on: a Python (`3.12`, None: this one) on `linux` or `windows`."""
    if python is None:
        free = hasattr(sys, "_is_gil_enabled") and "t" in getattr(sys, "abiflags", "")
        python = "{}.{}{}".format(*sys.version_info[:2], "t" if free else "")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        machines.machine().lower(), machines.machine().lower()
    )
    return Place(python, platform, machine, _glibc() if platform == "linux" else None)


def _glibc():
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return tuple(map(int, version.split(".")[:2])) if name == "glibc" else None
    except (AttributeError, OSError, ValueError):
        return None


def ask(index, targets, place, kind=None, torch=None, pre=False):
    """What an index has for the targets, and the lines that resolve there.

    {"requests", "problem", "targets", "families", "pythons", "unserved", "install", "notes"}: `problem` says
    why the index cannot be asked or is none, `targets`, `families` and `pythons` are what it has as far as it
    was looked at, `unserved` are targets it has nothing for, each with advice.
    """
    source = Source()
    found = {"problem": None, "targets": [], "families": [], "pythons": []}
    found.update(unserved=[], install=[], notes=[])
    try:
        _Question(source, index, targets, place, found).answer(kind, pin(torch) if torch else "", pre)
    except IndexProblem as problem:
        found["problem"] = _plain(problem)
    found["requests"] = source.requests
    return found


class _Question:
    def __init__(self, source, index, targets, place, found):
        self.source, self.index, self.targets, self.place, self.found = source, index, targets, place, found

    def answer(self, kind, torch, pre):
        """Fill in what was found; raises `IndexProblem`."""
        shelf = Shelf(self.source, self.index, self.place)
        if kind != "family" and shelf.files(TORCH):
            try:
                choice = choose(shelf, self.targets, self._family, torch, pre)
            except Refused as why:
                self._all_unserved(self.targets, why)
            else:
                self._add(choice, self.targets)
            return
        families = {} if kind == "multi-arch" else self._families()
        if not families:
            raise IndexProblem(self._no_index(kind))
        self.found["families"] = sorted(families)
        self.found["targets"] = sorted({one for targets in families.values() for one in targets}, key=_order)
        for served, names in self._grouped(families):
            self._from_first(served, names, families, torch, pre)

    def _grouped(self, families):
        """Targets that one family serves, with its name and those that serve them, too; best first."""
        whole = [name for name in families if set(self.targets) <= set(families[name])]
        if whole:
            return [(self.targets, sorted(whole, key=lambda name: (len(families[name]), name)))]
        groups = {}
        for target in self.targets:
            names = serving(target, families)
            if names:
                groups.setdefault(tuple(names), []).append(target)
            else:
                self._unserved(target, f"{self.index} has no family with {target}; {self._has()}")
        return [(targets, list(names)) for names, targets in groups.items()]

    def _has(self):
        return f"it has: {' '.join(self.found['families'])} ({' '.join(self.found['targets'])})"

    def _from_first(self, targets, names, families, torch, pre):
        """From the first of several families that has something to install."""
        refused = []
        for name in names:
            shelf = Shelf(self.source, f"{self.index}{name}/", self.place)
            if not shelf.files(TORCH):
                refused.append(f"{shelf.url} has no torch")
                continue
            try:
                choice = choose(shelf, targets, lambda one=name: set(families[one]), torch, pre)
            except Refused as why:
                refused.append(why)
            else:
                self._add(choice, targets)
                return
        self._all_unserved(targets, refused[0])

    def _add(self, choice, targets):
        shelf, notes = choice.shelf, self.found["notes"]
        self.found["targets"] = sorted({*self.found["targets"], *choice.has}, key=_order)
        files = [one for one in shelf.files(TORCH) if one.wheel and self.place.runs(one)]
        self.found["pythons"] = pythons([one for one in files if one.version == choice.version])
        self.found["install"].append(entry(choice.words, choice.owned, choice.targets, shelf.url, choice.pre))
        for target in targets:
            if target not in choice.targets:
                self._unserved(target, f"torch {choice.version} of {shelf.url} has nothing for {target}")
        notes += map(_plain, choice.left_out)
        if choice.outside:
            names = " ".join(sorted(choice.outside))
            notes.append(f"not on this index, and needed: install them first: pip install {names}")
        if choice.unread:
            notes.append(
                "this index does not say what its wheels need (no METADATA beside them): not looked at"
            )
        if choice.unsure:
            for target in choice.targets:
                self._unserved(target, f"{shelf.url} does not say whether it is for {target}")

    def _unserved(self, target, advice):
        self.found["unserved"].append({"target": target, "advice": _plain(advice)})

    def _all_unserved(self, targets, why):
        for target in targets:
            self._unserved(target, why)

    def _family(self):
        """Targets of the family that the index is one of, by its directory's name or its channel's page."""
        above, _, name = self.index.rstrip("/").rpartition("/")
        known = _known.offers(self.place.platform).get(name)
        return set(known or _landing(self.source, above + "/", self.place).get(name, ()))

    def _families(self):
        """Directories that hold an index, each with its targets."""
        page = self.source.find(self.index)
        offers = _known.offers(self.place.platform)
        if page is None:
            # A server need not list its directories: those that would be there are tried.
            likely = {name: offers[name] for one in self.targets for name in serving(one, offers)[:1]}
            return {
                name: targets
                for name, targets in likely.items()
                if Shelf(self.source, f"{self.index}{name}/", self.place).files(TORCH)
            }
        if b"data-base=" in page.data[:300]:
            return _landing(self.source, self.index, self.place)
        return {name: offers[name] for name in links(page) if name in offers}

    def _no_index(self, kind):
        page = self.source.find(self.index)
        names = links(page) if page is not None else []
        said = f"; it leads to: {' '.join(names[:8])}" if names else ""
        wanted = "torch" if kind == "multi-arch" else "torch, and no directory of a family of GPUs"
        return f"{self.index} is no index of PyTorch for AMD GPUs: it has no {wanted}{said}"


def _landing(source, channel, place):
    """Families of a channel of rocwright's own store, each with the targets that it has torch for."""
    try:
        data = json.loads(source.get(channel + "_landing.json").data.decode("utf-8"))
        wanted = f"{place.platform}-{place.machine}"
        found = {}
        for name, family in data["families"].items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                continue
            offers = [
                one for one in family["offers"] if one["product"] == TORCH and one["platform"] == wanted
            ]
            found[name] = sorted({str(target) for one in offers for target in one["targets"]}, key=_order)
        return {name: targets for name, targets in found.items() if targets}
    except (NotThere, IndexProblem, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        # Another's file under this name says nothing.
        return {}


def _plain(text):
    """What others wrote, without a login and without what a terminal obeys."""
    return "".join(one if one.isprintable() else "?" for one in shown(str(text)))


def _order(target):
    return len(target), target
