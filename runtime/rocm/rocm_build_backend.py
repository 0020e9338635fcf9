"""PEP 517 backend of the `rocm` sdist; standard library only, so that installing it needs no index.

Legacy mode: choose the GPU family where it is installed. Kpack mode: the same wheel on every machine.
"""

import base64
import hashlib
import importlib.util
import json
import os
import pprint
import re
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILY_VARIABLE = "ROCM_SDK_TARGET_FAMILY"
SUMMARY = "ROCm for Python environments: finds and loads its libraries; provides rocm-sdk."
SYS_PLATFORM = {"linux": "linux", "windows": "win32"}


def get_requires_for_build_wheel(config_settings=None):
    """Nothing: no build requirement can be missing from an index."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the .dist-info directory; returns its name."""
    rocm = _read_set()
    family, _ = _choose(rocm, config_settings)
    name = _dist_info(rocm)
    os.makedirs(os.path.join(metadata_directory, name), exist_ok=True)
    for file, text in _metadata_files(rocm, family).items():
        path = os.path.join(metadata_directory, name, file)
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel; returns its file name.

    The tag is py3-none-any: the content is pure Python, and no tag can express a family that was chosen.
    With `config_settings={"selector": "static"}` nothing of this machine is looked at: a set in legacy mode
    gives its default family.
    """
    rocm = _read_set()
    family, selected_by = _choose(rocm, config_settings)
    members = {"rocm_sdk/_set.py": _set_module(rocm, family, selected_by)}
    source = os.path.join(HERE, "src", "rocm_sdk")
    for file in os.listdir(source):
        if file.endswith(".py") and file != "_set.py":
            with open(os.path.join(source, file), encoding="utf-8") as stream:
                members["rocm_sdk/" + file] = stream.read()
    for file, text in _metadata_files(rocm, family).items():
        members[_dist_info(rocm) + "/" + file] = text
    name = "rocm-{}-py3-none-any.whl".format(_escaped(rocm["version"]))
    _write_wheel(os.path.join(wheel_directory, name), members, _dist_info(rocm) + "/RECORD")
    return name


def metadata_lines(rocm, family=None):
    """The lines of METADATA for a set (the content of rocm_set.json), and of its sdist's PKG-INFO.

    In legacy mode the requirements depend on the family. Without one, they are marked as dynamic, as PKG-INFO
    must have it: an installer would else take its empty requirements for the final ones. In kpack mode the
    lines are the same everywhere, so that sdist and wheel cannot differ.
    """
    lines = [
        "Metadata-Version: 2.2",
        "Name: rocm",
        "Version: " + rocm["version"],
        "Summary: " + SUMMARY,
        "Requires-Python: >=3.8",
    ]
    if rocm["mode"] == "legacy" and family is None:
        return [*lines, "Dynamic: Requires-Dist", "Dynamic: Provides-Extra"]
    rows = _requirements(rocm, family)
    lines += ["Provides-Extra: " + name for name in dict.fromkeys(extra for extra, _ in rows if extra)]
    for extra, entry in rows:
        conditions = [_platform_marker(entry)] if "platforms" in entry else []
        conditions += [f'extra == "{extra}"'] if extra else []
        line = "Requires-Dist: {}=={}".format(entry["distribution"], rocm["version"])
        lines.append(" ; ".join([line, " and ".join(conditions)]) if conditions else line)
    return lines


def _requirements(rocm, family):
    """(extra or None, package) pairs: what `rocm` and its extras install."""
    packages = rocm["packages"]
    rows = [(None, packages["core"])]
    if rocm["mode"] == "kpack":
        chosen = packages.get("libraries")
        families = {}
    else:
        families = packages.get("libraries", {})
        chosen = families.get(family)
    if chosen:
        rows.append(("libraries", chosen))
    # One extra a family, for those who know what they want: installers cache the choice made for `libraries`.
    rows += [("libraries-" + _extra(name), families[name]) for name in sorted(families)]
    if "devel" in packages:
        # The development files are links into the libraries package to a large part.
        rows += [("devel", entry) for entry in (packages["devel"], chosen) if entry]
    if "profiler" in packages:
        rows.append(("profiler", packages["profiler"]))
    devices = rocm.get("devices", {})
    rows += [("device-" + _extra(word), devices[word]) for word in sorted(devices)]
    rows += [("device-all", devices[word]) for word in sorted(devices)]
    if "device_refusal" in packages:
        rows.append(("device", packages["device_refusal"]))
    return rows


def _platform_marker(entry):
    names = sorted(SYS_PLATFORM[name] for name in entry["platforms"])
    tests = [f'sys_platform == "{name}"' for name in names]
    return tests[0] if len(tests) == 1 else "({})".format(" or ".join(tests))


def _extra(text):
    return re.sub(r"[-_.]+", "-", text).lower()


def _read_set():
    path = os.path.join(HERE, "rocm_set.json")
    try:
        with open(path, encoding="utf-8") as stream:
            rocm = json.load(stream)
        keys = {"legacy": ("families", "default_family"), "kpack": ("devices",)}[rocm["mode"]]
        for key in ("version", "packages", "known_libraries", *keys):
            rocm[key]
        rocm["packages"]["core"]["distribution"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"rocm: rocm_set.json of this sdist is not usable: {error!r}") from error
    return rocm


def _choose(rocm, config_settings):
    """(family, what chose it): the variable, else this machine's GPUs, else the default of the set."""
    if rocm["mode"] == "kpack":
        return None, None
    if (config_settings or {}).get("selector") == "static":
        return rocm["default_family"], "static"
    families = _families_here(rocm)
    known = "; ".join("{} ({})".format(name, " ".join(families[name])) for name in sorted(families))
    wanted = os.environ.get(FAMILY_VARIABLE, "").strip()
    if wanted:
        wanted = {name.lower(): name for name in families}.get(wanted.lower(), wanted)
        if wanted not in families:
            raise SystemExit(
                "rocm {}: {}={} is not available. Set it to one of: {}".format(
                    rocm["version"], FAMILY_VARIABLE, wanted, known
                )
            )
        return wanted, "environment"
    detect = _load("_detect")
    try:
        gpus = detect.detect_gpus()
    except detect.DetectionError as error:
        raise SystemExit(
            "rocm {}: {}. Choose the family yourself: {}=NAME, one of: {}".format(
                rocm["version"], error, FAMILY_VARIABLE, known
            )
        ) from error
    if gpus:
        return _family_of([gpu["target"] for gpu in gpus], families, rocm["version"], known), "gpu"
    default = rocm["default_family"]
    if families and default not in families:
        default = min(families)  # the release's default is another platform's
    _say(f"no AMD GPU here; chose the default family {default}")
    return default, "default"


def _families_here(rocm):
    """Families less those whose libraries are for other platforms than this one."""
    libraries = rocm["packages"].get("libraries", {})

    def elsewhere(name):
        platforms = libraries.get(name, {}).get("platforms")
        return platforms is not None and sys.platform not in [SYS_PLATFORM[word] for word in platforms]

    return {name: targets for name, targets in rocm["families"].items() if not elsewhere(name)}


def _family_of(targets, families, version, known):
    """The family for GPUs, in their order: of the first one served, the family that serves most of them."""
    serves = {name: {target.partition(":")[0] for target in families[name]} for name in families}
    for target in targets:
        fitting = [name for name in serves if target in serves[name]]
        if fitting:
            best = min(fitting, key=lambda name: (-len(serves[name] & set(targets)), len(serves[name]), name))
            left = sorted(set(targets) - serves[best])
            _say(f"chose the family {best} for the GPU {target}")
            if left:
                _say("the GPUs {} are not served by it; {} overrides".format(" ".join(left), FAMILY_VARIABLE))
            return best
    raise SystemExit(
        "rocm {}: this machine's GPUs ({}) are served by no family. "
        "To install for another machine, set {} to one of: {}".format(
            version, " ".join(targets), FAMILY_VARIABLE, known
        )
    )


def _load(name):
    """A module of rocm_sdk by its file: the package itself cannot be imported before its _set.py exists."""
    path = os.path.join(HERE, "src", "rocm_sdk", name + ".py")
    spec = importlib.util.spec_from_file_location("rocm" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(text):
    print("rocm: " + text, file=sys.stderr)


def _escaped(version):
    return re.sub(r"[^\w.+!]+", "_", version)


def _dist_info(rocm):
    return "rocm-{}.dist-info".format(_escaped(rocm["version"]))


def _metadata_files(rocm, family):
    return {
        "METADATA": "\n".join(metadata_lines(rocm, family)) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: rocm_build_backend\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "[console_scripts]\nrocm-sdk = rocm_sdk._cli:main\n",
    }


def _set_module(rocm, family, selected_by):
    """The source of rocm_sdk/_set.py: the set as plain literals, quick to import."""
    values = {
        "VERSION": rocm["version"],
        "MODE": rocm["mode"],
        "FAMILY": family,
        "SELECTED_BY": selected_by,
        "FAMILIES": rocm.get("families", {}),
        "DEVICES": rocm.get("devices", {}),
        "PACKAGES": rocm["packages"],
        "KNOWN_LIBRARIES": rocm["known_libraries"],
    }
    text = '"""What this ROCm consists of, and the GPU family chosen when it was installed. Generated."""\n\n'
    return text + "".join(f"{name} = {pprint.pformat(value)}\n" for name, value in values.items())


def _write_wheel(path, members, record):
    """A zip whose bytes depend on its members only; written beside and renamed."""
    rows = []
    partial = f"{path}.partial-{os.getpid()}"
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for name in sorted(members, key=lambda name: (".dist-info/" in name, name)):
                data = members[name].encode("utf-8")
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                rows.append(f"{name},sha256={digest},{len(data)}\n")
                _add(archive, name, data)
            rows.append(record + ",,\n")
            _add(archive, record, "".join(rows).encode("utf-8"))
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def _add(archive, name, data):
    member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    # Stored: a few kilobytes, and then the bytes do not depend on the compressor's version.
    member.compress_type = zipfile.ZIP_STORED
    member.external_attr = 0o100644 << 16
    member.create_system = 3  # the same bytes on every system
    archive.writestr(member, data)
