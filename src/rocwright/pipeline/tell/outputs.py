"""What a cell tells the workflow that runs it, for jobs that come after."""

from __future__ import annotations

from rocwright.model.plan import Cell
from rocwright.pipeline.records import Record
from rocwright.pipeline.tell.results import Packages, Promoted, Staged, Uploaded, Wheel, gate_of, read

_UPLOADS = {"upload-rocm": "rocm", "upload-pytorch": "pytorch"}
_PAGE = "package_find_links_url"


def output_names(kind: str) -> tuple[str, ...]:
    """The outputs that a cell of a kind may have; a part of a build has none."""
    if kind in _UPLOADS:
        return (f"{_UPLOADS[kind]}_{_PAGE}", _PAGE)
    if kind in _NAMES:
        return _NAMES[kind]
    return (f"{kind.partition('-')[2]}_version",) if kind.startswith("build-") else ()


_NAMES = {
    "rocm-packages": ("rocm_version", "kpack_split"),
    "merge-torch": ("torch_version",),
    "stage": ("package_index_url", "set_id"),
    "gate": ("promote",),
    "promote": ("release_index_url",),
}


def outputs_of(cell: Cell, record: Record) -> dict[str, str]:
    """Name and value of each output; none of a cell that was not done. No value holds a line break."""
    if record.state != "done":
        return {}
    values = _values(cell, record)
    named = zip(output_names(cell.kind), values, strict=True) if values else ()
    return {name: " ".join(value.split()) for name, value in named if value.strip()}


def _values(cell: Cell, record: Record) -> tuple[str, ...]:
    """In the order of the names."""
    if cell.kind == "rocm-packages":
        packages = read(record, Packages)
        return (packages.version, str(packages.mode == "kpack").lower())
    if cell.kind in _UPLOADS:
        url = read(record, Uploaded).find_links
        return (url, url)
    if cell.kind == "merge-torch" or (cell.kind.startswith("build-") and not cell.part):
        return (read(record, Wheel).version,)
    if cell.kind == "stage":
        staged = read(record, Staged)
        return (staged.index_url, staged.set_id)
    if cell.kind == "gate":
        return (str(gate_of(record).promote).lower(),)
    return (read(record, Promoted).index_url,) if cell.kind == "promote" else ()
