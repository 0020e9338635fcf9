"""What a version of ROCm's packages is made of, read from where it stands: file, commit, calendar."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, InvalidData, InvalidInput
from rocwright.system import process

_KEY = "rocm-version"


def base_version(version_file: Path) -> str:
    """The release that `version.json` names under `rocm-version`; raises `InvalidData`."""
    advice = "give the release with --override-base-version"
    try:
        found = msgspec.json.decode(version_file.read_bytes(), type=dict[str, object])
    except OSError as error:
        raise InvalidData(
            f"{version_file.name} cannot be read: {error.strerror}", where=version_file, next_step=advice
        ) from error
    except msgspec.DecodeError as error:
        raise InvalidData(f"{version_file.name} is not a JSON object: {error}", where=version_file) from error
    base = found.get(_KEY)
    if not isinstance(base, str):
        raise InvalidData(f"{version_file.name} has no text {_KEY!r}", where=version_file, next_step=advice)
    return base


def commit(directory: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The commit that is being built: `GITHUB_SHA`, else HEAD of the repository around `directory`."""
    said = environment.get("GITHUB_SHA")
    if said:
        return said
    try:
        return process.run(["git", "rev-parse", "--verify", "HEAD"], cwd=directory).stdout.strip()
    except CommandFailed as error:
        raise InvalidInput(
            f"no commit: {error.tail or error.what}",
            where=directory,
            next_step="give it with --override-git-sha",
        ) from error


def today(environment: Mapping[str, str] = os.environ) -> str:
    """The day in UTC as `YYYYMMDD`: that of `SOURCE_DATE_EPOCH` where set, else today."""
    said = environment.get("SOURCE_DATE_EPOCH")
    try:
        now = datetime.now(timezone.utc) if not said else datetime.fromtimestamp(int(said), timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"SOURCE_DATE_EPOCH is {said!r}, which is not a number of seconds",
            next_step="export SOURCE_DATE_EPOCH=$(date +%s), or unset it",
        ) from error
    return now.strftime("%Y%m%d")
