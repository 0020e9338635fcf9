"""What jobs ask of a cluster: defaults fit it, what somebody wrote is there or is an error."""

from __future__ import annotations

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import UsageError
from rocwright.model.workflows import Ask, SlurmTable
from rocwright.pipeline.render.cluster import Partition, SlurmMachine, fit_all, read_sinfo

# As sinfo 22.05 prints them; a machine is there once for each of its partitions.
SINFO = """\
Welcome to the cluster
main|main*|2|8000|gpu:1|infinite
main|main*|2|8000|gpu:1|infinite
mi300|mi300|96|1546000|gpu:mi300x:8(S:0-1)|2-00:00:00
cpu|cpu|64|257000|(null)|12:00:00
cpu|cpu|128|128000|(null)|12:00:00
short|short|64|257000+|(null)|30:00
"""
CLUSTER = read_sinfo(SINFO)
WISH = Ask(cpus=64, memory_gb=160, minutes=720)


def fixed(**limits) -> Ask:
    return msgspec.structs.replace(WISH, **limits, fixed=frozenset(limits))


def fit(ask: Ask) -> Ask:
    return fit_all({"build-torch/linux/g": ask}, CLUSTER)[0]["build-torch/linux/g"]


def why_not(ask: Ask) -> str:
    with pytest.raises(UsageError) as caught:
        fit_all({"summary": Ask(cpus=1), "build-torch/linux/g": ask}, CLUSTER)
    assert "a [[slurm.request]] with these ids" in str(caught.value.next_step)
    (line,) = caught.value.what.splitlines()[1:]
    return line.removeprefix("  build-torch/linux/g: ")


def test_partitions_are_read():
    assert {one.name: (one.default, one.minutes, len(one.nodes)) for one in CLUSTER} == {
        "main": (True, None, 2),
        "mi300": (False, 2880, 1),
        "cpu": (False, 720, 2),
        "short": (False, 30, 1),
    }
    assert CLUSTER[1].nodes == (SlurmMachine(96, 1509, "gpu:mi300x:8(S:0-1)"),)


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        # 32 times as long on a thirty-second of the processors.
        ("", (2, 7, 23040)),
        ("mi300", (64, 160, 720)),
        # The machine with the most of what is asked for: 64 processors and 250 GB, not 128 and 125.
        ("cpu", (64, 160, 720)),
        ("short", (64, 160, 30)),
        ("short,mi300", (64, 160, 720)),
    ],
)
def test_a_default_is_as_much_as_the_partition_has(partition, expected):
    found = fit(msgspec.structs.replace(WISH, partition=partition))
    assert (found.cpus, found.memory_gb, found.minutes) == expected


def test_what_was_made_less_is_told():
    _, told = fit_all({"a": WISH, "b": Ask(cpus=2, memory_gb=4, minutes=60)}, CLUSTER)
    assert told == ["a: cpus = 2 instead of 64, memory_gb = 7 instead of 160"]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (fixed(cpus=4), "cpus = 4 (partition main has machines with up to 2)"),
        (fixed(memory_gb=8), "memory_gb = 8 (partition main has machines with up to 7)"),
        (
            msgspec.structs.replace(fixed(minutes=31), partition="short"),
            "minutes = 31 (partition short has a limit of 30)",
        ),
        (
            msgspec.structs.replace(WISH, gpus="gpu:mi300x:1"),
            'gpus = "gpu:mi300x:1" (partition main has gpu:1)',
        ),
        (
            msgspec.structs.replace(WISH, gpus="gpu:2", partition="cpu"),
            'gpus = "gpu:2" (partition cpu has none)',
        ),
        (
            msgspec.structs.replace(fixed(cpus=128, memory_gb=200), partition="cpu"),
            "all of it on one machine (partition cpu has none with it)",
        ),
        (
            msgspec.structs.replace(WISH, partition="mi200"),
            'partition = "mi200" (there are: main mi300 cpu short)',
        ),
    ],
)
def test_what_somebody_wrote_is_there_or_nothing_is_made(ask, says):
    assert why_not(ask) == says


def test_a_number_that_is_there_is_left_as_it_was_written():
    found = fit(msgspec.structs.replace(fixed(cpus=2, minutes=5), gpus="gpu:1"))
    assert (found.cpus, found.memory_gb, found.minutes, found.gpus) == (2, 7, 5, "gpu:1")


def test_a_partition_among_the_options_is_not_looked_at():
    ask = msgspec.structs.replace(fixed(cpus=4), options=("--partition=elsewhere",))
    assert fit(ask) == ask


def test_a_cluster_without_a_default_partition_wants_one_named():
    with pytest.raises(UsageError, match=r"no partition is named, and none is the default \(there are: x\)"):
        fit_all({"a": WISH}, [Partition("x", False, None, (SlurmMachine(2, 7),))])


def test_every_default_is_a_wish_and_a_row_of_ones_own_is_not():
    built_in = load_table("slurm", SlurmTable)
    assert built_in.asked(["build-torch/linux/g"]).fixed == frozenset()
    text = '[[slurm.request]]\nids = ["build-torch/*"]\ncpus = 32\n'
    own = load_table("slurm", SlurmTable, parse_overlay(text, where="rocwright.toml"))
    assert own.asked(["build-torch/linux/g"]).fixed == {"cpus"}
    again = text + '[[slurm.request]]\nids = ["build-torch/*"]\ncpus = 32\nfit = true\n'
    own = load_table("slurm", SlurmTable, parse_overlay(again, where="rocwright.toml"))
    assert own.asked(["build-torch/linux/g"]).fixed == frozenset()


def test_the_miniature_asks_for_little():
    asked = load_table("slurm", SlurmTable).asked(["build-torch/linux/g"], "miniature")
    assert (asked.cpus, asked.memory_gb, asked.minutes) == (2, 4, 60)
