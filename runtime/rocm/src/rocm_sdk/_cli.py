"""The `rocm-sdk` command: where ROCm is, what is installed, whether it works."""

import argparse
import glob
import json
import os
import re
import shlex
import sys

from . import _devel, _dist, _set


def main(arguments=None):
    """Run one command; returns the exit status: 0 done, 1 failed (the reason is on stderr), 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (ImportError, OSError, RuntimeError) as error:
        print(f"rocm-sdk: {error}", file=sys.stderr)
        return 1


def _parser():
    parser = argparse.ArgumentParser(prog="rocm-sdk", description="ROCm from Python packages.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True

    path = commands.add_parser("path", help="print a directory of the installed ROCm")
    what = path.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("root", "the ROCm tree (ROCM_PATH)"),
        ("bin", "its programs (for PATH)"),
        ("cmake", "its CMake packages (for CMAKE_PREFIX_PATH)"),
    ):
        what.add_argument("--" + name, dest="what", action="store_const", const=name, help=text)
    path.set_defaults(run=_path)

    version = commands.add_parser("version", help="print the version")
    version.add_argument(
        "--json", action="store_true", help="with the versions of all packages and the family"
    )
    version.set_defaults(run=_version)

    targets = commands.add_parser("targets", help="print the GPU targets of the installed libraries")
    targets.set_defaults(run=_targets)

    env = commands.add_parser("env", help="print the environment for building against this ROCm")
    env.add_argument(
        "--shell", choices=("bash", "json"), default="bash", help="how to print it (default: bash)"
    )
    env.set_defaults(run=_env)

    init = commands.add_parser("init", help="expand the development files now instead of on first use")
    init.add_argument("--quiet", action="store_true", help="print nothing when it works")
    init.set_defaults(run=_init)

    test = commands.add_parser("test", help="check the installation; needs no GPU")
    test.add_argument("--json", action="store_true", help="print the results as JSON")
    test.set_defaults(run=_test)
    return parser


def root():
    """The expanded devel tree when rocm-sdk-devel is installed, else the core tree."""
    return _devel.installed_root() or _dist.require("core")


def _path(options):
    tree = root()
    if options.what == "bin":
        print(os.path.join(tree, "bin"))
    else:
        print(_cmake(tree) if options.what == "cmake" else tree)
    return 0


def _cmake(tree):
    directory = os.path.join(tree, "lib", "cmake")
    if not os.path.isdir(directory):
        raise _dist.PackageMissing(
            "{} has no CMake packages; install them with: {}".format(tree, _dist.pip_hint("libraries,devel"))
        )
    return directory


def _version(options):
    if not options.json:
        print(_set.VERSION)
        return 0
    roles = ("core", "libraries", "devel")
    installed = {role: _dist.module_version((_dist.package(role) or {}).get("module", "")) for role in roles}
    print(
        json.dumps(
            {"rocm": _set.VERSION, "family": _set.FAMILY, "selected_by": _set.SELECTED_BY, **installed}
        )
    )
    return 0


def _targets(_options):
    families = _dist.installed_families()
    if not families:
        raise _dist.PackageMissing(
            "no ROCm libraries are installed, hence no GPU targets; install them with: "
            + _dist.pip_hint("libraries")
        )
    for target in sorted({target for family in families for target in _set.FAMILIES[family]}):
        print(target)
    return 0


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
    below_clang = os.path.join(glob.escape(tree), "lib/llvm/lib/clang/*")
    found = glob.glob(below_clang + "/lib/amdgcn/bitcode") + glob.glob(below_clang + "/amdgcn/bitcode")
    found.sort(key=lambda path: [int(part) for part in re.findall(r"\d+", path.split("/clang/")[-1])])
    own = os.path.join(tree, "amdgcn", "bitcode")
    return found[-1] if found else own if os.path.isdir(own) else None


def _env(options):
    values = environment(root(), os.environ)
    if options.shell == "json":
        print(json.dumps(values, indent=2))
    else:
        for name, value in values.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _init(options):
    tree = _devel.root()
    if not options.quiet:
        print(f"development files: {tree}")
    return 0


def _test(options):
    from . import _selftest

    checks = _selftest.run()
    counts = {verdict: sum(check["verdict"] == verdict for check in checks) for verdict in _selftest.VERDICTS}
    if options.json:
        print(
            json.dumps(
                {"rocm": _set.VERSION, "family": _set.FAMILY, "counts": counts, "checks": checks}, indent=2
            )
        )
        return 1 if counts["failed"] else 0
    for check in checks:
        print("{:<8}{}".format(check["verdict"], check["id"]))
        for name in ("cause", "fix"):
            if check[name]:
                print(f"        {name}: {check[name]}")
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in _selftest.VERDICTS))
    return 1 if counts["failed"] else 0
