"""Use what is installed beside this interpreter, and write what came of it as JSON; standard library alone.

Import each module of each installed package and those that are named, load each library, and say what was
there at the start.
"""

import sys

STARTED = sorted(sys.modules)
PATH = [entry for entry in sys.path if entry]

import ctypes  # noqa: E402
import importlib  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import sysconfig  # noqa: E402
from importlib import metadata  # noqa: E402
from pathlib import Path  # noqa: E402

SITE = sysconfig.get_paths()["purelib"]
# Whatever its ending, what an interpreter imports under the same name is the same.
MODULE = re.compile(
    r"((?:[A-Za-z_]\w*/)*(?!lib\w*\.so)[A-Za-z_]\w*)(?:\.py|(?:\.cpython-[\w-]+|\.abi3)?\.so)"
)
LIBRARY = re.compile(r".*\.so(\.\d+)*")
# Trees of ROCm's own programs, which import from places of their own.
APART = ("_rocm_sdk_devel", "llvm", "libexec", "__pycache__")


def places():
    """Files below site-packages."""
    for here, folders, names in os.walk(SITE):
        folders[:] = [name for name in folders if name not in APART]
        yield from (Path(here, name).relative_to(SITE).as_posix() for name in names)


def attempt(act):
    try:
        act()
        return "ok"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]


def main(result, named):
    names = sorted(set(places()))
    found = filter(None, map(MODULE.fullmatch, names))
    # A folder whose `__init__` is gone can still be imported.
    modules = sorted({*named, *(match[1].replace("/", ".").removesuffix(".__init__") for match in found)})
    seen = {
        "started": STARTED,
        "path": PATH,
        "stdlib": {
            name: str(importlib.util.find_spec(name).origin).replace(sys.prefix, "")
            for name in sorted(sys.stdlib_module_names)
            if not name.startswith("_") and importlib.util.find_spec(name) is not None
        },
        "versions": {each.metadata["Name"]: each.version for each in metadata.distributions()},
        "imports": {name: attempt(lambda name=name: importlib.import_module(name)) for name in modules},
        "libraries": {
            name: attempt(lambda name=name: ctypes.CDLL(f"{SITE}/{name}"))
            for name in names
            if LIBRARY.fullmatch(name) and not MODULE.fullmatch(name)
        },
    }
    Path(result).write_text(json.dumps(seen), encoding="utf-8")


main(sys.argv[1], sys.argv[2:])
os._exit(0)
