"""The set that an environment is compared with, from a store or a file."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.store_options import StoreOptions
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.manifest import SetManifest, parse_set
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set


def chosen_set(text: str, manifest: Path | None, options: StoreOptions) -> SetManifest | None:
    """The manifest that was named; None where none was. Raises `UsageError` for two of them."""
    if text and manifest is not None:
        raise UsageError("--set and --manifest both name a set", next_step="give one of them")
    if text:
        store = options.opened()
        return read_set(store, resolve_set(store, options.channels(), text))
    if manifest is None:
        return None
    try:
        return parse_set(manifest.read_bytes(), where=str(manifest))
    except OSError as error:
        raise InvalidInput(
            f"{manifest} cannot be read: {error.strerror}",
            where=manifest,
            next_step="give the manifest.json of a set",
        ) from error
