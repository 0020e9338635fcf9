"""Steps that put checked packages into the run's folder of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.wheels import family_wheels
from rocwright.sdk.build import BuiltPackages
from rocwright.store.layout import Kind, run_prefix
from rocwright.store.objects.local import LocalStore
from rocwright.store.runs.upload import upload_run
from rocwright.system.files import remove_tree


class UploadedRun(msgspec.Struct, frozen=True):
    """Packages of a run in the store: prefix, the page for --find-links, digests by file name.

    `rocm` is the prefix of the ROCm packages that they were built against.
    """

    prefix: str
    find_links: str
    files: dict[str, str]
    rocm: str = ""


def upload_rocm_step(options: RunOptions, needs: tuple[str, ...] = ("rocm-packages", "check-rocm")) -> Step:
    """`upload-rocm`: the checked ROCm packages into `{run_id}-{platform}/python/{group}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        return _upload(options, packages.paths, options.group or packages.family, "python", note)

    return _upload_step("upload-rocm", act, options, needs)


def upload_torch_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`upload-pytorch`: the checked wheels into `{run_id}-{platform}/pytorch/{group}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        rocm = inputs.get("upload-rocm", UploadedRun)
        group = options.group or packages.family
        done = _upload(options, family_wheels(inputs), group, "pytorch", note)
        return msgspec.structs.replace(done, rocm=rocm.prefix)

    return _upload_step("upload-pytorch", act, options, needs)


def _upload_step(
    name: str, act: Callable[[Inputs, Note], UploadedRun], options: RunOptions, needs: tuple[str, ...]
) -> Step:
    def outputs(value: UploadedRun) -> tuple[Path, ...]:
        # Only of a store of one's own is it certain that nobody else looks after it.
        root = options.workspace.store
        names = (*value.files, "index.html") if options.own else ()
        return tuple(root / value.prefix / file for file in names)

    return Step(
        id=name,
        result=UploadedRun,
        act=act,
        needs=needs,
        rooms=("store",),
        facts=lambda: {"run": options.run_id, "platform": options.platform, "group": options.group},
        outputs=outputs,
        summary=lambda value: f"{len(value.files)} files in {value.prefix}",
    )


def _upload(options: RunOptions, files: Sequence[Path], group: str, kind: Kind, note: Note) -> UploadedRun:
    store = options.store
    if options.own and isinstance(store, LocalStore):
        # The demo rebuilds under one run id; a run of CI refuses other bytes under a name it has.
        remove_tree(store.root / run_prefix(options.run_id, options.platform, kind, group))
    done = upload_run(store, files, options.run_id, options.platform, group, kind, note=note)
    return UploadedRun(done.prefix, done.url, {entry.name: entry.sha256 for entry in done.files})
