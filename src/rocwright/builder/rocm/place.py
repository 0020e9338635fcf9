"""Which ROCm a build is made against: exactly one kind of place, decided before anything is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.builder.rocm.install import rocm_requirement
from rocwright.builder.rocm.origins import closed_places
from rocwright.errors import UsageError
from rocwright.system.venv import Closed


class RocmPlace(msgspec.Struct, frozen=True):
    """Where ROCm is, or comes from.

    `own`: packages of `index_url` and `find_links`, in an environment that belongs to the build.
    `environment`: packages in the Python environment `directory` (None: the active one), which are installed
    there first with `install`. `prefix`: a plain tree in `directory`. Where the active environment has none,
    and CMAKE_PREFIX_PATH names none, the plain tree `dist_dir` is taken.
    """

    kind: Literal["own", "environment", "prefix"]
    directory: str | None = None
    install: bool = False
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    spec: str = ">1.0"
    extras: tuple[str, ...] = ()
    pre: bool = True
    pip_cache_dir: str | None = None
    dist_dir: str | None = None

    @property
    def places(self) -> Closed:
        """The only places that ROCm's packages are taken from."""
        return Closed(index_url=self.index_url, find_links=self.find_links)

    @property
    def exact_version(self) -> str | None:
        """The version, where `==` asks for one alone."""
        text = self.spec.strip()
        exact = text.startswith("==") and not text.startswith("===") and "*" not in text and "," not in text
        return text[2:].strip() if exact else None


def decide_place(
    *,
    index_url: str | None,
    find_links: Sequence[str],
    spec: str,
    extras: Sequence[str],
    pre: bool,
    pip_cache_dir: Path | None,
    environment: Path | None,
    prefix: Path | None,
    install: bool,
    environment_first: bool = False,
    dist_dir: Path | None = None,
) -> RocmPlace:
    """The one kind of place that the options name; an empty index or page counts as not given.

    With `environment_first`, as the documented script wants it, an index without `install` says nothing about
    the ROCm to build against. Raises `UsageError` for options that name two kinds,
    for a malformed `spec` or extra.
    """
    given = {
        "--index-url": (index_url or "").strip(),
        "--find-links": any(text.strip() for text in find_links),
    }
    sources = [name for name, is_given in given.items() if is_given]
    if prefix is not None:
        others = [
            *sources,
            *(["--rocm-environment"] if environment else []),
            *(["--install-rocm"] if install else []),
        ]
        if others and not (environment_first and others == sources):
            raise UsageError(
                f"--rocm-prefix and {' and '.join(others)} name two different ROCms",
                next_step="leave one of them out",
            )
        return RocmPlace("prefix", _text(prefix))
    if install and not sources:
        raise UsageError(
            "--install-rocm has no place to take ROCm from", next_step="give --index-url or --find-links"
        )
    if environment is not None and sources and not install and not environment_first:
        raise UsageError(
            f"--rocm-environment and {' and '.join(sources)} name two different ROCms",
            next_step="add --install-rocm to install into that environment, or leave one of them out",
        )
    # Wrong text is told by a dry run, too, and before an environment is touched.
    rocm_requirement(spec, extras)
    own = bool(sources) and not install and not environment_first
    places = closed_places(index_url, find_links) if sources else Closed()
    return RocmPlace(
        "own" if own else "environment",
        _text(environment),
        install=install,
        index_url=places.index_url,
        find_links=places.find_links,
        spec=spec,
        extras=tuple(extras),
        pre=pre,
        pip_cache_dir=_text(pip_cache_dir),
        dist_dir=_text(dist_dir),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser().absolute())
