"""What each wheel says of the licences and origins of its files (PEP 639, PEP 770)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rocwright.device_code.kpack import SUFFIX
from rocwright.sdk.intake.tree import RocmTree
from rocwright.sdk.legal.licences import (
    LicenceTable,
    LicenceText,
    find_texts,
    libraries_in,
    licence_table,
    licences_of,
)
from rocwright.sdk.legal.provenance import Provenance, read_provenance
from rocwright.sdk.legal.sbom import bundled, sbom
from rocwright.sdk.plan.runtime import Shipped
from rocwright.system.files import shipped_directory
from rocwright.wheel.source import FileSource, Source

_OURS = "MIT"


@dataclass(frozen=True)
class Terms:
    """Of one wheel: SPDX expression, licence texts (name below `licenses/`, bytes), bill of materials.

    `unknown` names what the expression is left out for.
    """

    expression: str | None
    texts: tuple[tuple[str, Source], ...]
    bill: bytes
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Legal:
    """What a ROCm says of the licences and origins of its files."""

    table: LicenceTable
    texts: tuple[LicenceText, ...]
    provenance: Provenance
    archives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of_tree(cls, tree: RocmTree) -> Legal:
        """Read the licence texts, the origins and the archives' tables of contents.

        Raises `InvalidData` for a malformed list of origins, `InvalidArchive` for a damaged archive.
        """
        table = licence_table()
        layers = (*tree.parts.values(), tree.host)
        files = {path: file.place for layer in layers for path, file in layer.files.items()}
        return cls(
            table=table,
            texts=find_texts(files),
            provenance=read_provenance(files, table.repositories),
            archives=_archives(tree),
        )

    @property
    def sources(self) -> dict[str, str]:
        """Name of each package or repository that ROCm was made of, to its version or commit."""
        origins = sorted(self.provenance.origins.items())
        return {name: origin.version for name, origin in origins if origin.version is not None}

    def of(self, distribution: str, version: str, module: str, shipped: Sequence[Shipped]) -> Terms:
        """The terms of a wheel that ships these files below `module`."""
        files = {file.origin: file for file in shipped if file.origin is not None}
        found = licences_of(
            {path: self.provenance.package_of(path, file.artifact) for path, file in files.items()},
            self.texts,
            self.table,
            archives=self.archives,
        )
        members = {path: f"{module}/{file.path}" for path, file in files.items()}
        parts = bundled(found.parts, members, self.provenance)
        expression = _with_ours(found.expression)
        ours = ("rocwright/LICENSE", FileSource(shipped_directory("runtime") / "LICENSE"))
        return Terms(
            expression=expression,
            texts=(*((name, FileSource(place)) for name, place in found.files), ours),
            bill=sbom(distribution, version, parts, licence=expression),
            unknown=found.unknown,
        )


def _with_ours(expression: str | None) -> str | None:
    """The expression with the licence of what rocwright itself puts into each wheel."""
    if expression is None or _OURS in expression.split(" AND "):
        return expression
    return f"{expression} AND {_OURS}"


def _archives(tree: RocmTree) -> dict[str, tuple[str, ...]]:
    return {
        path: libraries_in(file.place)
        for part in tree.parts.values()
        for path, file in part.files.items()
        if path.endswith(SUFFIX)
    }
