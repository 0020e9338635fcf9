"""Options that the commands about skip entries share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.skips.collected import Collected, read_collected
from rocwright.gputest.skips.entries import chosen_entries, families_table, load_entries
from rocwright.gputest.skips.hold import FamilyMembers, Place, asked_place
from rocwright.model.skips import SkipEntry
from rocwright.system.days import today

Several = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]
Files = Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class EntryOptions:
    """Which entries."""

    skips: Files = ()
    """A TOML file with entries of your own; may be repeated. Built-in ones and those of rocwright.toml count
    always."""

    entry: Several = ()
    """Only the entry with this id; may be repeated."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def entries(self) -> tuple[SkipEntry, ...]:
        """The entries, in order."""
        return chosen_entries(load_entries(self.skips, read_overlay(self.config)), self.entry)

    def families(self) -> FamilyMembers:
        """The members of each family, with what the rocwright.toml adds."""
        return families_table(read_overlay(self.config))


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceOptions:
    """For which place; what is not given stays open."""

    target: Annotated[
        tuple[str, ...],
        Parameter(name=["--target", "--amdgpu-family"], negative_iterable=(), show_default=False),
    ] = ()
    """A GPU target or family, several with commas, or all; may be repeated."""

    platform: Annotated[str | None, Parameter(show_default=False)] = None
    """linux or windows."""

    torch: Annotated[str | None, Parameter(name=["--torch", "--pytorch-version"], show_default=False)] = None
    """The version of torch, such as 2.10 or that of a wheel, or all."""

    python_version: Annotated[str | None, Parameter(show_default=False)] = None
    """The version of Python, such as 3.12."""

    rocm: Annotated[str | None, Parameter(show_default=False)] = None
    """The version of ROCm, such as 7.10.0."""

    def place(self) -> Place:
        """The place; raises `UsageError` and `InvalidTarget` for what is none."""
        return asked_place(
            families_table(read_overlay()),
            targets=self.target,
            platform=self.platform,
            torch=self.torch,
            python=self.python_version,
            rocm=self.rocm,
        )


def collected_list(path: Path | None) -> Collected | None:
    """The list of tests that an option names."""
    return None if path is None else read_collected(path)


def require_one_source(collected: Path | None, pytorch_dir: Path | None) -> None:
    """Raise `UsageError` for two sources of the list of tests."""
    if collected is not None and pytorch_dir is not None:
        raise UsageError("--collected and --pytorch-dir contradict each other", next_step="give one of them")


def day_of(text: str | None, option: str) -> date:
    """A day as an option gives it, today for none; raises `UsageError`."""
    try:
        return today() if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text} is no day", next_step="write it like 2030-01-31") from error


Kind = Literal["skip", "xfail", "flaky", "hang"]
