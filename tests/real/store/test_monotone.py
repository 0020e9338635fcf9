"""A channel while it changes: after every single write, with every page on its own as it is or as it was.

What a client may see is every mixture of pages of which each is the current one or the one that was current
within the last max-age. All mixtures go through an exact resolver of a few lines; all distinct ones through
real uv, and those after each write, with some more, through real pip, over HTTP on loopback.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from real.store.history_builds import write_wheels
from real.store.history_checks import MAX_AGE, PROJECTS, WISHES, pick
from real.store.history_store import START, Fate, Memory, World
from rocwright.model.sets import SetManifest, new_set, set_id
from rocwright.store.pool import describe_files
from rocwright.store.publish import list_set
from rocwright.store.sets.stage import record_set
from rocwright.store.withdraw import rollback, withdraw
from rocwright.system.venv import uv_command

PREFIX = "v2/fam/"
# Nobody's configuration.
CLEAN = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
    "PIP_CONFIG_FILE": os.devnull,
}
AT = "2026-01-01T00:00:00Z"
Pages = Mapping[str, bytes]


@dataclass
class Seen:
    """Every mixture of pages that a client may have met, in order, those right after a write first of all."""

    world: World
    versions: dict[str, list[tuple[float, bytes]]] = field(default_factory=dict)
    current: list[Pages] = field(default_factory=list)
    mixtures: dict[tuple[bytes, ...], Pages] = field(default_factory=dict)
    writes: int = 0

    def wrote(self, publisher: Any, key: str) -> None:
        """Note what clients may see after a write."""
        project = key.removeprefix(PREFIX).removesuffix("/index.html")
        if project not in PROJECTS or not key.startswith(PREFIX):
            return
        self.writes += 1
        self.versions.setdefault(project, []).append((self.world.now, self.world.backing.read(key)))
        if len(self.versions) < len(PROJECTS):
            return
        windows = [self.window(project) for project in PROJECTS]
        for mixture in itertools.product(*windows):
            self.mixtures.setdefault(mixture, dict(zip(PROJECTS, mixture, strict=True)))
        self.current.append({project: self.versions[project][-1][1] for project in PROJECTS})

    def window(self, project: str) -> list[bytes]:
        """The current page, and those that were current less than a max-age ago."""
        versions = self.versions[project]
        ends = [at for at, _ in versions[1:]] + [float("inf")]
        return [page for (_, page), end in zip(versions, ends, strict=True) if end > self.world.now - MAX_AGE]


def a_set(folder: Path, number: int) -> tuple[SetManifest, dict[str, Path]]:
    paths = write_wheels(folder, "fam", number)
    manifest = new_set(
        family="fam", targets=["gfx942"], platform="linux", files=describe_files(paths), sources={}
    )
    return manifest, {path.name: path for path in paths}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A channel's life: a set, a second, back to the first, to the second, the first withdrawn, and back."""
    folder = tmp_path_factory.mktemp("wheels")
    world = World(Memory(), seed=1)
    seen = Seen(world)
    world.wrote = seen.wrote
    first, second = a_set(folder, 1), a_set(folder, 2)

    def live(store: Any) -> None:
        for manifest, paths in (first, second):
            record_set(store, manifest, paths, [], START)
        back = partial(rollback, store, PREFIX, reason="bad", at=AT, max_age=MAX_AGE)
        changes = [
            partial(list_set, store, PREFIX, first[0], at=AT),
            partial(list_set, store, PREFIX, second[0], at=AT),
            partial(back),
            partial(back, to=set_id(second[0])),
            partial(
                withdraw,
                store,
                PREFIX,
                "yank",
                lambda state: (set_id(first[0]),),
                reason="old",
                at=AT,
                max_age=MAX_AGE,
            ),
            partial(back, to=set_id(first[0])),
        ]
        for change in changes:
            change()
            world.now += 2 * MAX_AGE

    [publisher] = world.run([("publisher", Fate(), live)])
    assert publisher.problem is None, publisher.problem
    return seen


def test_every_mixture_holds_a_whole_set(seen: Seen) -> None:
    # Seven times each of five pages: list twice, yank, list, yank, list, yank.
    assert seen.writes == 7 * len(PROJECTS)
    # Three ways of standing (the first alone, both, one of them yanked), two by two: each mixes five pages.
    assert len(seen.mixtures) >= 3 * (2**5 - 2)
    for pages in seen.mixtures.values():
        for pip, wish in itertools.product((True, False), WISHES):
            chosen = pick(wish, pages, seen.world, pip=pip)
            assert chosen is not None, (pip, wish)
            assert len({link.version for link in chosen.values()}) == 1, (pip, wish)


def test_real_uv_takes_a_whole_set_from_every_mixture(seen: Seen, tmp_path: Path) -> None:
    with serving(seen) as base:
        for number in range(len(seen.mixtures)):
            command = [uv_command(), "pip", "compile", "-q", "--no-header", "--no-annotate", "--no-config"]
            command += ["--cache-dir", tmp_path / "cache", "--index-url", f"{base}{number}/{PREFIX}", "-"]
            wish = "torch\ntorchvision\nrocm[libraries]\n"
            done = subprocess.run(
                command, input=wish, capture_output=True, text=True, cwd=tmp_path, env=CLEAN
            )
            assert done.returncode == 0, done.stderr
            versions = dict(line.split("==") for line in done.stdout.split())
            assert {name.partition("[")[0] for name in versions} == set(PROJECTS)
            assert len(set(versions.values())) == 1, versions


def test_real_pip_takes_a_whole_set_after_every_write(seen: Seen, tmp_path: Path) -> None:
    mixtures = list(seen.mixtures.values())
    after_writes = {mixtures.index(pages) for pages in seen.current}
    sample = random.Random(3).sample(sorted(set(range(len(mixtures))) - after_writes), 15)
    with serving(seen) as base:
        for number in [*sorted(after_writes), *sample]:
            command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
            command += ["--disable-pip-version-check", "--no-cache-dir", "--report", "-"]
            command += ["--index-url", f"{base}{number}/{PREFIX}", "torch", "torchvision", "rocm[libraries]"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=CLEAN)
            assert done.returncode == 0, done.stderr
            found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
            assert {item["name"] for item in found} == set(PROJECTS)
            assert len({item["version"] for item in found}) == 1, found


def test_a_yanked_set_is_still_installed_by_exact_versions(seen: Seen, tmp_path: Path) -> None:
    pages = seen.current[-1]
    number = list(seen.mixtures.values()).index(pages)
    exact = [f"{project}==1.2" for project in PROJECTS]
    with serving(seen) as base:
        index = f"{base}{number}/{PREFIX}"
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q"]
        pip += ["--disable-pip-version-check", "--no-cache-dir", "--report", "-", "--index-url", index]
        # pip takes yanked files for exact pins wherever they stand, also those of other wheels.
        done = subprocess.run([*pip, "torch==1.2"], capture_output=True, text=True, cwd=tmp_path, env=CLEAN)
        assert done.returncode == 0, done.stderr
        found = {item["metadata"]["version"] for item in json.loads(done.stdout)["install"]}
        assert found == {"1.2"}
        uv = [uv_command(), "pip", "compile", "-q", "--no-header", "--no-annotate", "--no-config"]
        uv += ["--cache-dir", tmp_path / "cache", "--index-url", index, "-"]
        # uv only where they are asked for by name: all of the set, as its constraints file has them.
        wish = "\n".join([*exact, "rocm[libraries]"])
        done = subprocess.run(uv, input=wish, capture_output=True, text=True, cwd=tmp_path, env=CLEAN)
        assert done.returncode == 0, done.stderr
        assert {line.split("==")[1] for line in done.stdout.split()} == {"1.2"}


@contextmanager
def serving(seen: Seen) -> Iterator[str]:
    """`<base><number>/…`: the store with the pages of one mixture; a stand-in for caches of different age."""
    mixtures = list(seen.mixtures.values())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number, _, key = unquote(self.path).lstrip("/").partition("/")
            project = key.removeprefix(PREFIX).rstrip("/")
            if project in PROJECTS:
                self.answer(mixtures[int(number)][project], "text/html")
            elif key in seen.world.modified:
                self.answer(seen.world.backing.read(key), "application/octet-stream")
            else:
                self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def answer(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
