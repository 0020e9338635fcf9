"""A test double of the pipeline's steps: small cells whose files say who wrote them, and whether all of them.

As a program, `python -m unit.pipeline.cells.toy ARGS` is the real command line with these steps in place of
the real ones; `TOY_S` seconds pass while a file is written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright import cli
from rocwright.engine.graph import Inputs, Step
from rocwright.errors import CommandFailed
from rocwright.model.plan import SCHEMA, Cell, Plan, Publication, Rocm
from rocwright.pipeline.cells import act as acting
from rocwright.pipeline.records import ENDED, Ended, Machine, place_of
from rocwright.pipeline.steps.of_cell import input_names
from rocwright.store.objects.local import LocalStore

_NEEDS = {
    "make-a/linux/one": (),
    "make-b/linux/one": ("make-a/linux/one",),
    "make-c/linux/two": (),
    "tested/linux/two": ("make-c/linux/two",),
    "join/linux/three": ("make-b/linux/one", "make-c/linux/two"),
    "publish/linux/three": ("join/linux/three",),
}
IDS = (*_NEEDS, "summary")


class Made(msgspec.Struct, frozen=True):
    """What a toy step made: a file, a tree beside it, and what the file of its first need said."""

    file: str
    tree: str
    built_on: str = ""


class Told(msgspec.Struct, frozen=True):
    """How needed cells ended."""

    states: dict[str, str]


def toy_plan(run_id: str = "7", *, upload: bool = True, note: str = "", setting: str = "1") -> Plan:
    """Six cells, three of them at two places, and a summary; nobody has a GPU for `tested`."""
    cells = [
        Cell(
            id=id_,
            kind=id_.partition("/")[0],
            job=id_.partition("/")[0],
            platform="linux",
            group=id_.rpartition("/")[2],
            needs=needs,
            settings={"setting": setting},
            changes="run" if id_.startswith("publish") else "nothing",
            skip="no runner has such a GPU" if id_.startswith("tested") else "",
            digest=hashlib.sha256(f"{id_} {setting}".encode()).hexdigest(),
        )
        for id_, needs in _NEEDS.items()
    ]
    ends = ("tested/linux/two", "publish/linux/three")
    cells.append(Cell(id="summary", kind="summary", job="summary", needs=ends, last=True, digest="0" * 64))
    publication = Publication(upload, upload, "" if upload else "the pull request is a fork's")
    rocm = Rocm()
    notes = (note,) if note else ()
    return Plan(SCHEMA, "ci", run_id, "miniature", rocm, publication, (), tuple(cells), (), notes)


class Toy:
    """Makes the steps; `done` are the cells that were worked on here, `broken` those that fail."""

    def __init__(self, *, seconds: float = 0.0, size: int = 4096) -> None:
        self.seconds, self.size = seconds, size
        self.done: list[str] = []
        self.broken: dict[str, Exception] = {}
        self.facts: dict[str, object] = {}
        self.during: Callable[[Cell], None] = lambda _: None

    def steps_of(self, cell: Cell, plan: Plan, machine: Machine) -> list[Step]:
        """As `rocwright.pipeline.steps.of_cell.steps_of`."""
        if cell.kind == "summary":
            return [Step("summary", Told, self._tell, needs=(ENDED,))]
        names = tuple(name for name, id_ in input_names(cell, plan).items() if not plan.cell(id_).skip)
        root = machine.work / place_of(cell)

        def act(inputs: Inputs, note: Callable[[str], None]) -> Made:
            self.done.append(cell.id)
            self.during(cell)
            if cell.id in self.broken:
                raise self.broken[cell.id]
            built_on = ""
            for name in names:
                if cell.spare and name not in inputs.values:
                    continue
                made = inputs.get(name, Made)
                built_on = require_whole(Path(made.file))
                require_tree(Path(made.tree))
            file, tree = root / f"{cell.kind}.txt", root / f"{cell.kind}-tree"
            self._write(file, built_on)
            (tree / "inside").mkdir(parents=True, exist_ok=True)
            (tree / "inside" / "copy.txt").write_text(file.read_text())
            link = tree / "link.txt"
            link.unlink(missing_ok=True)
            link.symlink_to("inside/copy.txt")
            if cell.changes == "run":
                for name in names:
                    path = Path(inputs.get(name, Made).file)
                    machine.store.put_file(path, f"published/{plan.run_id}/{path.name}")
            return Made(str(file), str(tree), built_on)

        return [
            Step("local", Told, lambda inputs, note: Told({}), facts=lambda: str(machine.cache)),
            Step(
                cell.kind,
                Made,
                act,
                needs=(*names, "local"),
                facts=lambda: {"work": str(machine.work), "more": self.facts.get(cell.id)},
                outputs=lambda made: (Path(made.file), Path(made.tree)),
                summary=lambda made: f"made {Path(made.file).name}",
            ),
        ]

    def _tell(self, inputs: Inputs, note: Callable[[str], None]) -> Told:
        self.done.append("summary")
        return Told({id_: end.state for id_, end in inputs.get(ENDED, Ended).cells.items()})

    def _write(self, path: Path, built_on: str) -> None:
        """Slowly, and other bytes each time: a compiler that is not reproducible."""
        path.parent.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(8)
        lines = [f"{name} on {built_on}\n", *(f"{name} {number}\n" for number in range(self.size // 20))]
        with path.open("w") as stream:
            for number, line in enumerate(lines):
                stream.write(line)
                if self.seconds and number % (len(lines) // 8 + 1) == 0:
                    stream.flush()
                    time.sleep(self.seconds / 8)
            stream.write(hashlib.sha256("".join(lines).encode()).hexdigest())


def require_whole(path: Path) -> str:
    """The name that the file's writer gave it; fails unless the file is whole and of one writer."""
    text, _, digest = path.read_text().rpartition("\n")
    assert hashlib.sha256(f"{text}\n".encode()).hexdigest() == digest, f"{path} is not whole"
    return text.split()[0]


def require_tree(tree: Path) -> None:
    """Fails unless a tree is as a step leaves it."""
    assert sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*")) == [
        "inside",
        "inside/copy.txt",
        "link.txt",
    ]
    assert require_whole(tree / "link.txt") == require_whole(tree / "inside/copy.txt")


def machine(root: Path, name: str, store: Path, *, jobs: int = 2, dry_run: bool = False) -> Machine:
    """A machine with directories of its own and a store in a folder."""
    work, cache = root / name / "work", root / name / "cache"
    return Machine(LocalStore(store), str(store), work, cache, jobs, dry_run)


def failure(log: str = "") -> CommandFailed:
    """What a compiler that ends with an error leads to."""
    return CommandFailed("hipcc a.hip", 1, tail=log)


def main(arguments: Sequence[str]) -> None:
    """The command line with toy steps."""
    toy = Toy(seconds=float(os.environ.get("TOY_S", "0")))
    acting.real_steps_of = toy.steps_of
    cli.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
