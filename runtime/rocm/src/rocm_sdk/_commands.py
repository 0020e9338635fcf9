"""The commands of `rocm-sdk` with their options."""

import argparse
import json
import os
import sys

from . import _devel, _dist, _environment, _gpus, _places, _set


def run(arguments):
    """Parse the arguments and run one command; returns the exit status as `_cli.main` explains it."""
    options = _parser().parse_args(arguments)
    return options.run(options)


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
    version.add_argument("--json", action="store_true", help="with all that is installed, and its sources")
    version.set_defaults(run=_version)

    targets = commands.add_parser("targets", help="print the GPU targets of the installed libraries")
    targets.add_argument(
        "--detect", action="store_true", help="this machine's GPUs instead, and what to install for them"
    )
    targets.add_argument("--json", action="store_true", help="print JSON")
    targets.set_defaults(run=_targets)

    env = commands.add_parser("env", help="print the environment for building against this ROCm")
    env.add_argument(
        "--shell",
        choices=("bash", "pwsh", "json", "github"),
        default="bash",
        help="how to print it (default: bash); github appends to the files GITHUB_ENV and GITHUB_PATH name",
    )
    env.set_defaults(run=_env)

    init = commands.add_parser("init", help="expand the development files now instead of on first use")
    init.add_argument("--quiet", action="store_true", help="print nothing when it works")
    init.set_defaults(run=_init)

    test = commands.add_parser("test", help="check the installation")
    for level, text in (
        ("static", "packages, libraries and commands; no GPU needed (the default)"),
        ("device", "each visible GPU: memory, compiling, a kernel, a matrix product"),
        ("torch", "torch imports, fits this ROCm and computes on each visible GPU"),
    ):
        test.add_argument("--" + level, dest="levels", action="append_const", const=level, help=text)
    test.add_argument("--json", action="store_true", help="print the results as JSON")
    test.set_defaults(run=_test)
    return parser


def _path(options):
    print(_places.path(options.what))
    return 0


def _version(options):
    if not options.json:
        print(_set.VERSION)
        return 0
    entries = {role: _dist.package(role) for role in _dist.ROLES}
    shipped = set()
    for role in ("core", "libraries"):
        shipped |= set(_dist.module_fact(entries[role]["module"], "LIBRARIES")) if entries[role] else set()
    facts = {
        "rocm": _set.VERSION,
        "mode": _set.MODE,
        "family": _set.FAMILY,
        "selected_by": _set.SELECTED_BY,
        "packages": {
            role: _dist.module_version(_dist.present(role, entry)) if entry else None
            for role, entry in entries.items()
        },
        "devices": {word: marker["version"] for word, marker in _dist.installed_devices().items()},
        "libraries": sorted(shipped),
        "sources": _sources(),
    }
    print(json.dumps(facts, indent=2))
    return 0


def _sources():
    """What this ROCm was built from: name to commit or version; {} when core does not say."""
    try:
        with open(os.path.join(_dist.require("core"), "_sources.json"), encoding="utf-8") as stream:
            return json.load(stream)["sources"]
    except (FileNotFoundError, ModuleNotFoundError):
        return {}


def _targets(options):
    if options.detect:
        return _detect(options)
    targets = _gpus.installed_targets()
    if options.json:
        devices = {word: marker["serves"] for word, marker in _dist.installed_devices().items()}
        print(json.dumps({"targets": targets, "devices": devices, "families": _dist.installed_families()}))
    elif not targets:
        _dist.require("libraries")
        raise _dist.PackageMissing(
            "the libraries that are installed have no device code. "
            "Which package this machine needs: rocm-sdk targets --detect"
        )
    else:
        print(";".join(targets))
    return 0


def _detect(options):
    """What this machine's GPUs are and need; 3 when the set has no package for one of them."""
    gpus, problems = _gpus.visible()
    served = _gpus.installed_targets()
    for gpu in gpus:
        gpu["installed"] = gpu["target"] in served
        gpu["offered"], gpu["advice"] = _gpus.advice(gpu["target"])
    offered = [gpu["target"] for gpu in gpus if gpu["offered"]]
    line = _gpus.install_line(offered) if offered else None
    if options.json:
        print(json.dumps({"gpus": gpus, "problems": problems, "install": line}, indent=2))
    else:
        for gpu in gpus:
            state = "installed" if gpu["installed"] else "not installed" if gpu["offered"] else "no package"
            print("{index}  {target}  {location}  {name}  ".format(**gpu) + state)
        for gpu in gpus:
            if not gpu["offered"]:
                print(gpu["advice"], file=sys.stderr)
        for problem in problems:
            print(problem, file=sys.stderr)
        if not gpus:
            print("no AMD GPU is visible here", file=sys.stderr)
        if line:
            print(line)
    return 0 if len(offered) == len(gpus) else 3


def _env(options):
    values = _environment.environment(_places.root(), os.environ)
    if options.shell == "github" and os.environ.get("GITHUB_ENV") and os.environ.get("GITHUB_PATH"):
        _environment.write_github(values, os.environ["GITHUB_ENV"], os.environ["GITHUB_PATH"])
    else:
        print(_environment.render(values, options.shell))
    return 0


def _init(options):
    tree = _devel.root()
    if not options.quiet:
        print(f"development files: {tree}")
    return 0


def _test(options):
    from . import _checks

    levels = [level for level in _checks.STATUS if level in (options.levels or ["static"])]
    report = _checks.run(levels)
    checks = [check for level in levels for check in report[level]]
    counts = {verdict: sum(check["verdict"] == verdict for check in checks) for verdict in _checks.VERDICTS}
    if options.json:
        head = {"rocm": _set.VERSION, "mode": _set.MODE, "family": _set.FAMILY, "levels": levels}
        print(json.dumps(dict(head, counts=counts, checks=checks), indent=2))
    else:
        for check in checks:
            print("{:<8}{}".format(check["verdict"], check["id"]))
            for name in ("cause", "fix"):
                if check[name]:
                    print(f"        {name}: {check[name]}")
        print(", ".join(f"{counts[verdict]} {verdict}" for verdict in _checks.VERDICTS))
    return _checks.status(report)
