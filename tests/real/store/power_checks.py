"""Publishers whose power is cut, and what has to be there afterwards: by the commands, and by the pages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote

from command_line import PROGRAM
from wheels import ANY, write_wheel

FAMILY = "fam"
PAGES = f"v2-staging/{FAMILY}"
PROJECTS = ("base", "engine", "images", "sounds")
_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
# The exit status of a command and what it printed.
Command = Callable[..., tuple[int, str]]


def make_wheels(folder: Path, number: int, size: int = 2_000) -> list[Path]:
    """Small wheels of one version that pin each other; labelled by their place, not real packages."""
    version = f"1.{number}"
    needs = [()] + [(f"{one}=={version}",) for one in PROJECTS]
    filling = hashlib.sha512(str(number).encode()).hexdigest() * (size // 128 + 1)
    return [
        write_wheel(
            folder / str(number),
            name,
            version,
            {f"{name}/__init__.py": f"# {number}\n", f"{name}/data.txt": filling},
            requires=requires,
            tag=ANY,
        )
        for name, requires in zip(PROJECTS, needs, strict=False)
    ]


def publish(wheels: Path, store: Path) -> list[object]:
    """The words of the command that publishes a folder of wheels."""
    return ["set", "create", wheels, "--family", FAMILY, "--no-install", "--stage", "--store", store]


def program(*words: object, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with this in its environment besides."""
    return subprocess.run(
        [*PROGRAM, *map(str, words)], capture_output=True, text=True, env={**os.environ, **env}
    )


def set_in(printed: str) -> str:
    """The id of the set that `set create` printed."""
    return next(line for line in printed.splitlines() if re.fullmatch("[0-9a-f]{64}", line))


def violations(command: Command, store: Path, acknowledged: list[str]) -> list[str]:
    """What is wrong with a store after a power cut, in which these sets were acknowledged; in words."""
    wrong = []

    def run(*words: object) -> str:
        code, printed = command(*words, "--store", store)
        if code:
            said = (printed.strip().splitlines() or [""])[-1]
            wrong.append(f"{' '.join(map(str, words[:2]))} ends with {code}: {said}")
        return printed

    if not acknowledged and not store.exists():
        return []
    listed = run("set", "list")
    wrong += [f"{one[:12]} is not in set list" for one in acknowledged if one[:12] not in listed]
    if acknowledged or any((store / PAGES / "_log").glob("[0-9]*.json")):
        log = run("set", "log", f"staging:{FAMILY}")
        wrong += [f"{one[:12]} is not in set log" for one in acknowledged if one[:12] not in log]
    for one in acknowledged:
        run("set", "verify", one)
        wrong += _not_on_pages(store, one)
    return wrong


def _not_on_pages(store: Path, set_id: str) -> list[str]:
    """Files of a set that its own pages or those of its channel lack, or whose bytes are not there."""
    try:
        files = json.loads((store / "sets" / set_id / "manifest.json").read_bytes())["files"]
    except (OSError, ValueError) as problem:
        return [f"the manifest of {set_id[:12]} is lost: {problem}"]
    wrong = []
    for place in (store / PAGES, store / "sets" / set_id):
        for file in files:
            page = place / file["project"] / "index.html"
            text = page.read_text() if page.is_file() else ""
            links = {unquote(link).rpartition("/")[2]: (link, digest) for link, digest in _LINK.findall(text)}
            link, digest = links.get(file["name"], ("", ""))
            target = page.parent / unquote(link)
            if digest != file["sha256"] or not target.is_file():
                wrong.append(f"{file['name']} is not on {page.relative_to(store)}")
            elif hashlib.sha256(target.read_bytes()).hexdigest() != digest:
                wrong.append(f"{file['name']} is damaged")
    return wrong
