"""A `rocm` package in a few kilobytes, made by hand, and indexes that refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from wheels import ANY, write_sdist, write_wheel

# Answers as `rocm-sdk` does. It warns on standard error, as interpreters do: that is no part of an answer.
MAIN = """
import json, pathlib, sys
print("DeprecationWarning: something", file=sys.stderr)
tree = pathlib.Path(__file__).absolute().parent / "tree"
answers = {
    "version": VERSION,
    "path --root": str(tree),
    "path --bin": str(tree / "bin"),
    "path --cmake": str(tree / "lib/cmake"),
    "version --json": json.dumps({"rocm": VERSION, "libraries": ["amdhip64", "hipblas"]}),
    "targets --json": json.dumps({"targets": ["gfx1100", "gfx942"], "devices": {}}),
}
ask = " ".join(sys.argv[1:])
if ask not in answers:
    sys.exit("usage: rocm-sdk")
print(answers[ask])
"""
# The first releases: no JSON, targets in one line, and a table of all names there are.
OLDER_MAIN = MAIN.replace('    "version --json"', '    "targets": "gfx942;gfx1100",\n    "x"').replace(
    '    "targets --json"', '    "y"'
)
OLDER_LIBRARIES = """
def find_libraries(*names):
    if names != ("amdhip64",):
        raise FileNotFoundError(names)
"""


def tree(root: str = "rocm_sdk/tree") -> dict[str, str]:
    """The files of an expanded ROCm, as far as anyone looks."""
    return {
        f"{root}/bin/hipcc": "#!/bin/sh\n",
        f"{root}/lib/llvm/bin/clang++": "#!/bin/sh\n",
        f"{root}/include/hip/hip_runtime.h": "",
        f"{root}/lib/cmake/hip/hip-config.cmake": "\n",
        f"{root}/lib/llvm/amdgcn/bitcode/ockl.bc": "BC",
        f"{root}/lib/rocm_sysdeps/lib/liblzma.so": "",
        f"{root}/include/roctracer/roctracer.h": "",
    }


def make_wheel(directory: Path, version: str, *, main: str = MAIN, without: str = "nothing") -> Path:
    """`rocm-<version>-py3-none-any.whl` with the extras that builds ask for."""
    files = {
        "rocm_sdk/__init__.py": "" if main is MAIN else OLDER_LIBRARIES,
        "rocm_sdk/__main__.py": f"VERSION = {version!r}\n{main}",
        **tree(),
    }
    if main is not MAIN:
        files["rocm_sdk/_dist_info.py"] = "ALL_LIBRARIES = {'amdhip64': 1, 'rccl': 2}\n"
    kept = {name: text for name, text in files.items() if without not in name}
    extras = ("libraries", "devel", "device-gfx942")
    return write_wheel(directory, "rocm", version, kept, extras=extras, tag=ANY)


# The build of an sdist that holds its wheel.
_BACKEND = """
import pathlib, shutil
def build_wheel(folder, config_settings=None, metadata_directory=None):
    (wheel,) = pathlib.Path(__file__).parent.glob("*.whl")
    shutil.copy(wheel, folder)
    return wheel.name
"""


def multi_arch(directory: Path, version: str, *targets: str) -> None:
    """An index for all GPUs: `rocm` as a source package with an extra for each target, and its packages."""
    devices = {f"device-{target}": f"rocm-sdk-device-{target}=={version}" for target in targets}
    files = {"rocm_sdk/__init__.py": "", "rocm_sdk/__main__.py": f"VERSION = {version!r}\n{MAIN}", **tree()}
    with TemporaryDirectory() as inside:
        built = write_wheel(
            Path(inside),
            *("rocm", version, files),
            requires=[f'{text}; extra == "{extra}"' for extra, text in devices.items()],
            extras=("libraries", "devel", *devices),
            tag=ANY,
        )
        backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        sdist = {"pyproject.toml": backend, "backend.py": _BACKEND, built.name: built.read_bytes()}
        write_sdist(directory, "rocm", version, sdist)
    for target in targets:
        write_wheel(directory, f"rocm-sdk-device-{target}", version, {}, tag=ANY)


@contextmanager
def breaking_off(wheel: Path, times: int) -> Iterator[str]:
    """An index whose downloads end in the middle of the file, the first `times` of them; its address."""
    left = times

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal left
            page = f"<a href='/{wheel.name}'>{wheel.name}</a>".encode()
            body = wheel.read_bytes() if self.path.endswith(".whl") else page
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path.endswith(".whl") and left:
                left -= 1
                body = body[: len(body) // 2]
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Nothing."""

    with _served(Handler) as port:
        yield f"http://127.0.0.1:{port}/simple/"


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server on a port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def refusing(status: int) -> Iterator[tuple[str, list[str]]]:
    """An index that answers everything with `status`; its address and what was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Nothing."""

    with _served(Handler) as port:
        yield f"127.0.0.1:{port}/simple/", asked
