"""The compatibility facts as values for JSON, by section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rocwright.compat.claimed.conflicts import Conflict, find_conflicts
from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.sections import section
from rocwright.model.compat import (
    DataType,
    DataTypeNotes,
    Docker,
    Domain,
    Hardware,
    Issue,
    Modules,
    OtherType,
    Page,
    Passage,
    PythonRow,
    StatusRow,
    TorchRow,
    UseCase,
)
from rocwright.model.compat_releases import (
    Distributions,
    Feature,
    FeatureList,
    Library,
    Products,
    RocmRelease,
    Statement,
    Topic,
)


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `rocwright compat show --json` prints: the rows of each section, or of the one that is named.

    `versions` is the release whose versions of libraries are shown; texts are marked up
    as in `compat.toml`.
    """

    page: Page | None = None
    overview: tuple[Passage, ...] | None = None
    use_cases: tuple[UseCase, ...] | None = None
    docker: Docker | None = None
    versions: RocmRelease | None = None
    libraries: tuple[Library, ...] | None = None
    data_type_notes: DataTypeNotes | None = None
    data_types: tuple[DataType, ...] | None = None
    modules: Modules | None = None
    domain_libraries: tuple[Domain, ...] | None = None
    lists: tuple[FeatureList, ...] | None = None
    features: tuple[Feature, ...] | None = None
    issues: tuple[Issue, ...] | None = None
    releases: tuple[RocmRelease, ...] | None = None
    products: tuple[Products, ...] | None = None
    distributions: tuple[Distributions, ...] | None = None
    other_types: tuple[OtherType, ...] | None = None
    hardware: tuple[Hardware, ...] | None = None
    pythons: tuple[PythonRow, ...] | None = None
    status: tuple[StatusRow, ...] | None = None
    torch: tuple[TorchRow, ...] | None = None
    topics: tuple[Topic, ...] | None = None
    statements: tuple[Statement, ...] | None = None
    conflicts: tuple[Conflict, ...] | None = None


def exported(facts: Facts, name: str, rocm: str) -> Shown:
    """All facts, or those of one section; raises `UsageError` for a section that does not exist."""
    if not name:
        return Shown(**{key: value for rows in _ROWS.values() for key, value in rows(facts, rocm).items()})
    section(facts, name)
    return Shown(**_ROWS[name](facts, rocm))


def _data_types(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"data_type_notes": facts.page.data_types, "data_types": facts.page.data_type}


def _modules(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"modules": facts.page.modules}


def _domains(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"domain_libraries": facts.page.domain}


_ROWS: Mapping[str, Callable[[Facts, str], Mapping[str, Any]]] = {
    "overview": lambda facts, rocm: {"page": facts.page.page, "overview": facts.page.overview},
    "use-cases": lambda facts, rocm: {"use_cases": facts.page.use_case},
    "docker": lambda facts, rocm: {"docker": facts.page.docker},
    "libraries": lambda facts, rocm: {
        "versions": facts.release(rocm),
        "libraries": facts.libraries.library,
    },
    "supported": lambda facts, rocm: {
        **_data_types(facts, rocm),
        **_modules(facts, rocm),
        **_domains(facts, rocm),
    },
    "data-types": _data_types,
    "modules": _modules,
    "domain-libraries": _domains,
    "features": lambda facts, rocm: {"lists": facts.features.list, "features": facts.features.feature},
    "issues": lambda facts, rocm: {"issues": facts.page.issue},
    "library-versions": lambda facts, rocm: {"releases": facts.releases},
    "machines": lambda facts, rocm: {
        "products": facts.libraries.products,
        "distributions": facts.libraries.distributions,
        "other_types": facts.page.other_type,
        "hardware": facts.page.hardware,
        "pythons": facts.page.python,
    },
    "status": lambda facts, rocm: {"status": facts.page.status, "torch": facts.page.torch},
    "statements": lambda facts, rocm: {
        "topics": facts.features.topic,
        "statements": facts.statements,
    },
    "conflicts": lambda facts, rocm: {"conflicts": find_conflicts(facts)},
}
