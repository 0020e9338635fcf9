"""The devel tree: expanded from its archive on first use, whole or not at all, and gone after uninstalling.

The tree is built beside its place, checked against the manifest of the package, and renamed. Shared libraries
are links into the runtime packages, other files of theirs are hard links, so nothing is there twice. No
installed file is ever written to: installers share those between environments. The formats are described in
runtime/README.md of rocwright.
"""

import errno
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from contextlib import contextmanager

from . import _record
from ._manifest import MANIFEST, STAMP, DevelError, damaged, parse, verify

DIRECTORY_VARIABLE = "ROCM_SDK_DEVEL_DIR"
TREE = "tree"
ARCHIVES = ("_devel.tar", "_devel.tar.xz")
LIBRARIES = "@libraries@"  # in a sibling's path: the libraries package in use, whichever family it is of
# A hard link is not possible: another file system, not allowed, not supported, too many links.
NO_HARD_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
CHUNK = 1 << 20


def installed_root():
    """Root of the expanded devel tree, expanded on first use; None when rocm-sdk-devel is not installed."""
    from . import _dist

    return root() if _dist.directory("devel") else None


def root():
    """Root of the expanded devel tree, expanding it on first use."""
    from . import _dist

    module = _dist.require("devel")
    siblings = {}
    for role in ("core", "libraries"):
        entry = _dist.package(role)
        if entry is not None:
            siblings[entry["module"]] = entry["distribution"]
    libraries = _dist.package("libraries")
    return expand(
        module,
        siblings,
        distribution=_dist.package("devel")["distribution"],
        libraries=libraries["module"] if libraries else None,
        elsewhere=os.environ.get(DIRECTORY_VARIABLE) or None,
    )


def expand(module, siblings, distribution="rocm-sdk-devel", libraries=None, elsewhere=None):
    """Expand the devel package in the directory `module`, if that has not been done; returns the tree's root.

    `siblings` maps the runtime packages' import names to their distributions, `libraries` is the import name
    that `@libraries@` stands for. `elsewhere` is a directory to expand into instead of the package itself.
    Raises `DevelError`. Safe for any number of processes at once, and after a kill at any point.
    """
    site = os.path.dirname(module)
    try:
        with open(os.path.join(module, MANIFEST), "rb") as stream:
            text = stream.read()
    except OSError as error:
        raise DevelError(damaged(distribution, f"{error.filename}: {error.strerror}")) from error
    key = _key(text, site, siblings, libraries, elsewhere)
    parent, name = module, TREE
    if elsewhere is not None:
        if not os.path.isabs(elsewhere):
            raise DevelError(f"{DIRECTORY_VARIABLE} must be an absolute path, not {elsewhere!r}")
        parent, name = elsewhere, "rocm-sdk-devel-" + key[:16]
    tree = os.path.join(parent, name)
    if _is_whole(tree, key):
        return tree
    try:
        os.makedirs(parent, exist_ok=True)
        with _locked(parent) as exclusive:
            if _is_whole(tree, key):  # another process did it while this one waited
                return tree
            if exclusive:
                _remove_leftovers(parent, name)
            entries = parse(text, distribution)
            _build(module, entries, siblings, libraries, distribution, tree, key, elsewhere is None)
    except OSError as error:
        raise DevelError(_explain(error, parent)) from error
    return tree


def _key(text, site, siblings, libraries, elsewhere):
    """What a tree was made from: a change of the devel package or of a sibling's content makes it stale.

    A sibling is known by its RECORD, which lists every file with its digest. Inodes and times would change
    when a container image is copied.
    """
    digest = hashlib.sha256(text)
    # A tree elsewhere has absolute links; one in its place moves with the environment.
    digest.update("\0{}\0{}".format(libraries, site if elsewhere else "").encode())
    for module in sorted(siblings):
        record = _record.find(site, siblings[module])
        digest.update(f"\0{module}\0".encode())
        if record is not None:
            with open(record, "rb") as stream:
                digest.update(stream.read())
    return digest.hexdigest()


def _is_whole(tree, key):
    # The stamp is written last and the tree is renamed into place with it, so a stamp means a whole tree.
    try:
        with open(os.path.join(tree, STAMP), encoding="utf-8") as stream:
            return json.load(stream).get("key") == key
    except (OSError, ValueError):
        return False


@contextmanager
def _locked(parent):
    """Hold the lock of a directory; yields whether it excludes every other process.

    The directory itself is locked, so that no lock file is left behind. Where a file system cannot do that,
    a file in the system's temporary directory is locked, which does not reach other hosts; the rename into
    place keeps the result right even then.
    """
    import fcntl

    exclusive = True
    handle = os.open(parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
                raise
            os.close(handle)
            exclusive = False
            place = hashlib.sha256(os.path.realpath(parent).encode()).hexdigest()[:16]
            file = os.path.join(tempfile.gettempdir(), f"rocm-sdk-{os.getuid()}-{place}.lock")
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield exclusive
    finally:
        os.close(handle)


def _remove_leftovers(parent, name):
    # The lock is held: whoever made these is dead.
    for entry in os.listdir(parent):
        if entry.startswith(name + ".partial-"):
            path = os.path.join(parent, entry)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def _build(module, entries, siblings, libraries, distribution, tree, key, in_place):
    """Make the tree beside its place, verify it, rename it. In place, RECORD knows of it before it exists."""
    site = os.path.dirname(module)
    partial = f"{tree}.partial-{os.getpid()}-{os.urandom(4).hex()}"
    record = _record.find(site, distribution) if in_place else None
    package = os.path.basename(module)
    try:
        if record:
            # The package as a directory, because pip ignores a listed link whose target is gone already, and
            # so that a kill from here on leaves nothing that an uninstallation does not remove.
            _record.replace_lines(record, package, TREE, [package], module)
        os.mkdir(partial)
        for directory in sorted({os.path.dirname(path) for path, _, _ in entries}):
            os.makedirs(os.path.join(partial, directory), exist_ok=True)
        _unpack(module, entries, partial, distribution)
        soft = 0
        for path, kind, value in entries:
            if kind == "sibling":
                source = _sibling(site, value, siblings, libraries)
                soft += _attach(source, os.path.join(partial, path), path, site, in_place)
            elif kind != "file":
                os.symlink(value, os.path.join(partial, path))
        verify(entries, partial, distribution)
        with open(os.path.join(partial, STAMP), "w", encoding="utf-8") as stream:
            json.dump({"key": key, "entries": len(entries), "links_for_lack_of_hard_links": soft}, stream)
        _put_in_place(partial, tree, key)
    finally:
        if os.path.isdir(partial):
            shutil.rmtree(partial, ignore_errors=True)
    if record:
        inside = [f"{package}/{TREE}/{path}" for path in [path for path, _, _ in entries] + [STAMP]]
        _record.replace_lines(record, package, TREE, [*inside, package], module)


def _unpack(module, entries, partial, distribution):
    """Write the archive's files, comparing each one's sha256 with the manifest."""
    wanted = {path: value for path, kind, value in entries if kind == "file"}
    archives = [os.path.join(module, name) for name in ARCHIVES]
    archive = next((path for path in archives if os.path.isfile(path)), None)
    if archive is None:
        raise DevelError(damaged(distribution, "neither {} nor {} is there".format(*ARCHIVES)))
    try:
        with tarfile.open(archive, "r:xz" if archive.endswith(".xz") else "r:") as tar:
            for member in tar:
                path = os.path.normpath(member.name)  # "./bin/x" is "bin/x"
                if not member.isfile():
                    continue  # links and directories are made from the manifest
                expected = wanted.pop(path, None)
                if expected is None:
                    raise DevelError(damaged(distribution, "unexpected or repeated in the archive: " + path))
                if _write(tar.extractfile(member), os.path.join(partial, path), member.mode) != expected:
                    raise DevelError(damaged(distribution, "sha256 differs: " + path))
    except (tarfile.TarError, EOFError, _lzma_error()) as error:
        raise DevelError(damaged(distribution, f"{os.path.basename(archive)}: {error}")) from error
    if wanted:
        first = min(wanted)
        raise DevelError(damaged(distribution, f"{len(wanted)} files missing, first {first}"))


def _lzma_error():
    try:
        from lzma import LZMAError
    except ImportError:  # a Python built without xz; tarfile says so itself when the archive needs it
        return EOFError
    return LZMAError


def _write(source, path, mode):
    """Copy a stream into a new file, executable or not as `mode` says; returns its sha256."""
    digest = hashlib.sha256()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if mode & 0o111 else 0o666)
    with os.fdopen(handle, "wb", buffering=0) as stream:
        while True:
            piece = source.read(CHUNK)
            if not piece:
                return digest.hexdigest()
            digest.update(piece)
            view = memoryview(piece)
            while view:
                view = view[stream.write(view) :]


def _sibling(site, value, siblings, libraries):
    """(absolute path, path relative to site-packages) of a runtime package's file."""
    module, _, rest = value[3:].partition("/")
    if module == LIBRARIES and libraries is not None:
        module = libraries
    source = os.path.join(site, module, *rest.split("/"))
    if not os.path.isfile(source):
        from . import _dist

        if os.path.isfile(os.path.join(site, module, "__init__.py")):
            owner = siblings.get(module, module)
            raise DevelError(
                f"{source} is missing from the installed {owner}; repair it with: "
                f"pip install --force-reinstall --no-deps {owner}"
            )
        raise DevelError(
            "the development files need the package {}, which is not installed; install it with: {}".format(
                siblings.get(module, module.strip("@")), _dist.pip_hint("libraries,devel")
            )
        )
    return source, "/".join([module, rest])


def _attach(source, place, path, site, in_place):
    """Link a sibling's file into the tree; returns 1 when a hard link was wanted and impossible, else 0.

    A library opened through a hard link would be found under the link's path, where the files that it looks
    for beside itself are not; hence symbolic links for libraries. An executable finds its tree by its own
    path, hence hard links for the rest. Nothing is copied.
    """
    absolute, relative = source
    wanted_soft = _is_library(os.path.basename(path))
    if not wanted_soft:
        try:
            # A link in the runtime package (none are shipped there) must not be hard-linked itself.
            os.link(os.path.realpath(absolute), place)
            return 0
        except OSError as error:
            if error.errno not in NO_HARD_LINK:
                raise
    up = "../" * (path.count("/") + 2)
    os.symlink(up + relative if in_place else os.path.join(site, relative), place)
    return 0 if wanted_soft else 1


def _is_library(name):
    return name.endswith(".so") or ".so." in name


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
