"""Make the devel tree from its archive: whole or not at all, and gone after uninstalling.

The tree is built beside its place, checked against the manifest of the package, and renamed. Shared libraries
are links into the runtime packages, other files of theirs are hard links, so nothing is there twice. No
installed file is ever written to: installers share those between environments. The formats are described in
runtime/README.md of rocwright.
"""

import errno
import hashlib
import os
import shutil

from . import _dist, _record, _system, _unpack
from ._manifest import ACROSS, MANIFEST, damaged, parse, verify
from ._record import PARTIAL
from ._stamp import DIRECTORY_VARIABLE, INIT, STAMP, DevelError, read_stamp, state

LIBRARIES = "@libraries@"  # in a path across packages: the libraries package in use, of whichever family


def expand(module, tree, siblings, distribution="rocm-sdk-devel", libraries=None, elsewhere=None):
    """Expand the archive in the directory `module` as `tree`, if that has not been done; returns the root.

    `siblings` maps the runtime packages' import names to their distributions, `libraries` is the import name
    that `@libraries@` stands for. `elsewhere` is a directory to expand into instead of the package itself.
    Raises `DevelError`. Safe for any number of processes at once, and after a kill at any point.
    """
    site = os.path.dirname(module)
    sources = _Sources(site, siblings, libraries, elsewhere is not None)
    try:
        text = _read(os.path.join(module, MANIFEST))
    except OSError as error:
        raise DevelError(damaged(distribution, f"{error.filename}: {error.strerror}")) from error
    files = [os.path.join(os.path.basename(module), MANIFEST)]
    files += [os.path.relpath(record, site) for record in sources.records() if record]
    stamp = "\n".join([_key(text, sources), libraries or "", *(state(site, file) for file in files), ""])
    key = stamp.partition("\n")[0]
    places = [site, module]  # RECORD is made anew in the second
    if elsewhere is not None:
        if not os.path.isabs(elsewhere):
            raise DevelError(f"{DIRECTORY_VARIABLE} must be an absolute path, not {elsewhere!r}")
        places, tree = [elsewhere], os.path.join(elsewhere, "rocm-sdk-devel-" + key[:16])
    if _is_whole(tree, key):
        if elsewhere is None:
            _renew(tree, stamp)
        return tree
    try:
        os.makedirs(places[-1], exist_ok=True)
        with _system.locked(places[-1]) as exclusive:
            if _is_whole(tree, key):  # another process did it while this one waited
                return tree
            if exclusive:
                for place in places:
                    _remove_leftovers(place, os.path.basename(tree))
            entries = parse(text, distribution) + _device_notes(libraries)
            _build(module, entries, sources, distribution, tree, stamp)
    except OSError as error:
        raise DevelError(_explain(error, places[0])) from error
    return tree


class _Sources:
    """The runtime packages beside the devel package, and how a tree refers to their files."""

    def __init__(self, site, siblings, libraries, absolute):
        self.site = site
        self.siblings = siblings
        self.libraries = libraries
        self.absolute = absolute  # links of a tree elsewhere; those of a tree in its place are relative

    def records(self):
        """RECORDs of the siblings, None where there is none, in a fixed order."""
        return [_record.find(self.site, self.siblings[module]) for module in sorted(self.siblings)]

    def find(self, value):
        """(package, path relative to site-packages) of a runtime package's file, from a manifest's value."""
        module, _, rest = value[3:].partition("/")
        if module == LIBRARIES and self.libraries is not None:
            module = self.libraries
        return module, "/".join([module, rest])

    def path(self, relative):
        return os.path.join(self.site, *relative.split("/"))

    def link_text(self, relative, path):
        """What a symbolic link at `path` of the tree says to lead to a runtime package's file."""
        return self.path(relative) if self.absolute else "../" * (path.count("/") + 1) + relative

    def require_packages(self, entries):
        """`DevelError` with the command that installs the package unless all that entries need are there."""
        for module in sorted({self.find(value)[0] for _, kind, value in entries if kind in ACROSS}):
            if not os.path.isfile(os.path.join(self.site, module, "__init__.py")):
                owner = self.siblings.get(module, module.strip("@"))
                hint = _dist.pip_hint("libraries", "devel")
                raise DevelError(
                    f"the development files need the package {owner}, which is not installed; "
                    f"install it with: {hint}"
                )


def _key(text, sources):
    """What a tree was made from: a change of the devel package or of a sibling's content makes it stale.

    A sibling is known by its RECORD, which lists every file with its digest. Inodes and times would change
    when a container image is copied.
    """
    digest = hashlib.sha256(text)
    # A tree elsewhere has absolute links; one in its place moves with the environment.
    digest.update("\0{}\0{}".format(sources.libraries, sources.site if sources.absolute else "").encode())
    for module, record in zip(sorted(sources.siblings), sources.records()):
        digest.update(f"\0{module}\0".encode())
        if record is not None:
            digest.update(_read(record))
    return digest.hexdigest()


def _device_notes(libraries):
    """Entries for the notes of device packages, so that the tree has every file of the libraries package.

    The archive knows nothing of targets; the set does.
    """
    names = _dist.device_notes() if libraries else []
    return [(name, "overlay", f"../{LIBRARIES}/{name}") for name in names]


def _read(path):
    with open(path, "rb") as stream:
        return stream.read()


def _is_whole(tree, key):
    stamp = read_stamp(tree)
    return stamp is not None and stamp[0] == key


def _renew(tree, stamp):
    """Note the files' present states, so that the next call need not read them; only a matter of speed."""
    place = os.path.join(tree, STAMP)
    partial = f"{place}.{os.getpid()}"
    try:
        _write_text(partial, stamp)
        os.replace(partial, place)
    except OSError:
        pass  # somebody else's environment


def _write_text(path, text):
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)


def _remove_leftovers(parent, name):
    # The lock is held: whoever made these is dead.
    for entry in os.listdir(parent):
        if entry.startswith(name + PARTIAL):
            path = os.path.join(parent, entry)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def _build(module, entries, sources, distribution, tree, stamp):
    """Make the tree beside its place, verify it, rename it. In place, RECORD knows of it before it exists."""
    partial = f"{tree}{PARTIAL}{os.getpid()}-{os.urandom(4).hex()}"
    record = None if sources.absolute else _record.find(sources.site, distribution)
    package = os.path.basename(tree)
    owned = [package, os.path.basename(module)]
    sources.require_packages(entries)
    try:
        if record:
            # Packages as directories, because pip ignores a listed link whose target is gone already, and
            # so that a kill from here on leaves nothing that an uninstallation does not remove.
            _record.replace_lines(record, owned, [*owned, os.path.basename(partial)], module)
        _make_directories(partial, entries)
        _unpack.unpack(module, entries, partial, distribution)
        made = [entry for entry in entries if _make_link(entry, entries, sources, partial, tree)]
        verify(made, partial, distribution)
        shutil.copyfile(os.path.join(module, INIT), os.path.join(partial, INIT))
        _write_text(os.path.join(partial, STAMP), stamp)
        _put_in_place(partial, tree, stamp.partition("\n")[0])
    finally:
        if os.path.isdir(partial):
            shutil.rmtree(partial, ignore_errors=True)
    if record:
        inside = [f"{package}/{path}" for path in [path for path, _, _ in made] + [INIT, STAMP]]
        _record.replace_lines(record, owned, [*inside, *owned], module)


def _make_directories(partial, entries):
    directories = {""}
    for parent in {path.rpartition("/")[0] for path, _, _ in entries}:
        while parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    for directory in sorted(directories):  # a parent sorts before what is in it
        os.mkdir(os.path.join(partial, directory) if directory else partial)


def _make_link(entry, entries, sources, partial, tree):
    """Make an entry that is no file of the archive; returns whether the tree has the entry now.

    It has not only where Windows lets this user make no symbolic link, and the entry is an overlay.
    """
    path, kind, value = entry
    place = os.path.join(partial, path)
    if kind == "file":
        return True
    if kind in ACROSS:
        module, relative = sources.find(value)
        text = sources.link_text(relative, path)
        if kind == "overlay":
            return _overlay(text, place, sources.path(relative))
        _attach(sources, module, relative, text, place)
    elif not _system.symbolic_link(value, place, directory=kind == "dirlink"):
        _link_without_privilege(entry, entries, sources, partial, tree)
    return True


def _attach(sources, module, relative, text, place):
    """Link a sibling's file into the tree.

    A library opened through a hard link would be found under the link's path, where the files that it looks
    for beside itself are not; hence symbolic links for libraries. An executable finds its tree by its own
    path, hence hard links for the rest. Nothing is copied.
    """
    source = sources.path(relative)
    if not os.path.isfile(source):
        owner = sources.siblings.get(module, module)
        raise DevelError(
            f"{source} is missing from the installed {owner}; repair it with: {_dist.repair_hint(owner)}"
        )
    ways = [lambda: _system.hard_link(source, place), lambda: _system.symbolic_link(text, place)]
    if _is_library(os.path.basename(place)):
        ways.reverse()
    if not any(way() for way in ways):
        raise DevelError(f"{place} can be neither a hard nor a symbolic link to {source}; it is never a copy")


def _is_library(name):
    return name.endswith((".so", ".dll")) or ".so." in name


def _overlay(text, place, target):
    """Link what device packages bring into a runtime package; it may come and go later."""
    if _system.symbolic_link(text, place):
        return True
    # Windows without the privilege for symbolic links. What has no suffix is taken for a directory.
    if os.path.splitext(target)[1]:
        return False
    _system.junction(target, place)
    return True


def _link_without_privilege(entry, entries, sources, partial, tree):
    """Windows: a junction for a link to a directory, for one to a file a hard link to what it leads to."""
    path, kind, value = entry
    target = _target(path, value)
    if kind == "dirlink":
        _system.junction(os.path.join(tree, *target.split("/")), os.path.join(partial, path))
        return
    known = {path: (kind, value) for path, kind, value in entries}
    while known.get(target, ("",))[0] == "link":
        target = os.path.normpath(os.path.join(os.path.dirname(target), known[target][1])).replace(
            os.sep, "/"
        )
    kind, value = known.get(target, ("", ""))
    source = sources.path(sources.find(value)[1]) if kind == "sibling" else os.path.join(partial, target)
    if not _system.hard_link(source, os.path.join(partial, path)):
        raise DevelError(f"Windows lets this user link neither {path} nor {source}; switch on Developer Mode")


def _target(path, text):
    """The path in the tree that a symbolic link at `path` with this text leads to."""
    return os.path.normpath(os.path.join(os.path.dirname(path), text)).replace(os.sep, "/")


def _put_in_place(partial, tree, key):
    """Rename; a stale tree is moved away first, a whole one made meanwhile by another host is kept."""
    try:
        os.rename(partial, tree)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if _is_whole(tree, key):
        return
    aside = partial + "-old"
    os.rename(tree, aside)
    os.rename(partial, tree)
    shutil.rmtree(aside)


def _explain(error, parent):
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"the development files must be expanded once, and {parent} cannot be written to "
            f"({error.strerror}). Run `rocm-sdk init` as the user who installed rocm-sdk-devel, "
            f"or set {DIRECTORY_VARIABLE} to a directory of your own"
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left while expanding the development files into {parent}"
    where = error.filename or parent
    return f"cannot expand the development files: {where}: {error.strerror or error}"
