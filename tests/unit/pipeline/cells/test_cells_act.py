"""One cell: done once, taken by other machines, done again where its record or its files do not hold."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.engine import changes
from rocwright.errors import CommandFailed, InvalidInput, RocwrightError
from rocwright.pipeline.cells import outputs
from rocwright.pipeline.cells.act import TAKEN, act
from rocwright.pipeline.records import Machine, Record, record_key, run_records, write_record
from unit.pipeline.cells.toy import Made, Toy, failure, machine, require_tree, require_whole, toy_plan

PLAN = toy_plan()
A, B, C = "make-a/linux/one", "make-b/linux/one", "make-c/linux/two"


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return machine(tmp_path, "here", tmp_path / "store")


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return machine(tmp_path, "there", tmp_path / "store")


def do(toy: Toy, where: Machine, id_: str, said: list[str] | None = None) -> Record:
    note = (lambda _: None) if said is None else said.append
    return act(PLAN, PLAN.cell(id_), where, note, steps_of=toy.steps_of)


def files(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}


def test_a_cell_is_done_once_and_another_machine_takes_its_files(
    toy: Toy, here: Machine, there: Machine
) -> None:
    record = do(toy, here, A)
    assert (record.state, record.summary, record.why) == ("done", "made make-a.txt", "")
    assert msgspec.json.decode(record.value, type=Made).file == "${work}/linux/one/make-a.txt"
    assert do(toy, here, A).why == do(toy, there, A).why == TAKEN
    assert toy.done == [A]

    assert not (there.work / "linux/one/make-a.txt").exists(), "what nobody needs here is not fetched"
    built = do(toy, there, B)
    assert toy.done == [A, B]
    made = msgspec.json.decode(built.value, type=Made)
    assert made.built_on == require_whole(there.work / "linux/one/make-a.txt")
    require_tree(there.work / "linux/one/make-a-tree")
    assert (there.work / "linux/one/make-a.txt").read_bytes() == (
        here.work / "linux/one/make-a.txt"
    ).read_bytes()


def test_no_directory_of_a_machine_is_in_the_store(toy: Toy, here: Machine, tmp_path: Path) -> None:
    do(toy, here, A)
    do(toy, here, B)
    store = tmp_path / "store"
    jsons = list(store.rglob("*.json"))
    assert len(jsons) == 2
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in jsons)
    assert not any(name.startswith("_leases") for name in files(store)), "claims were given back"


def test_a_need_that_nobody_has_done_is_named_with_its_command(toy: Toy, here: Machine) -> None:
    with pytest.raises(InvalidInput) as caught:
        do(toy, here, B)
    assert caught.value.what == f"{B} needs {A}, which has not been done in run 7"
    assert caught.value.next_step == f"rocwright pipeline step {A} --run-id 7"
    assert toy.done == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: b"{",
        lambda record: b"",
        lambda record: msgspec.json.encode(msgspec.structs.replace(record, cell=B)),
        lambda record: msgspec.json.encode(msgspec.structs.replace(record, schema=99)),
        lambda record: msgspec.json.encode(msgspec.structs.replace(record, inputs="0" * 64)),
    ],
    ids=["cut", "empty", "of-another-cell", "of-another-schema", "of-other-inputs"],
)
def test_a_record_that_does_not_hold_is_said_and_replaced(
    toy: Toy, here: Machine, tmp_path: Path, damage
) -> None:
    first = do(toy, here, A)
    path = tmp_path / "store" / record_key("7", first)
    path.write_bytes(damage(first))
    said: list[str] = []
    again = do(toy, here, A, said)
    assert again.state == "done" and again.why == ""
    assert len([line for line in said if line.startswith("warning") and first.inputs in line]) == 1
    assert do(toy, here, A).why == TAKEN


@pytest.mark.parametrize("number", [0, 1], ids=["file", "tree"])
@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_files_that_the_store_lost_are_made_again(
    toy: Toy, here: Machine, there: Machine, tmp_path: Path, number: int, how: str
) -> None:
    record = do(toy, here, A)
    lost = tmp_path / "store" / record.outputs[number].key
    if how == "gone":
        lost.unlink()
    else:
        data = lost.read_bytes()
        lost.write_bytes(data[:-1] if how == "cut" else bytes([data[0] ^ 1]) + data[1:])
    said: list[str] = []
    do(toy, there, A, said)
    assert toy.done == [A, A]
    assert any(record.outputs[number].key in line and "is done again" in line for line in said)
    do(toy, here, B)
    require_whole(here.work / "linux/one/make-a.txt")
    require_tree(here.work / "linux/one/make-a-tree")


def test_what_others_remove_from_the_store_while_it_is_compared_is_made_again(
    toy: Toy, here: Machine, there: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes = tmp_path / "store" / do(toy, here, A).outputs[0].key
    read = outputs.sha256_file

    def late(path: Path) -> str:
        if path == goes and toy.done == [A]:
            goes.unlink()
        return read(path)

    monkeypatch.setattr(outputs, "sha256_file", late)
    said: list[str] = []
    do(toy, there, A, said)
    assert toy.done == [A, A]
    assert [line for line in said if "warning" in line] == [
        f"warning: {goes.relative_to(tmp_path / 'store')} is not in the store any more: {A} is done again"
    ]


def test_a_tree_that_another_run_replaces_while_it_is_looked_at_is_fetched(
    toy: Toy, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(toy, here, A)
    tree = here.work / "linux/one/make-a-tree"
    look = changes.fingerprint

    def late(path: Path) -> str:
        """What the walk over a tree meets whose directories go meanwhile."""
        monkeypatch.setattr(changes, "fingerprint", look)
        if path != tree:
            monkeypatch.setattr(changes, "fingerprint", late)
            return look(path)
        raise InvalidInput(f"cannot list {tree}/inside: No such file or directory")

    monkeypatch.setattr(changes, "fingerprint", late)
    do(toy, here, B)
    assert toy.done == [A, B]
    require_tree(tree)


def test_what_lies_here_already_is_sent_again_where_the_store_lost_it(
    toy: Toy, here: Machine, tmp_path: Path
) -> None:
    record = do(toy, here, A)
    (tmp_path / "store" / record.outputs[0].key).unlink()
    again = do(toy, here, A)
    assert toy.done == [A], "the local state knows that it is done"
    assert [output.sha256 for output in again.outputs] == [output.sha256 for output in record.outputs]


def test_files_that_were_changed_here_are_fetched_again(toy: Toy, here: Machine) -> None:
    do(toy, here, A)
    (here.work / "linux/one/make-a.txt").write_text("scribbled over")
    (here.work / "linux/one/make-a-tree/inside/copy.txt").unlink()
    do(toy, here, B)
    require_whole(here.work / "linux/one/make-a.txt")
    require_tree(here.work / "linux/one/make-a-tree")


def test_other_facts_give_another_record_and_the_one_asked_for_last_counts(
    toy: Toy, here: Machine, tmp_path: Path
) -> None:
    first = do(toy, here, A)
    toy.facts[A] = "another compiler"
    second = do(toy, here, A)
    assert first.inputs != second.inputs
    assert run_records(here.store, "7")[A] == second
    toy.facts.clear()
    assert do(toy, here, A).why == TAKEN
    assert run_records(here.store, "7")[A] == first
    assert toy.done == [A, A]


def test_a_failure_is_recorded_and_tried_again(toy: Toy, here: Machine, there: Machine) -> None:
    toy.broken[A] = failure("a.hip:1: no such thing")
    with pytest.raises(CommandFailed):
        do(toy, here, A)
    record = run_records(here.store, "7")[A]
    assert record.state == "failed" and "a.hip:1: no such thing" in record.why
    skipped = do(toy, there, B)
    assert (skipped.state, skipped.why) == ("skipped", f"{A} failed")
    assert run_records(here.store, "7")[B] == skipped
    toy.broken.clear()
    assert do(toy, there, A).state == "done"
    assert run_records(here.store, "7")[A].state == "done"
    assert do(toy, here, B).state == "done"
    assert run_records(here.store, "7")[B].state == "done"


def test_a_cell_that_the_plan_leaves_out_says_why(toy: Toy, here: Machine) -> None:
    record = do(toy, here, "tested/linux/two")
    assert (record.state, record.why) == ("skipped", "no runner has such a GPU")
    assert toy.done == []


def test_no_secret_gets_into_a_record(
    toy: Toy, here: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    toy.broken[A] = failure("curl https://me:pass@host/ with hunter2hunter2")
    with pytest.raises(CommandFailed):
        do(toy, here, A)
    text = run_records(here.store, "7")[A].why
    assert "hunter2" not in text and "me:pass" not in text and "***" in text


def test_of_two_that_end_at_once_the_first_record_stands(toy: Toy, here: Machine, there: Machine) -> None:
    overtaken: list[Record] = []

    def during(_: object) -> None:
        toy.during = lambda _: None
        # As if the lease had expired: the other machine does not wait for ours.
        for lease in here.store.list("_leases/"):
            here.store.delete(lease.key)
        overtaken.append(do(toy, there, A))

    toy.during = during
    said: list[str] = []
    record = do(toy, here, A, said)
    assert record == overtaken[0]
    assert any("its result is kept" in line for line in said)
    do(toy, here, B)
    assert (here.work / "linux/one/make-a.txt").read_bytes() == (
        there.work / "linux/one/make-a.txt"
    ).read_bytes()


def test_writing_a_record_twice_keeps_the_first(toy: Toy, here: Machine) -> None:
    first = do(toy, here, A)
    second = msgspec.structs.replace(first, summary="another")
    assert write_record(here.store, "7", second) == first


def test_a_store_that_is_a_file_is_named_and_nothing_is_begun(
    toy: Toy, here: Machine, tmp_path: Path
) -> None:
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(RocwrightError):
        do(toy, here, A)
    assert toy.done == []


def test_a_store_that_vanishes_meanwhile_loses_nothing_here(toy: Toy, here: Machine, tmp_path: Path) -> None:
    def during(_: object) -> None:
        (tmp_path / "store").rename(tmp_path / "gone")
        (tmp_path / "store").write_text("no folder")

    toy.during = during
    with pytest.raises(RocwrightError):
        do(toy, here, A)
    toy.during = lambda _: None
    (tmp_path / "store").unlink()
    (tmp_path / "gone").rename(tmp_path / "store")
    assert do(toy, here, A).state == "done"
    assert toy.done == [A], "the step's own result was kept"


def test_outputs_outside_of_the_run_are_refused(toy: Toy, here: Machine, tmp_path: Path) -> None:
    elsewhere = machine(tmp_path, "elsewhere", tmp_path / "store")

    def steps_of(cell, plan, where):
        return toy.steps_of(cell, plan, elsewhere)

    with pytest.raises(TypeError, match="no other machine can have it"):
        act(PLAN, PLAN.cell(A), here, lambda _: None, steps_of=steps_of)
