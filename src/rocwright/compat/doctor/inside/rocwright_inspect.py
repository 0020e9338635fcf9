"""Say what is installed in this environment; standard library only, nothing of it is imported.

Started as `python rocwright_inspect.py ANSWER ASKED`: the answer is JSON in the file ANSWER, ASKED is JSON
with the regular expression `family` over normalised names, and `deep`, whether files are read and hashed.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import importlib.machinery
import json
import os
import platform
import re
import sys
import sysconfig
from typing import Any

# Problems that are told one by one.
_SHOWN = 20
# What lies beside archives of device code, as the module that writes it (device_code/origin.py) has it.
_SPLIT = re.compile(r"(?:.*/)?\.kpack/[^/]+\.json\Z")
_SPLIT_SCHEMA = "rocwright.kpack-origin/1"
_LARGEST_SPLIT = 1 << 20


def main(answer: str, asked: dict[str, Any]) -> None:
    """Gather everything and write it."""
    # The interpreter puts the directory of this script there, unless PYTHONSAFEPATH is set.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    told = about_python()
    told.update(about_packages(asked))
    with open(answer, "w", encoding="utf-8") as stream:
        json.dump(told, stream)


def about_python() -> dict[str, Any]:
    """The interpreter, its C library, and the values of environment markers."""
    version = "%d.%d" % sys.version_info[:2]
    libc, libc_version = c_library()
    finder = importlib.machinery.PathFinder
    return {
        "python": sys.executable,
        "version": version + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""),
        "full": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "machine": platform.machine(),
        "libc": libc,
        "libc_version": libc_version,
        "pip": finder.find_spec("pip", sys.path) is not None,
        "markers": {
            "implementation_name": sys.implementation.name,
            "implementation_version": "%d.%d.%d" % sys.implementation.version[:3],
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": platform.python_version(),
            "python_version": version,
            "sys_platform": sys.platform,
        },
    }


def c_library() -> tuple[str, str]:
    """`glibc` or `musl` and its version; empty where neither is known."""
    if sys.platform == "win32":
        return "", ""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        name, version = "", ""
    if name == "glibc":
        return name, version
    musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    return ("musl", "") if musl else ("", "")


def about_packages(asked: dict[str, Any]) -> dict[str, Any]:
    """Distributions, the torch that an import finds, and what ROCm's packages say of themselves."""
    try:
        from importlib.metadata import distributions
    except ImportError:  # before Python 3.8
        return {}
    told: list[Any] = []
    unreadable: list[Any] = []
    owners: dict[str, Any] = {}
    # In the order of the path: of two with one name the first is the one that is imported.
    for found in distributions(path=[entry for entry in sys.path if os.path.isdir(entry)]):
        place = str(getattr(found, "_path", found.locate_file("")))
        if os.path.basename(place).startswith("~"):
            unreadable.append("%s: left by an interrupted installation" % place)
            continue
        try:
            one = about_distribution(found, asked, owners)
        except Exception as error:  # metadata may be damaged in any way
            unreadable.append("%s: %s: %s" % (place, type(error).__name__, error))
            continue
        told.append(one)
    shared = [
        {"path": path, "owners": sorted(names)} for path, names in sorted(owners.items()) if len(names) > 1
    ]
    family = [one for one in told if one["family"]]
    places = sorted({one["directory"] for one in family})
    return {
        "distributions": told,
        "unreadable": unreadable,
        "torch": about_torch(),
        "devices": [marker for place in places for marker in device_markers(place)],
        "targets": {name: targets for place in places for name, targets in family_targets(place)},
        "shared": shared[:_SHOWN],
        "shadows": shadows(),
        "roots": sorted({os.path.realpath(place) for place in [sys.prefix, *places]}),
    }


def about_distribution(found: Any, asked: dict[str, Any], owners: dict[str, Any]) -> dict[str, Any]:
    """One distribution; of the family with its files. `owners` collects who claims which path."""
    metadata = found.metadata
    if not metadata["Name"] or not metadata["Version"]:
        raise ValueError("its METADATA names no project or version")
    name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
    directory = os.path.normpath(str(found.locate_file("")))
    family = re.fullmatch(asked["family"], name) is not None
    told = {
        "name": name,
        "version": metadata["Version"],
        "directory": directory,
        "requires": metadata.get_all("Requires-Dist") or [],
        "extras": metadata.get_all("Provides-Extra") or [],
        "family": family,
    }
    if family:
        read = found.read_text
        told["installer"] = (read("INSTALLER") or "").strip()
        told["tags"] = re.findall(r"^Tag: *(\S+)", read("WHEEL") or "", re.MULTILINE)
        told["metadata_sha256"] = metadata_digest(found)
        told.update(origin_of(read("direct_url.json")))
        told.update(about_files(read("RECORD"), told, asked["deep"], owners))
    return told


def metadata_digest(found: Any) -> str:
    """The sha256 of METADATA as it lies there; installers copy it as it is."""
    try:
        with open(os.path.join(str(found._path), "METADATA"), "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except (OSError, AttributeError):
        return ""


def origin_of(text: str | None) -> dict[str, Any]:
    """Where it came from, if somebody gave an address (PEP 610)."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return {}
    archive = told.get("archive_info") or {}
    digests = archive.get("hashes") or {}
    old = archive.get("hash") or ""
    sha256 = digests.get("sha256") or (old[len("sha256=") :] if old.startswith("sha256=") else "")
    editable = bool((told.get("dir_info") or {}).get("editable"))
    return {"origin": told.get("url") or "", "origin_sha256": sha256, "editable": editable}


def about_files(
    record: str | None, told: dict[str, Any], deep: bool, owners: dict[str, Any]
) -> dict[str, Any]:
    """Compare the files with RECORD: that they are there, their sizes, with `deep` their content."""
    problems = []
    libraries = []
    outside = []
    splits = []
    rows = [row for row in csv.reader((record or "").splitlines()) if row]
    digests = {os.path.normpath(os.path.join(told["directory"], row[0])): row[1] for row in rows if row[1:]}
    for row in rows:
        path, digest, size = (row + ["", ""])[:3]
        place = os.path.normpath(os.path.join(told["directory"], path))
        owners.setdefault(place, set()).add("%s %s" % (told["name"], told["version"]))
        if re.search(r"\.so(\.[0-9.]+)?$", path):
            libraries.append(path)
            real = os.path.realpath(place)
            if not real.startswith(os.path.realpath(told["directory"]) + os.sep):
                outside.append(real)
        if _SPLIT.match(path.replace(os.sep, "/")):
            splits.extend(split_of(place, digests))
        kind = file_problem(place, digest, size, deep)
        if kind and not path.endswith(".pyc"):
            problems.append({"path": path, "kind": kind})
    return {
        "recorded": record is not None,
        "bad_files": len(problems),
        "problems": problems[:_SHOWN],
        "libraries": libraries,
        "outside": outside,
        "splits": splits,
    }


def split_of(place: str, digests: dict[str, str]) -> list[Any]:
    """What a file beside archives says of the split that a package is of; none where it says nothing.

    It is compared with what RECORD says of the archives, by place in `digests`: RECORD is compared with them.
    """
    try:
        with open(place, encoding="utf-8") as stream:
            told = json.loads(stream.read(_LARGEST_SPLIT))
        if told["schema"] != _SPLIT_SCHEMA:
            return []
        folder = os.path.realpath(os.path.dirname(place))
        said = {field: str(told[field]) for field in ("group", "build", "part")}
        targets = [str(target) for target in told["targets"]]
        named = {
            target: "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()
            for target, digest in (told.get("archives") or {}).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A damaged file is told of by RECORD.
        return []
    names = {target: "%s_%s.kpack" % (said["group"], target) for target in targets}
    there = set(listed(folder))
    held = [target for target in targets if names[target] in there]
    unlike = []
    for target in held:
        recorded = digests.get(os.path.join(os.path.dirname(place), names[target]), "")
        if target in named and recorded.startswith("sha256=") and recorded != named[target]:
            unlike.append(target)
    return [dict(said, folder=folder, targets=targets, held=held, unlike=unlike)]


def file_problem(place: str, digest: str, size: str, deep: bool) -> str:
    """How a file differs from its row; empty where it does not."""
    if not digest:
        # RECORD itself, what was made at installation, links that lead somewhere only later.
        return "" if os.path.lexists(place) else "missing"
    try:
        facts = os.stat(place)
        if size and facts.st_size != int(size):
            return "changed"
        algorithm, _, wanted = digest.partition("=")
        if deep and hash_of(place, algorithm) != wanted:
            return "changed"
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError):
        return "unreadable"
    return ""


def hash_of(place: str, algorithm: str) -> str:
    """The digest of a file as RECORD spells it."""
    state = hashlib.new(algorithm)
    with open(place, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            state.update(block)
    return base64.urlsafe_b64encode(state.digest()).rstrip(b"=").decode()


def about_torch() -> dict[str, Any] | None:
    """What the version.py of the first torch on the path says; it is read, not run."""
    for entry in sys.path:
        directory = os.path.join(entry, "torch")
        if not os.path.isfile(os.path.join(directory, "__init__.py")):
            continue
        values = constants(os.path.join(directory, "version.py"))
        told = {"directory": directory, "extensions": compiled(directory)}
        for field, name in (("version", "__version__"), ("hip", "hip"), ("cuda", "cuda")):
            told[field] = str(values.get(name) or "")
        return told
    return None


def listed(directory: str) -> list[str]:
    """Names in a directory, sorted; none where it cannot be listed."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def compiled(directory: str) -> list[Any]:
    """Names of torch's compiled modules: each says for which Python it is."""
    return [name for name in listed(directory) if re.match(r"_C\..*(so|pyd)$", name)]


def constants(path: str) -> dict[str, Any]:
    """The names that a module sets to plain values at its top."""
    try:
        with open(path, encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    for line in tree.body:
        names = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        value = getattr(line, "value", None)
        for name in names:
            if isinstance(name, ast.Name) and value is not None:
                try:
                    found[name.id] = ast.literal_eval(value)
                except (ValueError, TypeError):
                    continue
    return found


def device_markers(place: str) -> list[Any]:
    """What the device packages of ROCm in this directory say of themselves."""
    directory = os.path.join(place, "_rocm_sdk_libraries")
    found = []
    for name in listed(directory):
        match = re.match(r"_device_(.+)\.json$", name)
        if not match:
            continue
        try:
            with open(os.path.join(directory, name), encoding="utf-8") as stream:
                serves = json.load(stream)["serves"]
            found.append({"word": match.group(1), "serves": [str(one) for one in serves]})
        except (OSError, ValueError, KeyError, TypeError):
            # A damaged file is told of by RECORD.
            continue
    return found


def family_targets(place: str) -> list[Any]:
    """(distribution, targets) of ROCm's libraries for a family of GPUs, whose device code is inside."""
    found = []
    for name in listed(place):
        match = re.match(r"_rocm_sdk_libraries_(.+)$", name)
        if match:
            targets = constants(os.path.join(place, name, "__init__.py")).get("TARGETS")
            project = re.sub(r"[-_.]+", "-", "rocm-sdk-libraries-" + match.group(1)).lower()
            if isinstance(targets, (tuple, list)):
                found.append((project, [str(one) for one in targets]))
    return found


def shadows() -> list[Any]:
    """Directories of PYTHONPATH with a torch, or ROCm's module, of their own."""
    given = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [
        entry
        for entry in given
        if any(os.path.isfile(os.path.join(entry, name, "__init__.py")) for name in ("torch", "rocm_sdk"))
    ]


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
