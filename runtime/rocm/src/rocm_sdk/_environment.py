"""The environment for building against ROCm, and how shells and CI services want to read it."""

import glob
import json
import os
import re
import shlex


def environment(tree, current):
    """Variables for building against a ROCm tree, search paths in front of the `current` ones."""
    values = {
        "ROCM_PATH": tree,
        "ROCM_HOME": tree,
        "HIP_PATH": tree,
        "HIP_PLATFORM": "amd",
        "CMAKE_PREFIX_PATH": _before(tree, current.get("CMAKE_PREFIX_PATH")),
        "PATH": _before(os.path.join(tree, "bin"), current.get("PATH")),
    }
    bitcode = _bitcode(tree)
    if bitcode:
        values["HIP_DEVICE_LIB_PATH"] = bitcode
    return values


def _before(first, rest):
    kept = [entry for entry in (rest or "").split(os.pathsep) if entry and entry != first]
    return os.pathsep.join([first, *kept])


def _bitcode(tree):
    """Directory of the device libraries: of the newest clang in the tree, else the tree's own."""
    below_clang = os.path.join(glob.escape(tree), "lib", "llvm", "lib", "clang", "*")
    found = glob.glob(os.path.join(below_clang, "lib", "amdgcn", "bitcode"))
    found += glob.glob(os.path.join(below_clang, "amdgcn", "bitcode"))
    found.sort(key=lambda path: [int(part) for part in re.findall(r"\d+", path.rpartition("clang")[2])])
    own = os.path.join(tree, "amdgcn", "bitcode")
    return found[-1] if found else own if os.path.isdir(own) else None


def render(values, shell):
    """The text that sets the variables: `bash`, `pwsh`, `json`, or `github` (NAME=value lines)."""
    if shell == "json":
        return json.dumps(values, indent=2)
    if shell == "bash":
        return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())
    if shell == "pwsh":
        # PowerShell takes typographic quotes for quotes, too; a doubled one stands for itself.
        quoted = {name: re.sub("['\u2018-\u201b]", r"\g<0>\g<0>", value) for name, value in values.items()}
        return "\n".join(f"$env:{name} = '{value}'" for name, value in quoted.items())
    return _github_lines(values)


def _github_lines(values):
    for name, value in values.items():
        if "\n" in value or "\r" in value:
            raise ValueError(f"{name} has a line break, which GitHub's file cannot hold: {value!r}")
    return "\n".join(f"{name}={value}" for name, value in values.items())


def write_github(values, env_file, path_file):
    """Append the variables to the file of the later steps' environment, the programs to that of their PATH.

    GitHub prepends the entries of the second file itself, so PATH is not in the first.
    """
    lines = _github_lines({name: value for name, value in values.items() if name != "PATH"})
    programs = values["PATH"].split(os.pathsep)[0]
    for path, text in ((env_file, lines), (path_file, programs)):
        with open(path, "a", encoding="utf-8", newline="\n") as stream:
            stream.write(text + "\n")
