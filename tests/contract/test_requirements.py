"""What CI installs: everything that pyproject.toml asks for, of one version, by its digest."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = ("demo", "store", "aws", "pipeline", "cache", "ci")
FILES = {"requirements.txt": EXTRAS, "requirements-dev.txt": (*EXTRAS, "dev")}


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """Each requirement of the file with its digests."""
    text = (ROOT / ".github" / name).read_text().replace("\\\n", " ")
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        what, *digests = re.split(r"\s+--hash=", line)
        found.append((Requirement(what), [digest.strip() for digest in digests]))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_line_pins_one_version_by_digest_and_names_no_server(name: str) -> None:
    rows = locked(name)
    assert len(rows) > 20
    for requirement, digests in rows:
        (pin,) = requirement.specifier
        assert pin.operator == "==", requirement
        assert digests and all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests), requirement
    assert "://" not in (ROOT / ".github" / name).read_text()
    assert "index" not in re.sub(r"dumb-\w+", "", (ROOT / ".github" / name).read_text())


@pytest.mark.parametrize(("name", "extras"), FILES.items())
def test_whatever_pyproject_asks_for_is_there(name: str, extras: tuple[str, ...]) -> None:
    project = PROJECT["project"]
    wanted = list(project["dependencies"]) + PROJECT["build-system"]["requires"]
    wanted += [line for extra in extras for line in project["optional-dependencies"][extra]]
    pins: dict[str, list[str]] = {}
    for requirement, _ in locked(name):
        pins.setdefault(canonicalize_name(requirement.name), []).append(
            next(iter(requirement.specifier)).version
        )
    for line in wanted:
        asked = Requirement(line)
        held = pins.get(canonicalize_name(asked.name), [])
        # `make requirements` resolves it again.
        assert any(asked.specifier.contains(version, prereleases=True) for version in held), (line, held)
