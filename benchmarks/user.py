"""What a user with one GPU pays for PyTorch: bytes on the wire and on disk, requests, wall time.

``python benchmarks/user.py DEMO WORK`` takes what `rocwright demo` left in DEMO: its real ROCm and its
miniature PyTorch family. Both are split by GPU, published as one set, and installed by uv and pip from that
index over loopback HTTP into fresh environments, with empty caches: for one target, for all, and with what
builds need. Prints one JSON object.

The bytes of ROCm are real; those of torch are the miniature's. The wall time is that of this machine, without
a network in between.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

from rocwright.store.objects.serve import serving

BIN = Path(sys.executable).parent
TARGET = "gfx90a"
# Torch for one of three GPUs must cost less than this part of torch for all three.
GOAL = 0.9


@dataclass
class Counted:
    """What passed the door: bytes of bodies, and how many answers had one."""

    sent: int = 0
    pages: int = 0
    metadata: int = 0
    files: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def run(*words: object, **more: object) -> str:
    """The stdout of a command that has to succeed."""
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}")
    return done.stdout


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
    if (store / "v2-staging").is_dir():
        return store
    run(BIN / "rocwright", "kpack", "split", demo / "rocm", "--output-dir", work / "split")
    run(BIN / "rocwright", "sdk", "import", work / "split", "--dest-dir", work / "rocm")
    wheels = sorted((demo / "dist" / "pytorch").glob("*.whl"))
    torch = next(wheel for wheel in wheels if wheel.name.startswith("torch-"))
    (selector,) = (work / "rocm").glob("rocm-*.tar.gz")
    pin = f"rocm[device-@GFXARCH@]=={selector.name.removeprefix('rocm-').removesuffix('.tar.gz')}"
    run(BIN / "rocwright", "wheel", "split", torch, "--output-dir", files, "--device-requires-dist", pin)
    packages = [*sorted((work / "rocm").glob("*[lz]")), *(one for one in wheels if one != torch)]
    for one in packages:
        shutil.copy2(one, files)
    listed = [BIN / "rocwright", "set", "create", files, "--family", "multi-arch", "--stage", "--no-install"]
    run(*listed, "--store", store)
    return store


def used(root: Path) -> int:
    """Bytes of the files below a directory; hard links count once."""
    seen: dict[tuple[int, int], int] = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found = path.stat()
            seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def install(installer: str, index: str, wanted: list[str], counted: Counted) -> dict[str, object]:
    """One installation into an empty environment with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = root / "env"
        run(BIN / "uv", "venv", "--quiet", "--seed", environment, "--python", sys.executable)
        python = environment / "bin" / "python"
        before = used(environment)
        if installer == "uv":
            command = [
                BIN / "uv",
                "pip",
                "install",
                "--quiet",
                "--python",
                python,
                "--cache-dir",
                root / "cache",
            ]
            command += ["--default-index", index]
        else:
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command += ["--cache-dir", root / "cache", "--no-build-isolation", "--index-url", index]
        began = time.monotonic()
        # Nothing but the index: a user's or a machine's settings may name others.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        clean |= {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}
        run(*command, "--pre" if installer == "pip" else "--prerelease=allow", *wanted, env=clean)
        wall = time.monotonic() - began
        return {
            "wall_s": round(wall, 2),
            "wire_bytes": counted.sent,
            "disk_bytes": used(environment) - before,
            "requests": {"pages": counted.pages, "metadata": counted.metadata, "files": counted.files},
        }


def main() -> int:
    """Make the set unless it is there, install it in every way, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("demo", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--installer", choices=("uv", "pip"), action="append")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    ways = {
        "torch, one GPU": [f"torch[device-{TARGET}]"],
        "torch, every GPU": ["torch[device-all]"],
        "ROCm's libraries, one GPU": [f"rocm[libraries,device-{TARGET}]"],
        "the same with what builds need": [f"rocm[libraries,devel,device-{TARGET}]"],
    }
    measured: dict[str, dict[str, object]] = {}
    with serving(split_set(options.demo, options.work)) as behind:
        for installer in options.installer or ("uv", "pip"):
            for name, wanted in ways.items():
                counted = Counted()
                server = door(behind, counted)
                index = f"http://127.0.0.1:{server.server_address[1]}/v2-staging/multi-arch/"
                try:
                    measured[f"{name} ({installer})"] = install(installer, index, wanted, counted)
                finally:
                    server.shutdown()
                    server.server_close()
    one, every = (measured[f"torch, {which} GPU (uv)"]["wire_bytes"] for which in ("one", "every"))
    met = float(str(one)) <= GOAL * float(str(every)) if "uv" in (options.installer or ("uv",)) else True
    print(json.dumps({"measured": measured, "one_of_all": one / every, "goal": GOAL, "met": met}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
