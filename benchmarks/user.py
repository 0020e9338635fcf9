"""What a user with one GPU pays for PyTorch: bytes on the wire and on disk, requests, wall time.

``python benchmarks/user.py DEMO WORK`` takes what `rocwright demo` left in DEMO: its real ROCm and its
miniature PyTorch family. Both are split by GPU, published as one set, and installed by uv and pip from that
index over loopback HTTP into fresh environments, with empty caches: for one target, for all, and with what
builds need.

The bytes of ROCm are real; those of torch are the miniature's. The wall time is that of this machine, without
a network in between.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

from measured import Command, Watched, fresh, run
from results import Figure, Report, ended, row, seconds

from rocwright.store.objects.serve import serving

BIN = Path(sys.executable).parent
TARGET = "gfx90a"
# Torch for one of three GPUs must cost less than this part of torch for all three.
MOST_OF_ALL = 0.9
INSTALLERS = ("uv", "pip")


@dataclass
class Counted:
    """What passed the door: bytes of bodies, and how many answers had one."""

    sent: int = 0
    pages: int = 0
    metadata: int = 0
    files: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def door(behind: str, counted: Counted) -> ThreadingHTTPServer:
    """A server that hands requests on to another and counts what comes back."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            with urlopen(Request(behind.rstrip("/") + self.path, headers=asked)) as answer:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in ("date", "server", "connection"):
                        self.send_header(name, value)
                self.end_headers()
                sent = 0
                while piece := answer.read(1 << 20):
                    self.wfile.write(piece)
                    sent += len(piece)
            with counted.lock:
                counted.sent += sent
                kind = "metadata" if self.path.endswith(".metadata") else "files"
                kind = "pages" if self.path.endswith("/") else kind
                setattr(counted, kind, getattr(counted, kind) + 1)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def split_set(demo: Path, work: Path) -> Path:
    """ROCm and the family by GPU, listed in the staging channel of a store."""
    store, files = work / "store", work / "files"
    ours(fresh(work, made=True), "kpack", "split", demo / "rocm", "--output-dir", work / "split")
    ours(work, "sdk", "import", work / "split", "--dest-dir", work / "rocm")
    wheels = sorted((demo / "dist" / "pytorch").glob("*.whl"))
    torch = next(wheel for wheel in wheels if wheel.name.startswith("torch-"))
    (selector,) = (work / "rocm").glob("rocm-*.tar.gz")
    pin = f"rocm[device-@GFXARCH@]=={selector.name.removeprefix('rocm-').removesuffix('.tar.gz')}"
    ours(work, "wheel", "split", torch, "--output-dir", files, "--device-requires-dist", pin)
    packages = [*sorted((work / "rocm").glob("*[lz]")), *(one for one in wheels if one != torch)]
    for one in packages:
        shutil.copy2(one, files)
    listed = ["set", "create", files, "--family", "multi-arch", "--stage", "--no-install"]
    ours(work, *listed, "--store", store)
    return store


def ours(work: Path, *words: str | Path) -> None:
    """A command of ours that makes what is measured."""
    run([BIN / "rocwright", *words], cwd=work, sample=False)


def used(root: Path) -> int:
    """Bytes of the files below a directory; hard links count once."""
    seen: dict[tuple[int, int], int] = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found = path.stat()
            seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def install(installer: str, index: str, wanted: list[str]) -> tuple[float, float, int]:
    """One installation into an empty environment with an empty cache: wall, CPU, bytes on disk."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = root / "env"
        run([BIN / "uv", "venv", "--quiet", "--seed", environment, "--python", sys.executable], sample=False)
        python = environment / "bin" / "python"
        before = used(environment)
        command: Command = [BIN / "uv", "pip", "install", "--quiet", "--python", python]
        command += ["--default-index", index, "--prerelease=allow"]
        if installer == "pip":
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command += ["--no-build-isolation", "--index-url", index, "--pre"]
        # Nothing but the index: a user's or a machine's settings may name others.
        clean = ["env", *(f"-u{name}" for name in os.environ if name.startswith(("PIP_", "UV_")))]
        clean += [f"PIP_CONFIG_FILE={os.devnull}", "UV_NO_CONFIG=1"]
        ran = run([*clean, *command, "--cache-dir", root / "cache", *wanted], sample=False)
        return ran.wall, ran.cpu, used(environment) - before


def main() -> int:
    """Make the set, install it in every way, print."""
    report = Report("user", __doc__, runs=1)
    report.parser.add_argument("demo", type=Path)
    report.parser.add_argument("work", type=Path)
    options = report.parse()
    ways = {
        "torch": [f"torch[device-{TARGET}]"],
        "torch, all": ["torch[device-all]"],
        "libraries": [f"rocm[libraries,device-{TARGET}]"],
        "devel": [f"rocm[libraries,devel,device-{TARGET}]"],
    }
    wire: dict[str, int] = {}
    with serving(split_set(options.demo.resolve(), options.work.resolve())) as behind:
        for name, wanted in ways.items():
            figures = []
            with Watched() as watched:
                spent = {}
                for installer in INSTALLERS:
                    counted = Counted()
                    server = door(behind, counted)
                    index = f"http://127.0.0.1:{server.server_address[1]}/v2-staging/multi-arch/"
                    try:
                        spent[installer] = install(installer, index, wanted)
                    finally:
                        server.shutdown()
                        server.server_close()
                    if installer == "uv":
                        wire[name] = counted.sent
                        asked = f"{counted.pages} + {counted.metadata} + {counted.files}"
            figures = [
                Figure("wire", "B", wire[name]),
                Figure("disk", "B", spent["uv"][2]),
                Figure("requests", text=asked),
            ]
            for installer, (wall, cpu, _) in spent.items():
                figures.append(seconds(f"{installer}, wall", wall, watched.load))
                figures.append(seconds(f"{installer}, CPU", cpu, watched.load))
            if name == "torch, all":
                figures.append(
                    Figure("wire of one GPU", "×", round(wire["torch"] / wire[name], 2), MOST_OF_ALL)
                )
            report.add(row(name, f"`{wanted[0]}`", watched.load, figures))
    shutil.rmtree(options.work)
    return report.finish()


if __name__ == "__main__":
    ended(main)
