"""Installers as their users run them, and wheels of one file each for them to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from rocwright.model.sets import FileEntry, SetManifest, new_set, set_id
from rocwright.model.variants import Provider, Variants
from rocwright.store.index.listed import ListedSet, listed_files
from rocwright.store.index.pages import view_pages, write_pages
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_file
from rocwright.store.sets.records import read_listed
from rocwright.store.sets.stage import record_set
from rocwright.system.venv import uv_command
from wheels import ANY, write_wheel

NOW = datetime(2026, 11, 22, 8, 0, 0, tzinfo=timezone.utc)
# That of Debian 12, older than the names that PEP 714 gave; the first that knows them; and the newest of all
# when this was written.
PIPS = ("23.0.1", "23.2.1", "26.3")
CLIENTS = (*(f"pip-{version}" for version in PIPS), "uv")


@dataclass(frozen=True)
class Client:
    """An installer, with nobody's configuration and an empty cache of its own."""

    name: str
    argv: tuple[str, ...]
    home: Path

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "UV_CACHE_DIR": str(self.home / "uv-cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [*self.argv, *map(str, words)]
        place = cwd or self.home
        return subprocess.run(command, env=self.environment(), cwd=place, text=True, capture_output=True)

    def install(self, target: Path, *words: str | Path) -> dict[str, str]:
        """Install into a fresh directory; the versions that are in it then, by project."""
        done = self.try_install(target, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return versions_in(target)

    def try_install(self, target: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        more = ("--python", sys.executable) if self.name == "uv" else ("--no-compile",)
        return self.run("install", *more, "--target", target, *words)


def make_clients(root: Path) -> dict[str, Client]:
    """pip in two versions and uv, each with a home of its own."""
    made = {"uv": Client("uv", (uv_command(), "pip"), root / "uv")}
    for version in PIPS:
        environment = root / f"pip-{version}-venv"
        subprocess.run([uv_command(), "venv", "-q", "--python", sys.executable, environment], check=True)
        python = environment / "bin" / "python"
        subprocess.run(
            [uv_command(), "pip", "install", "-q", "--python", python, f"pip=={version}"], check=True
        )
        name = f"pip-{version}"
        made[name] = Client(name, (str(python), "-m", "pip"), root / name)
    for client in made.values():
        client.home.mkdir(parents=True)
    return made


def versions_in(target: Path) -> dict[str, str]:
    """Versions by project of what was installed into a directory."""
    found = (path.name.removesuffix(".dist-info").rpartition("-") for path in target.glob("*.dist-info"))
    return {name.lower().replace("_", "-").replace(".", "-"): version for name, _, version in found}


def wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    python: str | None = ">=3.10",
    members: Mapping[str, bytes] | None = None,
    **options: Any,
) -> Path:
    """A wheel of one module."""
    files = {f"{name.lower().replace('.', '_')}.py": f"version = {version!r}\n", **(members or {})}
    return write_wheel(folder, name, version, files, python=python, tag=ANY, **options)


@dataclass
class Shop:
    """A store with sets and views of them, as a publisher leaves it; `public` is where clients find it."""

    root: Path
    sets: list[ListedSet] = field(default_factory=list)
    public: str | None = None

    @property
    def id(self) -> str:
        """The id of its only set."""
        [only] = self.sets
        return set_id(only.manifest)

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.root, public=self.public)

    def record(self, *wheels: Path, targets: Sequence[str] = ("gfx90a",), yanked: str | None = None) -> str:
        manifest: SetManifest = new_set(
            family="fam",
            targets=targets,
            platform="linux",
            files=[describe_file(path) for path in wheels],
            sources={},
        )
        record_set(self.store, manifest, {path.name: path for path in wheels}, [], NOW)
        self.sets.append(read_listed(self.store, set_id(manifest), yanked=yanked))
        return set_id(manifest)

    def publish(self, prefix: str, *, json_pages: bool = True) -> None:
        """Write the pages of all sets; without the JSON tree nobody is sent there."""
        pages = view_pages(listed_files(self.sets), prefix)
        kept = {key: page for key, page in pages.items() if json_pages or "_json/" not in key}
        write_pages(self.store, prefix, kept)

    def view(self, prefix: str, *targets: str) -> str:
        """As `publish`, for a machine with GPUs of these targets; returns `prefix`.

        Its pages state which variants fit it, and lead to the files at their place.
        """
        files = (
            msgspec.structs.replace(one, entry=_seen_by(one.entry, targets))
            for one in listed_files(self.sets)
        )
        write_pages(self.store, prefix, view_pages(files, prefix))
        return prefix


def _seen_by(entry: FileEntry, targets: tuple[str, ...]) -> FileEntry:
    if not isinstance(entry.variant, Variants):
        return entry
    said = {"amd": Provider(static_properties={"gfx_arch": targets})}
    return msgspec.structs.replace(entry, variant=msgspec.structs.replace(entry.variant, providers=said))


def files_asked(requests: Iterable[str]) -> list[str]:
    """Which distribution files were asked for, pages and metadata left out."""
    return sorted({path.rpartition("/")[2] for path in requests if path.endswith((".whl", ".tar.gz"))})


def pip_report(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Versions by project from `pip install --dry-run --quiet --report -`."""
    report = json.loads(done.stdout)
    return {one["metadata"]["name"]: one["metadata"]["version"] for one in report["install"]}
