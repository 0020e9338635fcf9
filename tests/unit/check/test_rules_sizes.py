"""Budgets and growth, and what they are compared with."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from set_facts import LINUX, contract, sdist, split, wheel

from rocwright.check.context import Request
from rocwright.check.contract import ContractTable, PackageRow
from rocwright.check.facts import CodeFile, ElfFacts, Facts, KpackFacts
from rocwright.check.report import (
    FileSizes,
    Report,
    SizeTable,
    changes,
    parse_sizes,
    read_sizes,
    size_key,
    sizes_of,
)
from rocwright.check.rules import RULES
from rocwright.check.run import check_paths, judge
from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.sets import FileEntry, canonical_json, new_set

MB = 1_000_000
TORCH = "torch cp311-cp311-linux_x86_64"


def with_code(**sizes: int) -> ElfFacts:
    return ElfFacts("torch/lib/libtorch_hip.so", targets=frozenset(sizes), code_sizes=sizes)


def report(*files: Facts, previous: SizeTable | None = None, rows: tuple[PackageRow, ...] = ()) -> Report:
    table = contract()
    return judge(
        files,
        request=Request(previous=previous),
        contract=ContractTable((*table.package, *rows), growth=0.03, small_growth=MB),
        rules=[rule for rule in RULES if rule.id.startswith("size-")],
        set_rules=(),
    )


def causes(*files: Facts, **options: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.cause) for finding in report(*files, **options).findings]


def before(size: int, **targets: int) -> SizeTable:
    return SizeTable({TORCH: FileSizes(size, targets)})


def test_a_file_above_its_budget_tells_both_figures() -> None:
    rows = (PackageRow(("torch",), budget=400 * MB),)
    assert causes(wheel("torch", size=400 * MB), rows=rows) == []
    assert causes(wheel("torch", size=401 * MB), rows=rows) == [
        ("size-budget", "it has 401.0 MB, its budget is 400.0 MB")
    ]


def test_the_built_in_budgets_hold_for_sdists_too() -> None:
    [(rule, _)] = causes(Facts(Path("rocm-7.tar.gz"), "sdist", size=2 * MB, project="rocm", version="7"))
    assert rule == "size-budget"
    assert causes(sdist("rocm")) == []


def test_the_code_of_a_target_has_a_budget_of_its_own() -> None:
    rows = (PackageRow(("torch",), target_budget=100 * MB),)
    files = wheel("torch", elf=[with_code(gfx90a=100 * MB, gfx942=120 * MB)])
    assert causes(files, rows=rows) == [
        ("size-budget", "its code for gfx942 has 120.0 MB, the budget of a target is 100.0 MB")
    ]


def test_growth_beyond_three_percent_tells_both_figures() -> None:
    assert causes(wheel("torch", size=103 * MB), previous=before(100 * MB)) == []
    assert causes(wheel("torch", size=104 * MB), previous=before(100 * MB)) == [
        ("size-growth", "it grew from 100.0 MB to 104.0 MB (+4.0%) since the previous set")
    ]


def test_little_growth_and_shrinking_are_no_findings() -> None:
    assert causes(wheel("torch", size=1_900_000), previous=before(900_000)) == []
    assert causes(wheel("torch", size=1_900_001), previous=before(900_000)) != []
    assert causes(wheel("torch", size=10 * MB), previous=before(900 * MB)) == []


def test_code_of_a_target_that_grew_while_another_went_is_seen() -> None:
    old = before(300 * MB, gfx803=100 * MB, gfx90a=100 * MB)
    new = wheel("torch", size=290 * MB, elf=[with_code(gfx90a=150 * MB)])
    assert causes(new, previous=old) == [
        ("size-growth", "its code for gfx90a grew from 100.0 MB to 150.0 MB (+50.0%) since the previous set")
    ]


def test_a_new_target_and_a_new_file_have_nothing_to_grow_from() -> None:
    new = wheel("torch", size=100 * MB, elf=[with_code(gfx90a=90 * MB, gfx942=90 * MB)])
    assert causes(new, previous=before(100 * MB, gfx90a=90 * MB)) == []
    assert causes(wheel("apex", size=900 * MB), previous=before(1)) == []


def test_another_version_is_compared_and_another_python_is_not() -> None:
    assert size_key("torch-2.9.0+rocm7.1-cp311-cp311-linux_x86_64.whl") == TORCH
    assert size_key("torch-2.8-cp311-cp311-linux_x86_64.whl") == TORCH
    assert size_key("torch-2.9-cp312-cp312-linux_x86_64.whl") == "torch cp312-cp312-linux_x86_64"
    assert size_key("My_Pkg-1-py2.py3-none-any.whl") == "my-pkg py2-none-any.py3-none-any"
    assert size_key("rocm-7.1.tar.gz") == "rocm sdist"
    assert size_key("what.whl") == "what.whl"


def test_code_is_counted_wherever_it_is() -> None:
    facts = wheel(
        "rocm-sdk-device-gfx90a",
        tag="py3-none-linux_x86_64",
        members={"a/.kpack/x_gfx90a.kpack": 500, "a/lib/k_gfx90a.co": 30, "a/lib/k.dat": 7},
        archives=[KpackFacts("a/.kpack/x_gfx90a.kpack", frozenset({"x"}), frozenset({"gfx90a"}))],
        code=[CodeFile("a/lib/k_gfx90a.co", "gfx90a", "gfx90a"), CodeFile("a/lib/k.dat")],
        elf=[ElfFacts("a/lib/x.so", code_sizes={"gfx90a": 4, "gfx942": 6}), split("s.so", "p", kernel="k")],
    )
    assert sizes_of([facts]).files["rocm-sdk-device-gfx90a py3-none-linux_x86_64"] == FileSizes(
        1000, {"gfx90a": 534, "gfx942": 6}
    )


def test_the_report_tells_sizes_and_what_changed() -> None:
    old = SizeTable({TORCH: FileSizes(90, {"gfx90a": 9, "gfx803": 1}), "apex x": FileSizes(7, {})})
    done = report(wheel("torch", size=100, elf=[with_code(gfx90a=10)]), sdist("rocm"), previous=old)
    assert done.sizes.files[TORCH] == FileSizes(100, {"gfx90a": 10})
    assert [(one.file, one.target, one.before, one.after) for one in done.changes] == [
        ("apex x", None, 7, None),
        ("rocm sdist", None, None, 1000),
        (TORCH, None, 90, 100),
        (TORCH, "gfx803", 1, None),
        (TORCH, "gfx90a", 9, 10),
        ("", "gfx803", 1, None),
        ("", "gfx90a", 9, 10),
    ]
    assert done.changes[2].growth == pytest.approx(1 / 9)
    assert done.changes[0].growth is None


def test_a_report_can_be_the_previous_set_and_so_can_a_manifest() -> None:
    done = report(wheel("torch", size=100, elf=[with_code(gfx90a=10)]))
    assert parse_sizes(msgspec.json.encode(done), where="x") == done.sizes
    assert parse_sizes(msgspec.json.encode(done.predicate()), where="x") == done.sizes
    entry = FileEntry("torch-2-cp311-cp311-linux_x86_64.whl", "a" * 64, 77, "torch", "2")
    manifest = new_set(family="f", targets=[], platform="linux", files=[entry], sources={})
    table = parse_sizes(canonical_json(manifest), where="x")
    assert table == SizeTable({TORCH: FileSizes(77)})
    # A manifest knows nothing of targets, so none is said to have come or gone.
    assert [(one.target, one.before, one.after) for one in changes(table, done.sizes)] == [(None, 77, 100)]


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff\xfe", b'{"sizes": 3}', b'{"files": {"a": 1}}'],
    ids=["empty", "empty object", "list", "no text", "sizes is a number", "unwrapped table"],
)
def test_a_previous_that_tells_no_sizes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(data)
    with pytest.raises(InvalidData, match=r"old\.json contains no sizes"):
        read_sizes(path)


def test_a_previous_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read no\.json"):
        check_paths([], previous=tmp_path / "no.json")
    with pytest.raises(InvalidInput, match="has no wheels to compare"):
        check_paths([], previous=tmp_path)


def test_at_the_door_with_a_directory_of_wheels(tmp_path: Path, build: Any) -> None:
    def save(folder: str, version: str, size: int) -> Path:
        build.folder = tmp_path / folder
        noise = random.Random(size).randbytes(size)  # which does not compress
        return build("apex", version, {"apex/x.bin": noise}, requires=["torch==2.9.0+rocm7.1"])

    old, new = save("old", "1", MB), save("new", "2", 3 * MB)
    done = check_paths([new], previous=old.parent)
    assert done.sizes.files[f"apex {LINUX}"].size == new.stat().st_size
    assert [(one.file, one.before, one.after) for one in done.changes] == [
        (f"apex {LINUX}", old.stat().st_size, new.stat().st_size)
    ]
    [cause] = [finding.cause for finding in done.findings if finding.rule == "size-growth"]
    assert cause == "it grew from 1.0 MB to 3.0 MB (+199.8%) since the previous set"
    assert not [one for one in check_paths([old], previous=new.parent).findings if one.rule == "size-growth"]


def test_the_code_in_a_real_library_is_counted_by_target(build: Any, library: Any) -> None:
    wheel_path = build.torch({"torch/lib/libtorch_hip.so": library(targets=("gfx90a", "gfx1030"))})
    # The bundle holds 64 bytes for each target.
    assert check_paths([wheel_path]).sizes == SizeTable(
        {TORCH: FileSizes(wheel_path.stat().st_size, {"gfx1030": 64, "gfx90a": 64})}
    )
