"""A built wheel states the exact requirements of its build; nothing else in it changes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from fat_wheels import content, write
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.builder.pins import environment_of, give_local_version, pinned, require_pins
from rocwright.errors import InvalidWheel, UsageError
from rocwright.wheel.read import open_wheel
from wheels import record_digest, write_wheel

NAME = "torchvision-0.24.0+rocm7.1-cp311-cp311-linux_x86_64.whl"
INFO = "torchvision-0.24.0+rocm7.1.dist-info"
PIN = "torch==2.9.1+rocm7.1"


def metadata(*requires: str, end: str = "\n") -> bytes:
    lines = ["Metadata-Version: 2.1", "Name: torchvision", "Version: 0.24.0+rocm7.1"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    lines += ["Provides-Extra: old", "", "Requires-Dist: torch, says the description.", ""]
    return end.join(lines).encode()


def wheel(directory: Path, *requires: str, name: str = NAME, **options: object) -> Path:
    members = {"torchvision/__init__.py": b"x = 1\n" * 500, "torchvision/_C.so": bytes(range(256)) * 40}
    return write(directory, members, filename=name, metadata=metadata(*requires), **options)


def required(path: Path) -> list[str]:
    return content(path).headers("Requires-Dist")


@pytest.mark.parametrize(
    ("present", "pins", "expected"),
    [
        pytest.param(["numpy"], [PIN], ["numpy", PIN], id="added"),
        pytest.param(["torch", "numpy"], [PIN], [PIN, "numpy"], id="looser"),
        pytest.param(["Torch>=2,<3"], [PIN], ["Torch==2.9.1+rocm7.1"], id="other-spelling"),
        pytest.param(["torch==2.9.1"], [PIN], [PIN], id="without-local-part"),
        pytest.param(["torch @ https://example.org/t.whl"], [PIN], [PIN], id="url"),
        pytest.param(
            ["rocm[libraries]"], ["rocm[devel]==7.1"], ["rocm[devel,libraries]==7.1"], id="extras-of-both"
        ),
        pytest.param(["torch>=2", "torch<3"], [PIN], [PIN], id="twice"),
        pytest.param(
            ['torch>=2; sys_platform == "linux"'],
            [PIN],
            ['torch==2.9.1+rocm7.1; sys_platform == "linux"'],
            id="marker-kept",
        ),
        pytest.param(
            ['torch>=2; sys_platform == "win32"'],
            [PIN],
            ['torch>=2; sys_platform == "win32"', PIN],
            id="marker-of-elsewhere",
        ),
        pytest.param(
            ['torch>=2; python_version < "3.11"'],
            [PIN],
            ['torch>=2; python_version < "3.11"', PIN],
            id="marker-of-another-python",
        ),
        pytest.param(
            ['torch<2; extra == "old"'],
            [PIN],
            ['torch==2.9.1+rocm7.1; extra == "old"', PIN],
            id="extra",
        ),
        pytest.param(
            ["torch"], [PIN, "triton==3.5"], [PIN, "triton==3.5"], id="two-pins"
        ),
    ],
)  # fmt: skip
def test_requirements(tmp_path: Path, present: list[str], pins: list[str], expected: list[str]) -> None:
    path = wheel(tmp_path, *present)
    assert require_pins(path, pins) == path
    assert required(path) == expected
    assert content(path).text("METADATA").endswith("\n\nRequires-Dist: torch, says the description.\n")
    assert require_pins(path, pins) is None, "it says so now"


@pytest.mark.parametrize("present", [[PIN], ["torch == 2.9.1+rocm7.1"], [f'{PIN}; os_name == "posix"']])
def test_what_is_stated_already_leaves_the_file_alone(tmp_path: Path, present: list[str]) -> None:
    path = wheel(tmp_path, *present)
    before = path.read_bytes()
    assert require_pins(path, [PIN]) is None and require_pins(path, []) is None
    assert path.read_bytes() == before


def test_only_metadata_and_record_change(tmp_path: Path) -> None:
    path = wheel(tmp_path, "torch")
    os.link(path, tmp_path / "linked")
    before = packed(path)
    require_pins(path, [PIN])
    after = packed(path)
    assert {name for name in before if before[name] != after[name]} == {f"{INFO}/METADATA", f"{INFO}/RECORD"}
    assert set(before) == set(after)
    assert required(tmp_path / "linked") == ["torch"], "a file is replaced, never written into"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["linked", NAME]


def packed(path: Path) -> dict[str, tuple[int, bytes, int]]:
    """Method, bytes as stored and mode of each member, read at the place that its header names."""
    data, found = path.read_bytes(), {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            at = info.header_offset
            names, extra = (int.from_bytes(data[at + k : at + k + 2], "little") for k in (26, 28))
            start = at + 30 + names + extra
            stored = data[start : start + info.compress_size]
            found[info.filename] = (info.compress_type, stored, info.external_attr)
    return found


def test_equal_wheels_stay_equal_wherever_they_are(tmp_path: Path) -> None:
    one, other = wheel(tmp_path / "one", "torch"), wheel(tmp_path / "other", "torch")
    require_pins(one, [PIN])
    require_pins(other, [PIN])
    assert one.read_bytes() == other.read_bytes()


def test_line_ends_of_the_metadata_stay(tmp_path: Path) -> None:
    members = {"torchvision/__init__.py": b""}
    path = write(tmp_path, members, filename=NAME, metadata=metadata("torch", "numpy", end="\r\n"))
    require_pins(path, [PIN, "triton==3.5"])
    text = content(path).text("METADATA")
    assert f"\r\nRequires-Dist: {PIN}\r\nRequires-Dist: numpy\r\n" in text
    assert text.count("\n") == text.count("\r\n")


def test_a_wheel_for_windows_is_pinned_for_windows(tmp_path: Path) -> None:
    name = NAME.replace("linux_x86_64", "win_amd64")
    path = wheel(tmp_path, 'torch; sys_platform == "win32"', 'triton; sys_platform == "linux"', name=name)
    require_pins(path, [PIN])
    assert required(path) == [
        'torch==2.9.1+rocm7.1; sys_platform == "win32"',
        'triton; sys_platform == "linux"',
    ]


def test_a_member_without_digest_gets_one(tmp_path: Path) -> None:
    path = wheel(tmp_path, "torch", record={"torchvision/_C.so": None})
    require_pins(path, [PIN])
    assert f"torchvision/_C.so,{record_digest(bytes(range(256)) * 40)},10240" in content(path).text("RECORD")


def test_what_cannot_be_pinned_stays_as_it_is(tmp_path: Path) -> None:
    path = wheel(tmp_path, "torch", record={"torchvision/_C.so": f"torchvision/_C.so,{record_digest(b'')},0"})
    before = path.read_bytes()
    with pytest.raises(InvalidWheel, match=r"RECORD of .* contradicts the archive about torchvision/_C\.so"):
        require_pins(path, [PIN])
    with pytest.raises(UsageError, match="'torch=2' is not a requirement"):
        require_pins(path, ["torch=2"])
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == [NAME]
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(InvalidWheel):
        require_pins(path, [PIN])


# -- any METADATA


_NAMES = st.sampled_from(["torch", "Torch", "TORCH", "torch-vision", "torch_geometric", "to.rch", "numpy"])
_EXTRAS = st.sampled_from(["", "[opt]", "[opt,other]", " [ opt ]"])
_VERSIONS = st.sampled_from(
    ["", ">=2", " (>=2,<3)", "==2.9.1", " == 2.9.1+rocm7.1", "~=2.9.0", " @ https://example.org/a%20b.whl"]
)
_MARKERS = st.sampled_from(
    [
        "",
        'sys_platform == "linux"',
        "sys_platform == 'win32'",
        'python_version < "3.9"',
        'extra == "old"',
        'extra == "old" and sys_platform == "linux"',
        'platform_machine == "x86_64" or os_name == "nt"',
    ]
)
_LINES = st.builds(
    lambda name, extras, version, marker: f"{name}{extras}{version}" + (f" ; {marker}" if marker else ""),
    _NAMES,
    _EXTRAS,
    _VERSIONS,
    _MARKERS,
)
_KEYS = st.sampled_from(["Requires-Dist: ", "requires-dist:", "Requires-Dist:   ", "REQUIRES-DIST: "])
_BODY = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=80)


@settings(max_examples=100)
@given(
    requires=st.lists(st.tuples(_KEYS, _LINES, st.booleans()), max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
    body=st.one_of(st.none(), _BODY),
    pin=st.sampled_from([PIN, "torch[new]==2.9.1+rocm7.1", "Torch == 2.9.1+rocm7.1"]),
)
def test_any_metadata(requires: list[tuple[str, str, bool]], end: str, body: str | None, pin: str) -> None:
    shown = [key + (text.replace(" ", f"{end}\t", 1) if fold else text) for key, text, fold in requires]
    kept = ["Metadata-Version: 2.1", "Name: x", "Version: 1", "Summary: Grüße,", "  auf zwei Zeilen"]
    before = end.join([*kept, *shown, "Provides-Extra: old", ""])
    rest = "" if body is None else end + body
    wanted = Requirement(pin)
    environment = environment_of(frozenset({"cp311-cp311-linux_x86_64"}))
    after = pinned((before + rest).encode(), [wanted], environment)

    assert after.endswith(rest.encode()) and after.startswith(end.join(kept).encode())
    assert pinned(after, [wanted], environment) == after
    head = after[: len(after) - len(rest.encode())].decode()
    assert head.count("\n") == head.count(end) and f"{end}Provides-Extra: old{end}" in head
    found = [Requirement(" ".join(text.split())) for text in parse_email(after)[0].get("requires_dist", [])]

    def of_torch(one: Requirement) -> bool:
        return canonicalize_name(one.name) == "torch"

    def holds(one: Requirement) -> bool:
        return one.marker is None or one.marker.evaluate({**environment, "extra": ""})

    given_ones = [Requirement(text) for _, text, _ in requires]
    assert [one for one in found if not of_torch(one)] == [one for one in given_ones if not of_torch(one)]
    in_force = [one for one in found if of_torch(one) and holds(one)]
    assert in_force
    for one in in_force:
        assert (one.specifier, one.url) == (wanted.specifier, None)
        assert wanted.extras <= one.extras
    asked = {extra for one in given_ones if of_torch(one) and holds(one) for extra in one.extras}
    assert asked <= {extra for one in in_force for extra in one.extras}


def test_a_wheel_gets_the_local_version(tmp_path: Path) -> None:
    files = {"tiny/__init__.py": "", "tiny-1.2+cu121.data/scripts/tiny": "#!python\n"}
    path = write_wheel(tmp_path, "tiny", "1.2+cu121", files, requires=("torch",))
    before = open_wheel(path)
    made = give_local_version(path, "+rocm7.10.0")
    assert made.name == "tiny-1.2+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
    assert [each.name for each in tmp_path.iterdir()] == [made.name]
    wheel = open_wheel(made)
    assert (wheel.metadata.version, wheel.dist_info) == ("1.2+rocm7.10.0", "tiny-1.2+rocm7.10.0.dist-info")
    assert "tiny-1.2+rocm7.10.0.data/scripts/tiny" in wheel.member
    assert {row.path for row in wheel.record} == set(wheel.member)
    digests = {row.path: row.sha256 for row in before.record}
    assert {row.path: row.sha256 for row in wheel.record}["tiny/__init__.py"] == digests["tiny/__init__.py"]
    assert wheel.metadata.requires_dist == ("torch",)
    # It has it: nothing is written.
    facts = made.stat()
    assert give_local_version(made, "+rocm7.10.0") == made
    assert made.stat() == facts
