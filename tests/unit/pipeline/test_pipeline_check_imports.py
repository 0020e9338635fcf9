"""What a set offers is imported where it was installed; faults are made with a compiler, or by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from needs import needs
from rocwright.check.contract import ContractTable
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.pipeline.check_set import check_set
from rocwright.system import process
from wheels import ANY, write_sdist, write_wheel

pytestmark = pytest.mark.slow

HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHERE = f"{HERE} on linux_x86_64"
# No rule about a single wheel: what is seen is what the import alone shows.
CONTRACT = ContractTable((), own=())
EXTENSION = f"_ext.cpython-{HERE[2:]}-x86_64-linux-gnu.so"
# By project: what its wheel holds, the member at fault, and how it is told.
FAULTS: dict[str, tuple[Mapping[str, str], str, str]] = {
    "marker": (
        {"marker/__init__.py": "from marker import sub\n", "marker/sub.py": "<<<<<<< HEAD\n"},
        "marker/sub.py",
        "line 1 is no Python: invalid syntax",
    ),
    "name": (
        {"name/__init__.py": "", "name/other.py": "", "names.py": "from name.other import gone\n"},
        "names.py",
        "it stops with ImportError: cannot import name 'gone' from 'name.other'",
    ),
    "module": (
        {"module/__init__.py": "import module.gone\n"},
        "module/__init__.py",
        "it imports module.gone, which is not there",
    ),
    "unheard": (
        {"unheard.py": "print(lost)\n"},
        "unheard.py",
        "it stops with NameError: name 'lost' is not defined",
    ),
    "crash": (
        {
            "crash/__init__.py": "from crash import sub\n",
            "crash/sub.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        },
        "crash/sub.py",
        "the interpreter ends with SIGSEGV when it is imported",
    ),
}
# By module, nothing of which shows a fault: how it is told that nothing is known.
UNKNOWN = {
    "gpu": ("raise RuntimeError('No HIP GPUs are available')\n", "RuntimeError: No HIP GPUs are available"),
    "ends": ("import os\nos._exit(3)\n", "it ends the interpreter with exit code 3"),
    "network": (
        "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)\n",
        "OSError: there is no network while a set is imported",
    ),
    # A package from elsewhere is stood in for, and what then goes wrong may be the stand-in's doing.
    "wrong": (
        "from typing_extensions import ParamSpec\nParamSpec('P')\nimport numpy as np\nlost\n",
        "it needs numpy, typing_extensions from elsewhere; with stand-ins, "
        "NameError: name 'lost' is not defined",
    ),
    "plugin": (
        "import shared.mine\nimport shared.theirs\n",
        "ModuleNotFoundError: No module named 'shared.theirs'",
    ),
}
SHARED = {
    "shared/__init__.py": "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n",
    "shared/mine/__init__.py": "",
    "versioned.py": "from numpy import __version__\nassert __version__.split('.') == ['1']\n",
    "decorated.py": "import numpy as np\n@np.vectorize\ndef f(): pass\n",
}


def proved(folder: Path, wheels: Mapping[str, Mapping[str, str | bytes]]) -> Report:
    """What the proof of these projects says; nothing but their installation and import is judged."""
    for project, files in wheels.items():
        write_wheel(folder, project, "1", files, tag=ANY, requires=["numpy"], python=">=3.8")
    return check_set(CheckRequest((folder,), closed=True, contract=CONTRACT), install=True)


def told(report: Report, rule: str, severity: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Members and cause by project; every finding is of this rule, and said once for both installers."""
    assert {(one.rule, one.severity) for one in report.findings} == {(rule, severity)}
    assert len({one.file for one in report.findings}) == len(report.findings)
    return {one.file.partition("-")[0]: (one.members, one.cause) for one in report.findings}


def compiled(folder: Path, name: str, source: str, *words: str) -> bytes:
    """A library for this machine."""
    text, made = folder / f"{name}.c", folder / name
    text.write_text(source)
    process.run(["gcc", "-shared", "-fPIC", "-o", made, text, *words])
    return made.read_bytes()


def test_a_good_package_is_imported_and_it_is_told_with_what(tmp_path: Path) -> None:
    report = proved(
        tmp_path / "dist", {"thing": {"thing/__init__.py": "", "other.py": "", "_own.py": "1 / 0"}}
    )
    assert report.findings == ()
    said = [(one.installer, one.where, one.projects, one.imported) for one in report.proved]
    assert said == [(name, WHERE, ("thing",), ("other", "thing")) for name in ("pip", "uv")]
    assert "set-import" in report.rules
    # Versions are what the programs themselves say.
    for one in report.proved:
        assert (
            process.run([sys.executable, "-m", one.installer, "--version"]).stdout.split()[1] == one.version
        )


def test_code_that_no_interpreter_runs(tmp_path: Path) -> None:
    above = {"above": {"above.py": "import unheard\n"}}
    report = proved(tmp_path / "dist", {**{name: files for name, (files, _, _) in FAULTS.items()}, **above})
    # What imports it is not at fault.
    assert told(report, "set-import", "error") == {
        name: ((member,), f"imported with {WHERE}: {cause}") for name, (_, member, cause) in FAULTS.items()
    }


@needs("gcc")
def test_libraries_that_the_loader_refuses(tmp_path: Path) -> None:
    undefined = "void lost(void); void *PyInit__ext(void) { lost(); return 0; }\n"
    helped = "void help(void); void *PyInit__ext(void) { help(); return 0; }\n"
    helper = compiled(tmp_path, "libhelper.so", "void help(void) {}\n", "-Wl,-soname,libhelper.so")
    strange = compiled(tmp_path, "libnobodys.so", "void help(void) {}\n", "-Wl,-soname,libnobodys.so")
    assert helper != strange
    libraries = {
        "undefined": compiled(tmp_path, "undefined.so", undefined, "-Wl,-z,now"),
        "entry": compiled(tmp_path, "entry.so", "void *PyInit_other(void) { return 0; }\n"),
        "broken": b"no library",
        "closed": compiled(
            tmp_path, "closed.so", "void *PyInit__ext(void) { return 0; }\n", "-Wl,-z,nodlopen"
        ),
        "unfound": compiled(tmp_path, "user.so", helped, f"-L{tmp_path}", "-lhelper"),
        "driver": compiled(tmp_path, "strange.so", helped, f"-L{tmp_path}", "-lnobodys"),
    }
    wheels: dict[str, dict[str, str | bytes]] = {
        name: {f"{name}/__init__.py": f"from {name} import _ext\n", f"{name}/{EXTENSION}": data}
        for name, data in libraries.items()
    }
    wheels["unfound"]["unfound/lib/libhelper.so"] = helper
    report = proved(tmp_path / "dist", wheels)
    causes = {
        "undefined": "nothing that it loads defines the symbol lost",
        "entry": "it does not define PyInit__ext",
        "broken": "the loader refuses it: file too short",
        "closed": "the loader refuses it: shared object cannot be dlopen()ed",
        "unfound": "libhelper.so is in the set, and the loader does not find it",
    }
    errors = {one.file.partition("-")[0]: one for one in report.findings if one.severity == "error"}
    assert {(one.rule, one.members) for one in errors.values()} == {
        ("set-import", (f"{name}/{EXTENSION}",)) for name in causes
    }
    assert {name: one.cause for name, one in errors.items()} == {
        name: f"imported with {WHERE}: {cause}" for name, cause in causes.items()
    }
    # Where a library is nobody's, a driver may bring it.
    [warning] = [one for one in report.findings if one.severity == "warning"]
    assert (warning.rule, warning.file) == ("set-unproved", "driver-1-py3-none-any.whl")
    assert "libnobodys.so: cannot open shared object file" in warning.cause


def test_what_a_gpu_or_another_package_is_needed_for_is_no_error(tmp_path: Path) -> None:
    wheels = {name: {f"{name}.py": source} for name, (source, _) in UNKNOWN.items()}
    report = proved(tmp_path / "dist", {**wheels, "shared": SHARED})
    assert told(report, "set-unproved", "warning") == {
        name: ((), f"not proved that {name} can be imported with {WHERE}: {cause}")
        for name, (_, cause) in UNKNOWN.items()
    }


@needs("gcc")
def test_an_extension_without_a_package_is_imported_beside_what_its_wheel_requires(tmp_path: Path) -> None:
    """As apex's `amp_C`: nobody imports it before torch, which loads the libraries that it needs."""
    compiled(tmp_path, "libbase.so", "void help(void) {}\n", "-Wl,-soname,libbase.so")
    source = (
        "void help(void); extern void *PyModule_Create2(void *, int);\n"
        'static struct { long base[5]; const char *name; long rest[8]; } made = {{1}, "alone"};\n'
        "void *PyInit_alone(void) { help(); return PyModule_Create2(&made, 1013); }\n"
    )
    alone = compiled(tmp_path, "alone.so", source, f"-L{tmp_path}", "-lbase")
    folder = tmp_path / "dist"
    base = {
        "base/__init__.py": "import ctypes\nctypes.CDLL(__path__[0] + '/libbase.so', ctypes.RTLD_GLOBAL)\n",
        "base/libbase.so": (tmp_path / "libbase.so").read_bytes(),
    }
    write_wheel(folder, "base", "1", base, tag=ANY)
    write_wheel(folder, "alone", "1", {f"alone{EXTENSION[4:]}": alone}, tag=ANY, requires=["base==1"])
    report = check_set(CheckRequest((folder,), closed=True, contract=CONTRACT), install=True)
    assert report.findings == ()
    assert report.proved[0].imported == ("alone", "base")


BACKEND = """\
import os, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "fickle-7.dist-info/"
    files = {
        "fickle.py": f"# {os.urandom(8).hex()}\\n",
        info + "METADATA": "Metadata-Version: 2.1\\nName: fickle\\nVersion: 7\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[info + "RECORD"] = "".join(f"{name},,\\n" for name in files)
    with zipfile.ZipFile(os.path.join(wheel_directory, "fickle-7-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "fickle-7-py3-none-any.whl"
"""


@pytest.mark.parametrize(("fickle", "times"), [(False, 1), (True, 2)])
def test_what_both_installers_put_there_alike_is_imported_once(
    tmp_path: Path, fickle: bool, times: int
) -> None:
    counter, folder = tmp_path / "count", tmp_path / "dist"
    counted = f"open({str(counter)!r}, 'a').write('x')\n"
    write_wheel(folder, "thing", "1", {"thing.py": counted}, tag=ANY)
    if fickle:
        # What is built where it is installed may differ.
        backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        source = {"pyproject.toml": backend, "backend.py": BACKEND}
        write_sdist(folder, "fickle", "7", source)
    report = check_set(CheckRequest((folder,), closed=True, contract=CONTRACT), install=True)
    assert report.findings == ()
    assert counter.read_text() == "x" * times
    # It counts for both.
    assert [(one.installer, one.imported) for one in report.proved] == [
        (name, ("thing",)) for name in ("pip", "uv")
    ]
