"""Options of every command that works on a store."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore

# What people need of an id to tell sets apart.
SHORT = 12
_ID = re.compile(r"[0-9a-f]{64}")

# Options that say nothing where they are not given.
Text = Annotated[str, Parameter(show_default=False)]
Several = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class StoreOptions:
    """Which store."""

    store: Annotated[str, Parameter(env_var="ROCWRIGHT_STORE")] = "store"
    """A folder, or the URL of one: file://…, s3://bucket/prefix, memory://."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def opened(self, *, new: bool = False) -> ObjectStore:
        """The store; raises `UsageError` for a folder that is not there, unless a `new` one may be made."""
        store = open_store(self.store, max_age=self.channels().max_age)
        if not new and isinstance(store, LocalStore) and not os.path.lexists(store.root):
            raise UsageError(
                f"there is no store {self.store}",
                next_step="say where it is with --store; `rocwright set create` makes one",
            )
        return store

    def channels(self) -> Channels:
        """The table of channels, with what the rocwright.toml adds."""
        return load_table("channels", Channels, read_overlay(self.config))

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
