"""Options of every command that works on a store, or on the uploads of a run in one."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.model.channels import Channels, PolicyChange
from rocwright.model.gpu import Families
from rocwright.model.platforms import Platform, this_platform
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.policy import policy_changes
from rocwright.store.runs.run import external_repo
from rocwright.store.trust.guard import guarded
from rocwright.store.trust.keys import keys_of_environment
from rocwright.system import days

# What people need of an id to tell sets apart.
SHORT = 12
_ID = re.compile(r"[0-9a-f]{64}")


WhichSet = Annotated[
    str,
    Parameter(
        help="Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or "
        "newest: that of the first channel (newest:FAMILY where it has several)."
    ),
]
OfChannel = Annotated[
    str,
    Parameter(
        help="CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class StoreOptions:
    """Which store."""

    store: Annotated[str, Parameter(env_var="ROCWRIGHT_STORE")] = "store"
    """A folder, or the URL of one: file://…, s3://bucket/prefix, memory://."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def opened(self, *, new: bool = False, stating: bool = True) -> ObjectStore:
        """The store, as its channels' trusted keys let it be seen; signs with those of the environment.

        Raises `UsageError` for a folder that is not there, unless a `new` one may be made. `stating` is for
        `guarded`.
        """
        store = open_store(self.store, max_age=self.channels().max_age)
        if not new and isinstance(store, LocalStore) and not os.path.lexists(store.root):
            raise UsageError(
                f"there is no store at {self.store}",
                next_step="say where it is with --store; `rocwright set create` makes one",
            )
        return guarded(store, self.channels(), days.today(), keys_of_environment(), stating=stating)

    def channels(self) -> Channels:
        """The table of channels, with what the rocwright.toml adds."""
        return load_table("channels", Channels, read_overlay(self.config))

    def policy(self) -> tuple[PolicyChange, ...]:
        """What the rocwright.toml changes of what decides about a promotion."""
        return policy_changes(read_overlay(self.config))

    def command(self, *words: str) -> str:
        """A command to type next, with this store: `words` stand behind `rocwright`, ids are cut short."""
        short = [word[:SHORT] if _ID.fullmatch(word) else word for word in words]
        # What stands behind two hyphens is another program's.
        end = short.index("--") if "--" in short else len(short)
        more = [] if self.store == "store" or words[0] == "check" else ["--store", self.store]
        more += [] if self.config is None else ["--config", str(self.config)]
        return shlex.join(["rocwright", *short[:end], *more, *short[end:]])

    def families(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each family, with what the rocwright.toml adds."""
        return load_table("families", Families, read_overlay(self.config)).families


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """Whose run it is, and in which store."""

    store: Annotated[str | None, Parameter(env_var="ROCWRIGHT_STORE")] = None
    """A folder, or the URL of one: file://…, s3://bucket/prefix, memory:// (default: the bucket)."""

    bucket: str | None = None
    """An S3 bucket (default: that of the channels table, which has another one for forks)."""

    release_type: Literal["dev", "nightly", "prerelease", "release"] | None = None
    """Use the bucket of this kind of release, from the channels table, instead of CI's."""

    platform: Platform | None = None
    """The platform that the run built for (default: this one)."""

    repository: Annotated[
        str | None, Parameter(name=("--repository", "--run-github-repo"), env_var="GITHUB_REPOSITORY")
    ] = None
    """The repository that the run belongs to, as owner/name (default: that of the channels table)."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def channels(self) -> Channels:
        """The table of channels, with what the rocwright.toml adds."""
        return load_table("channels", Channels, read_overlay(self.config))

    def families(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each family, with what the rocwright.toml adds."""
        return load_table("families", Families, read_overlay(self.config)).families

    def external_repo(self) -> str:
        """`owner-name/` for runs of another repository than the table's."""
        return external_repo(self.repository, self.channels().runs.repository)

    def on(self) -> str:
        """The platform."""
        return self.platform or this_platform()

    def address(self, output_dir: Path | None = None) -> str:
        """Where the store is; a directory or a bucket that is named comes before $ROCWRIGHT_STORE."""
        if (output_dir, self.bucket, self.release_type).count(None) < 2:
            raise UsageError(
                "--output-dir, --bucket and --release-type each name a place, and several are given",
                next_step="give one of --output-dir, --bucket and --release-type",
            )
        if output_dir is not None:
            return str(output_dir)
        buckets = self.channels().buckets
        if self.release_type is not None:
            return f"s3://{buckets.release.replace('{release_type}', self.release_type)}"
        if self.bucket is None and self.store is not None:
            return self.store
        usual = buckets.external if self.external_repo() else buckets.runs
        return f"s3://{self.bucket or usual}"

    def opened(self, output_dir: Path | None = None, *, reading: bool = False) -> ObjectStore:
        """The store at that address; one that is only read may be somebody's public bucket."""
        region = self.channels().buckets.region
        address = self.address(output_dir)
        named = self.store == address or self.bucket is not None
        return open_store(address, region=None if named else region, reading=reading)
