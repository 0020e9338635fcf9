"""Parts that do not belong together: refused with file, place and both values; nothing is written."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from fat_wheels import FILENAME, METADATA, write

from needs import needs
from oracle.fat_library import build_library, bundle, code_object
from rocwright.cli import main
from rocwright.device_code.merge_parts import Part, merge_parts
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import InvalidInput, InvalidWheel, RocwrightError, UsageError

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

LIBRARY = "torch/lib/libfat.so"


def code(target: str, salt: str = "") -> bytes:
    """A code object of about two pages."""
    return code_object(0x3F, random.Random(f"{target}{salt}").randbytes(9000))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Gives libraries with device code for these targets: host code with a text, and two units."""
    place = tmp_path_factory.mktemp("libraries")
    made: dict[object, bytes] = {}

    def build(
        *targets: str, text: str = "the same", salt: str = "", units: int = 2, symbol: str = "one"
    ) -> bytes:
        key = (targets, text, salt, units, symbol)
        if key not in made:
            bundles = [bundle([(t, code(t, f"{salt}{n}")) for t in targets]) for n in range(units)]
            asm = f'.section .rodata\nhost_text: .asciz "{text}"\n{symbol}: .byte 7\n'
            made[key] = build_library(
                place / str(len(made)),
                bundles=bundles,
                name="libfat.so",
                extra_asm=asm,
                ldflags=["-Wl,-soname,libfat.so"],
            ).read_bytes()
        return made[key]

    return build


def part(place: Path, library: bytes, more: Mapping[str, bytes] | None = None, **how: object) -> Path:
    members = {"torch/version.py": b"git_version = 'abc'\n", LIBRARY: library, **(more or {})}
    return write(place / "dist", members, **how)


def refused(
    parts: list[Path], out: Path, kind: type[RocwrightError] = InvalidInput, **options: object
) -> RocwrightError:
    """The error of a merge, which leaves nothing behind."""
    before = {path: path.read_bytes() for path in parts}
    with pytest.raises(kind) as caught:
        merge_parts([Part(path) for path in parts], out, **options)
    assert not out.exists()
    assert {path: path.read_bytes() for path in parts} == before
    return caught.value


def test_changed_host_code_is_named_by_file_section_offset_and_values(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a", text="compiled here"))
    two = part(tmp_path / "two", library("gfx942", text="compiled HERE"))
    error = refused([one, two], tmp_path / "out")
    assert f"{LIBRARY}: .rodata+0x" in error.what
    assert "'compiled here' and 'compiled HERE'" in error.what
    assert error.where == str(two) and "--device-part" in (error.next_step or "")


def test_a_target_list_in_host_code_is_shown_where_it_begins_to_differ(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a", text="gfx90a"))
    two = part(tmp_path / "two", library("gfx942", text="gfx942 gfx1100"))
    error = refused([one, two], tmp_path / "out")
    assert "bytes, here 'gfx90a' and" in error.what and "here 'gfx942 gfx1100'" in error.what


def test_of_a_long_text_so_much_is_shown_as_fits_a_line(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a", text="a" * 97))
    two = part(tmp_path / "two", library("gfx942", text="b" * 96 + "."))
    error = refused([one, two], tmp_path / "out")
    assert f"'{'a' * 96}…' and '{'b' * 96}…'" in error.what


def test_names_hashed_out_of_a_units_id_matter_only_where_a_program_sees_them(
    library, tmp_path: Path
) -> None:
    # Stand-ins for what newer clang makes: a local symbol, and a name in host code.
    one = part(tmp_path / "one", library("gfx90a", symbol="__hip_cuid_0123abcd"))
    two = part(tmp_path / "two", library("gfx942", symbol="__hip_cuid_4567cdef"))
    assert merge_parts([Part(one), Part(two)], tmp_path / "good").objects == 4
    other = part(tmp_path / "other", library("gfx942", symbol="another"))
    refused([one, other], tmp_path / "out")
    seen = [
        part(tmp_path / target, library(target, text=f"__hip_cuid_{number}"))
        for target, number in (("gfx1030", "0123"), ("gfx1100", "4567"))
    ]
    error = refused(seen, tmp_path / "out")
    assert "'__hip_cuid_0123' and '__hip_cuid_4567'" in error.what
    assert "fixed -cuid" in (error.next_step or "")


def test_all_files_that_differ_are_named_at_once(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a", text="aaaa"), {"torch/a.py": b"one = 1\nx = 1\n"})
    members = {
        "torch/a.py": b"one = 1\nx = 2\n",
        "torch/b.py": b"",
        "torch/version.py": b"git_version = 'def'\n",
    }
    two = part(tmp_path / "two", library("gfx942", text="bbbb"), members)
    lines = refused([one, two], tmp_path / "out").what.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "torch/a.py",
        "torch/b.py",
        LIBRARY,
        "torch/version.py",
    ]
    assert "byte +0xc: 'x = 1' and 'x = 2'" in lines[1]
    assert f"only in {two.parent}" in lines[2]
    assert "\"git_version = 'abc'\" and \"git_version = 'def'\"" in lines[4]


def test_a_target_in_two_parts_has_to_have_the_same_code(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a", "gfx942"))
    two = part(tmp_path / "two", library("gfx942", "gfx1100"))
    done = merge_parts([Part(one), Part(two)], tmp_path / "good")
    assert (done.objects, done.shared) == (6, 2)
    other = part(tmp_path / "other", library("gfx942", "gfx1100", salt="another compiler"))
    error = refused([one, other], tmp_path / "out")
    assert f"{LIBRARY}: two parts have different code for gfx942 of wrapper 0" in error.what


def test_a_forgotten_part_and_one_with_other_targets(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    two = part(tmp_path / "two", library("gfx942"))
    error = refused([one, two], tmp_path / "out", targets=["gfx90a", "gfx942", "gfx1100"])
    assert error.what == "no part has device code for gfx1100"
    with pytest.raises(InvalidInput, match=r"two/dist/.* has no device code for gfx1100"):
        merge_parts([Part(one), Part(two, ("gfx1100",))], tmp_path / "out")


def test_features_of_a_target_do_not_make_it_another(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a:xnack-"))
    two = part(tmp_path / "two", library("gfx942"))
    done = merge_parts([Part(one, ("gfx90a",)), Part(two)], tmp_path / "out", targets=["gfx90a", "gfx942"])
    assert done.targets == ("gfx90a:xnack-", "gfx942")


def test_a_part_without_device_code(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    two = write(tmp_path / "two", {"torch/version.py": b"", LIBRARY: b"text"})
    assert refused([one, two], tmp_path / "out").what == f"{two} has no device code"


def test_another_number_of_units(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    two = part(tmp_path / "two", library("gfx942", units=3))
    assert ".hipFatBinSegment+0x" in refused([one, two], tmp_path / "out").what


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mini_torch-2.9.2+rocm7.1-cp311-cp311-linux_x86_64.whl", "another version, 2.9.2+rocm7.1"),
        ("mini_torch-2.9.1+rocm7.2-cp311-cp311-linux_x86_64.whl", "another version, 2.9.1+rocm7.2"),
        ("mini_torch-2.9.1+rocm7.1-cp312-cp312-linux_x86_64.whl", "another Python or platform, cp312-cp312"),
    ],
)
def test_parts_of_different_builds(name: str, said: str, library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    version = name.split("-")[1].encode()
    metadata = METADATA.replace(b"Version: 2.9.1+rocm7.1", b"Version: " + version)
    two = part(tmp_path / "two", library("gfx942"), filename=name, metadata=metadata)
    assert said in refused([one, two], tmp_path / "out").what


def test_a_part_that_was_split(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    two = part(tmp_path / "two", library("gfx942"))
    split_wheel(two, tmp_path / "split")
    error = refused([one, tmp_path / "split" / two.name], tmp_path / "out")
    assert "was split" in error.what and "merge the parts as they were built" in (error.next_step or "")


def test_damaged_wheels(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    rows: dict[str, str | None] = {"torch/version.py": f"torch/version.py,sha256={'A' * 43},20"}
    two = part(tmp_path / "two", library("gfx942"), record=rows)
    refused([one, two], tmp_path / "out", InvalidWheel)
    cut = tmp_path / "cut" / FILENAME
    cut.parent.mkdir()
    cut.write_bytes(one.read_bytes()[:-400])
    refused([one, cut], tmp_path / "out", RocwrightError)


def test_nothing_twice_nothing_replaced(library, tmp_path: Path) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    for parts, out in (([], "out"), ([one, one], "out"), ([one], "one/dist")):
        with pytest.raises(UsageError):
            merge_parts([Part(path) for path in parts], tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]


def test_files_of_a_target_come_from_its_part(library, tmp_path: Path) -> None:
    kernels = {f"torch/lib/rocblas/library/Kernels_{t}.hsaco": t.encode() for t in ("gfx90a", "gfx942")}
    names = sorted(kernels)
    one = part(tmp_path / "one", library("gfx90a"), {names[0]: kernels[names[0]]})
    two = part(tmp_path / "two", library("gfx942"), {names[1]: kernels[names[1]]})
    done = merge_parts([Part(one), Part(two)], tmp_path / "out")
    assert done.files == 1
    with zipfile.ZipFile(done.path) as archive:
        assert {name: archive.read(name) for name in names} == kernels


def run(*words: str) -> int | str | None:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def test_at_the_door(library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = part(tmp_path / "one", library("gfx90a"))
    two = part(tmp_path / "two", library("gfx942"))
    words = ["wheel", "merge-parts", str(one), str(two), "--output-dir", str(tmp_path / "out")]
    assert run(*words, "--targets", "gfx90a,gfx942", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["targets"] == ["gfx90a", "gfx942"] and report["objects"] == 4
    assert Path(report["path"]).is_file()
    assert run(*words[:3], str(tmp_path / "none.whl")) == 2
    assert f"{tmp_path / 'none.whl'} is not a file" in capsys.readouterr().err
