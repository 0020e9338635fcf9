"""`rocwright wheel show`: what a wheel is, as a table and as JSON."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from command_line import Run
from oracle.fat_library import build_library, bundle, code_object
from wheels import TAG, variants, write_variant, write_wheel

# Headers of 64 bytes and what follows them; 0x3F and 0x4C are the machine numbers of the two targets.
GFX90A = code_object(0x3F, bytes(936))
GFX942 = code_object(0x4C, bytes(1936))
INFO = "fat-1.0.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two code objects for one target, one for another, and a library that only needs others."""
    folder = tmp_path_factory.mktemp("show")
    entries = [bundle([("gfx90a", GFX90A), ("gfx942", GFX942)]), bundle([("gfx90a", GFX90A)])]
    fat = build_library(folder / "fat", bundles=entries, ldflags=["-Wl,-soname,libfat.so.1"])
    (folder / "plain.c").write_text("double cos(double); double f(double x) { return cos(x); }\n")
    flags = ["-Wl,-soname,libplain.so.2", "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lib"]
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "plain.c", "-o", "libplain.so", *flags, "-lm"], cwd=folder, check=True
    )
    return write_wheel(
        folder,
        "fat",
        "1.0",
        {
            "fat/__init__.py": "x" * 5000,
            "fat/libfat.so": fat.read_bytes(),
            "fat/libplain.so": (folder / "libplain.so").read_bytes(),
            f"{INFO}/licenses/LICENSE": "do what you want",
            f"{INFO}/sboms/fat.cdx.json": "{}",
        },
        requires=["rocm[libraries]==7.10.0", 'numpy; extra == "all"'],
    )


@pytest.fixture
def show(rocwright: Run) -> Run:
    """`rocwright wheel show …`."""
    return partial(rocwright, "wheel", "show")


def test_json_says_what_the_wheel_is(show: Run, wheel: Path) -> None:
    code, out, err = show(wheel, "--json")
    assert (code, err) == (0, "")
    (about,) = json.loads(out)["wheels"]
    assert about["file"] == f"fat-1.0-{TAG}.whl"
    assert (about["name"], about["version"], about["tags"]) == ("fat", "1.0", [TAG])
    assert about["size"] == wheel.stat().st_size
    assert about["members"] == 8
    assert about["requires"] == ["rocm[libraries]==7.10.0", 'numpy; extra == "all"']
    assert about["licences"] == [f"{INFO}/licenses/LICENSE"]
    assert about["sboms"] == [f"{INFO}/sboms/fat.cdx.json"]
    assert about["problems"] == []


def test_device_code_is_counted_by_library_and_target(show: Run, wheel: Path) -> None:
    (about,) = json.loads(show(wheel, "--json")[1])["wheels"]
    expected = {"gfx90a": {"objects": 2, "bytes": 2000}, "gfx942": {"objects": 1, "bytes": 2000}}
    assert about["code"] == expected
    by_member = {one["member"]: one for one in about["compiled"]}
    assert by_member["fat/libfat.so"]["code"] == expected
    assert by_member["fat/libplain.so"]["code"] == {}


def test_a_library_s_needs_and_search_path_are_shown(show: Run, wheel: Path) -> None:
    (about,) = json.loads(show(wheel, "--json")[1])["wheels"]
    plain = next(one for one in about["compiled"] if one["member"] == "fat/libplain.so")
    assert (plain["soname"], plain["rpath"], plain["runpath"]) == ("libplain.so.2", "$ORIGIN/lib", None)
    assert "libm.so.6" in plain["needed"]
    assert plain["glibc"].startswith("2.") and plain["glibcxx"] is None
    assert about["glibc"] is not None


def test_the_largest_members_stand_first(show: Run, wheel: Path) -> None:
    (about,) = json.loads(show(wheel, "--json")[1])["wheels"]
    sizes = [one["size"] for one in about["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    text = next(one for one in about["largest"] if one["member"] == "fat/__init__.py")
    assert text["size"] == 5000 and text["packed"] < 100


def test_the_table_says_the_same(show: Run, wheel: Path) -> None:
    code, out, _ = show(wheel)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == wheel.name
    for line in (
        "  name        fat 1.0",
        f"  tags        {TAG}",
        "  requires    rocm[libraries]==7.10.0",
        '              numpy; extra == "all"',
        "    RPATH    $ORIGIN/lib",
        "    code     gfx90a 2.0 kB (2), gfx942 2.0 kB (1)",
    ):
        assert line in lines
    library = next(line.split("  ") for line in lines if line.startswith("  fat/libplain.so  "))
    assert library[3:] == ["shared object", "libplain.so.2"]
    assert ["gfx90a", "2", "2.0", "kB"] in [line.split() for line in lines]


def test_several_wheels_are_shown_one_after_the_other(show: Run, wheel: Path) -> None:
    plain = write_wheel(Path("dist"), "plain", "1.0", {"plain.py": ""}, tag="py3-none-any")
    _, out, _ = show(wheel, plain)
    assert out.index(wheel.name) < out.index(plain.name)
    assert [one["file"] for one in json.loads(show(wheel, plain, "--json")[1])["wheels"]] == [
        wheel.name,
        plain.name,
    ]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ((), 2, "nothing to show"),
        (("nowhere.whl",), 2, "nowhere.whl is not a file"),
        (("rocm-1.0.tar.gz",), 2, "rocm-1.0.tar.gz is not a wheel"),
        (("zeros-1.0-py3-none-any.whl",), 3, "zeros-1.0-py3-none-any.whl"),
        (("badname.whl",), 3, "badname.whl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_no_wheel_is_refused(show: Run, words: tuple[str, ...], code: int, named: str) -> None:
    for name in ("rocm-1.0.tar.gz", "zeros-1.0-py3-none-any.whl", "badname.whl"):
        Path(name).write_bytes(bytes(1000))
    ended, out, err = show(*words)
    assert (ended, out) == (code, "")
    assert named in err


def test_a_variant_is_shown_with_who_tells_its_properties(show: Run, tmp_path: Path) -> None:
    path = write_variant(tmp_path, "lynx", "1.0", "sharp", {"amd": {"gfx_arch": ["gfx90a", "gfx942"]}})
    shown = show(path).out
    assert "variant     sharp\n" in shown
    assert "amd :: gfx_arch :: gfx90a or gfx942, told by rocm-bootstrap\n" in shown
    (about,) = json.loads(show(path, "--json").out)["wheels"]
    assert about["variant"] == {
        "label": "sharp",
        "properties": {"amd": {"gfx_arch": ["gfx90a", "gfx942"]}},
        "providers": {"amd": "rocm-bootstrap"},
    }
    assert about["tags"] == [TAG]
    null = write_variant(tmp_path, "lynx", "1.0", "null", {})
    assert "variant     null, for any machine\n" in show(null).out


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        (None, "its name says that it is the variant sharp, and it has no variant.json"),
        ("{", "variant.json does not state variants in a form that is known"),
        (variants({"blunt": {"amd": {"gfx_arch": ["gfx90a"]}}}), "its variant.json does not state sharp"),
    ],
    ids=["nothing", "damaged", "another"],
)
def test_what_keeps_a_wheel_from_being_its_variant_is_shown(
    show: Run, tmp_path: Path, stated: object, problem: str
) -> None:
    path = write_variant(tmp_path, "lynx", "1.0", "sharp", {}, stated=stated)
    code, out, _ = show(path)
    assert code == 0
    assert f"problem     {problem}" in out
    assert "variant     sharp, for which machines is unknown\n" in out
    (about,) = json.loads(show(path, "--json").out)["wheels"]
    assert about["variant"]["properties"] is None


def test_of_a_plain_wheel_no_variant_is_told(show: Run, wheel: Path) -> None:
    assert "variant" not in show(wheel).out
    (about,) = json.loads(show(wheel, "--json").out)["wheels"]
    assert about["variant"] is None
