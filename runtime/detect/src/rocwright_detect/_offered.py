"""What one index has for some targets at one place: the requirements that resolve there, or why none do."""

import email
import re
import zipfile

from . import _known
from ._fetch import IndexProblem, path_of
from ._pages import links, project_files, pythons
from ._table import PROJECTS
from ._versions import allows, applies, is_pre, key, normal, pinned, requirement

TORCH = PROJECTS[0][0]
_DEVICE = "device-"
# Versions of a project that are looked at before it is given up, newest first.
_TRIES = 4


class Refused(Exception):
    """The index has nothing that can be installed; the text is for people."""


class Shelf:
    """One index: what is on its pages. Nothing is asked before it is needed, and nothing twice."""

    def __init__(self, source, url, place):
        self.source, self.url, self.place = source, url, place
        self._files, self._about = {}, {}

    def files(self, project):
        """The files of a project; empty where the index does not have it."""
        if project not in self._files:
            page = self.source.find(f"{self.url}{project}/")
            self._files[project] = [] if page is None else project_files(page, project)
        return self._files[project]

    def projects(self):
        """All projects by their normal names; None where the index does not list them."""
        try:
            page = self.source.find(self.url)
            return {normal(name) for name in links(page)} if page is not None else None
        except IndexProblem:
            # Large indexes have a list that is too large; the pages of their projects are not.
            return None

    def has(self, project, specifier):
        """Whether there is a file of a project here that the place takes, of a version that is allowed."""
        return any(allows(specifier, one.version) for one in self.files(project) if self.place.takes(one))

    def about(self, file):
        """(extras, requirements) of a wheel; None where the index does not offer them."""
        if file.name not in self._about:
            text = self._metadata(file)
            self._about[file.name] = None if text is None else _about(text)
        return self._about[file.name]

    def _metadata(self, file):
        found = self.source.find(file.metadata) if file.metadata else None
        if found is not None:
            return found.data
        if not file.url.startswith("file:"):
            return None
        try:
            with zipfile.ZipFile(path_of(file.url)) as wheel:
                names = [
                    name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
                ]
                return wheel.read(names[0]) if names else None
        except (OSError, zipfile.BadZipFile, NotImplementedError):
            return None


def _about(data):
    message = email.message_from_string(data.decode("utf-8", "replace"))
    extras = {normal(one) for one in message.get_all("Provides-Extra", ())}
    return extras, [one for one in map(requirement, message.get_all("Requires-Dist", ())) if one]


class Choice:
    """What is to be installed from a shelf: `words` for a command line, and what is to be said of it."""

    def __init__(self, shelf, targets):
        self.shelf, self.targets = shelf, targets
        self.words, self.owned, self.outside, self.left_out = [], [], [], []
        self.pre = self.unsure = self.unread = False
        self.version, self.has = "", set()

    def add(self, file, extras, needs):
        """Take a wheel with its extras; `needs` are its requirements that hold here."""
        names = f"[{','.join(extras)}]" if extras else ""
        self.words.append(f"{file.project}{names}=={file.version}")
        # These were looked for one by one.
        exact = {name: pinned(specifier) for name, _, specifier in needs if pinned(specifier)}
        self.pre = self.pre or any(map(is_pre, (file.version, *exact.values())))
        self.owned += [one for one in (file.project, *exact) if one not in self.owned]
        there = self.shelf.projects()
        strange = [one for one, _, _ in needs if there is not None and one not in {TORCH, *there, *exact}]
        self.outside += [one for one in strange if one not in self.outside]


def choose(shelf, targets, whole, torch="", pre=False):
    """What to install for as many of the targets as there is something for; raises `Refused`.

    `whole` gives the targets that the index is for where its wheels have all code in them, None where that is
    not known; `torch` is a specifier of its version.
    """
    files = _candidates(shelf, torch, pre)
    first = shelf.about(files[0])
    devices = _devices(first) if first else _named_devices(shelf, targets)
    if devices:
        # An earlier version may have what the newest has not.
        served = [one for one in targets if one in devices or shelf.files(_device(TORCH, one))]
        if not served:
            raise Refused(f"{shelf.url} has no device code for {' '.join(targets)}; it has: {_list(devices)}")
        named = [one for one in served if first is None or one not in devices]
        held = [{one.version for one in shelf.files(_device(TORCH, one))} for one in named]
        files = [one for one in files if all(one.version in versions for versions in held)]
        if not files:
            raise Refused(f"no torch of {shelf.url} has its device code there for {' '.join(named)}")
    else:
        known = whole() or _for_whole(shelf)
        served = [one for one in targets if known is None or one in known]
        if not served:
            raise Refused(f"{shelf.url} is for {_list(known)}, not for {' '.join(targets)}")
    choice = Choice(shelf, served)
    choice.has = devices or known or set()
    choice.unsure, choice.unread = not choice.has, first is None
    _take(choice, files, bool(devices))
    for name, _ in PROJECTS[1:]:
        others = _newest(
            [one for one in shelf.files(name) if one.wheel and shelf.place.takes(one)], pre or choice.pre
        )
        label = choice.version.partition("+")[2]
        # What was built with this torch is the likeliest to go with it.
        others.sort(key=lambda one: one.version.partition("+")[2] != label)
        try:
            _take(choice, others, bool(devices))
        except Refused as why:
            choice.left_out.append(f"{name} is left out: {why}")
    choice.owned += [one for one in _of_rocm(shelf, served) if one not in choice.owned]
    return choice


def _of_rocm(shelf, targets):
    """ROCm's own packages on the index: what torch needs by way of them."""
    devices = [f"rocm-sdk-device-{one}" for one in targets]
    there = shelf.projects()
    if there is None:
        return ["rocm", "rocm-sdk-core", "rocm-sdk-libraries", *devices]
    rocm = [one for one in sorted(there) if one == "rocm" or one.startswith("rocm-sdk-")]
    return [one for one in rocm if "-device-" not in one or one in devices]


def _candidates(shelf, torch, pre):
    """Wheels of torch that the place takes, newest first; raises `Refused` saying what there is instead."""
    place, wheels = shelf.place, [one for one in shelf.files(TORCH) if one.wheel]
    here = [one for one in wheels if place.runs(one)]
    if not here:
        raise Refused(f"{shelf.url} has no wheel of torch for {place.platform.capitalize()}, {place.machine}")
    wanted = [one for one in here if allows(torch, one.version)]
    if not wanted:
        raise Refused(f"{shelf.url} has no torch {torch.lstrip('=')}; it has: {_list(_versions(here))}")
    fitting = [one for one in wanted if place.python_fits(one)]
    if not fitting:
        raise Refused(
            f"{shelf.url} has no wheel of torch for {place}; it has some for Python "
            f"{' '.join(pythons(wanted))}: make an environment of one, or say which you have with --python"
        )
    return _newest(fitting, pre or is_pre(torch.lstrip("=")))


def _newest(files, pre):
    """Files newest first; pre-releases only where they are asked for, or where there is nothing else."""
    finals = [one for one in files if not is_pre(one.version)]
    return sorted(files if pre or not finals else finals, key=lambda one: key(one.version), reverse=True)


def _versions(files):
    found = {one.version: key(one.version) for one in files}
    return sorted(found, key=found.get, reverse=True)


def _list(names, most=12):
    shown = list(names) if isinstance(names, list) else sorted(names, key=lambda one: (len(one), one))
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (" ".join(shown[:most]) or "nothing") + rest


def _take(choice, files, split):
    """The first of the files that all goes with; raises `Refused` with what is wrong with the newest."""
    why, tried = f"there is none for {choice.shelf.place}", []
    for file in files:
        if file.version in tried:
            continue
        tried.append(file.version)
        if len(tried) > _TRIES:
            break
        problem, extras, needs = _judge(choice, file, split)
        if not problem:
            choice.add(file, extras, needs)
            choice.version = choice.version or file.version
            return
        why = why if len(tried) > 1 else problem
    raise Refused(why)


def _judge(choice, file, split):
    """(what is wrong, extras, requirements) of one wheel, beside what is chosen already."""
    shelf, about = choice.shelf, choice.shelf.about(file)
    if about is None:
        exact = f"=={file.version}"
        held = [one for one in choice.targets if split and shelf.has(_device(file.project, one), exact)]
        if 0 < len(held) < len(choice.targets):
            return f"{file.project} {file.version} has device code only for {' '.join(held)}", [], []
        return "", [_DEVICE + one for one in held], []
    devices, extras = _devices(about), []
    if devices and split:
        lost = [one for one in choice.targets if one not in devices]
        if lost:
            return f"{file.project} {file.version} has no device code for {' '.join(lost)}", [], []
        extras = [_DEVICE + one for one in choice.targets]
    needs = [
        (name, wanted, specifier)
        for name, wanted, specifier, marker in about[1]
        if applies(marker, _variables(shelf.place), extras)
    ]
    for name, wanted, specifier in needs:
        if name == TORCH and choice.version:
            if not allows(specifier, choice.version):
                return f"{file.project} {file.version} needs torch{specifier}", [], []
        elif pinned(specifier) and not shelf.has(name, specifier):
            return f"{file.project} {file.version} needs {name}{specifier}, which is not there", [], []
        lost = _lost_devices(shelf, name, wanted)
        if lost:
            return f"{file.project} {file.version} needs {' '.join(lost)}, which is not there", [], []
    return "", extras, needs


def _lost_devices(shelf, name, extras):
    """Device packages of ROCm that a requirement asks for by an extra, and that the index does not list."""
    wanted = [f"rocm-sdk-{one}" for one in sorted(extras) if one.startswith(_DEVICE + "gfx")]
    there = shelf.projects() if wanted and name == "rocm" else None
    return [] if there is None else [one for one in wanted if one not in there]


def _devices(about):
    """Targets that a wheel has an extra for."""
    return {one[len(_DEVICE) :] for one in about[0] if one.startswith(_DEVICE + "gfx")}


def _device(project, target):
    return f"amd-{project}-{_DEVICE}{target}"


def _named_devices(shelf, targets):
    """Targets that torch has device packages for, by their names alone."""
    there = shelf.projects()
    if there is None:
        return {one for one in targets if shelf.files(_device(TORCH, one))}
    begin = _device(TORCH, "gfx")
    return {one[len(begin) - 3 :] for one in there if one.startswith(begin)}


def _for_whole(shelf):
    """Targets that all wheels of an index are for, by the family in its packages' names; None: unknown."""
    begin = "rocm-sdk-libraries-"
    named = {one[len(begin) :] for one in shelf.projects() or () if one.startswith(begin)}
    found = [
        targets for name, targets in _known.offers(shelf.place.platform).items() if name.lower() in named
    ]
    return {one for targets in found for one in targets} if found else None


def _variables(place):
    windows, version = place.platform == "windows", place.python.rstrip("t")
    return {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": "win32" if windows else "linux",
        "platform_system": "Windows" if windows else "Linux",
        "os_name": "nt" if windows else "posix",
        "platform_machine": "AMD64" if windows and place.machine == "x86_64" else place.machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
