"""A small plan, and records of its cells, as the tests of summaries and pages want them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rocwright.model.plan import SCHEMA, Cell, Group, Plan, Publication, Rocm, Sources
from rocwright.pipeline.define.cells import make_jobs
from rocwright.pipeline.records import CellOutput, Record, State

HOME = "https://packages.example.org/"
PLACE = {"platform": "linux", "group": "gfx94X-dcgpu"}
BUILD = {**PLACE, "python": "3.12", "ref": "release/2.9"}
GPU = {**BUILD, "family": "gfx94X-dcgpu"}


def cell(kind: str, job: str, place: Mapping[str, str] = PLACE, needs: str = "", **more: str) -> Cell:
    """A cell whose id is its kind: short, for tests that name many."""
    return msgspec.convert(
        {"id": kind, "kind": kind, "job": job, **place, "needs": needs.split(), **more}, Cell
    )


CELLS = (
    cell("rocm-packages", "build_python_packages"),
    cell("upload-rocm", "build_python_packages", needs="rocm-packages"),
    cell("test-rocm", "test_rocm_wheels", {**PLACE, "family": "gfx94X-dcgpu"}, "upload-rocm", runner="mi300"),
    cell("lock-sources", "lock_sources", {"platform": "linux", "ref": "release/2.9"}),
    cell("build-torch", "build_pytorch_wheels", BUILD, "upload-rocm lock-sources"),
    cell("build-torchaudio", "build_pytorch_wheels", BUILD, "build-torch"),
    cell("upload-pytorch", "build_pytorch_wheels", BUILD, "build-torch build-torchaudio"),
    cell("test-pytorch", "test_pytorch_wheels", GPU, "upload-pytorch", skip="no runner"),
    cell("gate", "gate", BUILD, "upload-pytorch test-pytorch"),
)


def plan(
    cells: tuple[Cell, ...] = CELLS,
    *,
    sources: Sources = "upstream",
    publication: Publication = Publication(True, False, "the store is shared"),  # noqa: B008 - frozen
) -> Plan:
    """A plan of these cells."""
    return Plan(
        schema=SCHEMA,
        profile="ci",
        run_id="4711",
        sources=sources,
        rocm=Rocm("artifacts", "4000"),
        publication=publication,
        groups=(Group("gfx94X-dcgpu", ("gfx942",), ("gfx94X-dcgpu",), "linux"),),
        cells=cells,
        jobs=make_jobs(cells),
        notes=("windows has no gfx94X-dcgpu",),
    )


def record(
    id_: str,
    value: object = None,
    state: State = "done",
    *,
    wall_s: float = 1.0,
    size: int = 0,
    why: str = "",
) -> Record:
    """A record of a cell, with one file of `size` bytes where it has one."""
    outputs = (CellOutput("dist/file", "key", "0" * 64, size),) if size else ()
    raw = msgspec.Raw(msgspec.json.encode(value or {}))
    return Record(1, id_, "1" * 64, state, raw, outputs, f"what {id_} did", wall_s, "node1", why)


def uploaded(kind: str, *files: str) -> dict[str, object]:
    """The result of an upload."""
    prefix = f"4711-linux/{kind}/gfx94X-dcgpu/"
    rocm = "4711-linux/python/gfx94X-dcgpu/" if kind == "pytorch" else ""
    page = f"{HOME}{prefix}index.html"
    return {"prefix": prefix, "find_links": page, "files": dict.fromkeys(files, "0" * 64), "rocm": rocm}
