"""Split wheels merged again: sets of several builds, and one wheel for a family, read back independently."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fat_wheels import ALPHA, BETA, GAMMA, METADATA, VERSION, content, fat_bytes, usual
from fat_wheels import write as write_fat

from command_line import status
from oracle import loader
from rocwright.device_code.verify.verify import verify
from rocwright.device_code.wheel.merge import MergedWheel, WheelMerge, merge_wheels
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import InvalidInput, InvalidWheel, UsageError
from rocwright.wheel.read import open_wheel, verify_record

TAG = "py3-none-linux_x86_64"
HOST = f"mini_torch-{VERSION}-{TAG}.whl"
STEM = f"mini_torch-{VERSION}"
TARGETS = ("gfx90a", "gfx942", "gfx1100")
NEEDS = ["rocm-sdk-device-@GFXARCH@ == 7.1", "rocm-extra"]


def device(target: str) -> str:
    return f"amd_mini_torch_device_{target}-{VERSION}-{TAG}.whl"


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fat")
    return write_fat(place / "in", usual(fat_bytes(place)), filename=HOST)


@pytest.fixture(scope="module")
def dist(fat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    split_wheel(fat, place, device_requires=NEEDS)
    return place


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def wheels(*directories: Path) -> list[Path]:
    return [path for directory in directories for path in sorted(directory.iterdir())]


def shard(dist: Path, place: Path, *targets: str, offers: tuple[str, ...] = TARGETS) -> Path:
    """A stand-in for a build for some targets: the host offering `offers`, and the device wheels given."""
    place.mkdir()
    for target in targets:
        shutil.copy(dist / device(target), place)
    rewrite(dist / HOST, place / HOST, f"{STEM}.dist-info/METADATA", lambda text: offering(text, offers))
    return place


def offering(text: bytes, targets: tuple[str, ...]) -> bytes:
    """METADATA whose offers are those of a split for these targets alone; gfx11 comes with gfx1100."""
    dropped = [*(set(TARGETS) - set(targets)), *([] if "gfx1100" in targets else ["gfx11"])]
    words = [f"device-{target}" for target in dropped]
    return b"".join(
        line
        for line in text.splitlines(keepends=True)
        if not any(re.search(rf"\b{word}(=|\n)".encode(), line) for word in words)
    )


def rewrite(source: Path, target: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """A wheel with another member, and RECORD in line with it."""
    found = content(source)
    info = next(path for path in found.files if path.endswith(".dist-info/WHEEL")).rpartition("/")[0]
    files = {**found.files, name: change(found.files[name])}
    metadata = files.pop(f"{info}/METADATA")
    del files[f"{info}/RECORD"], files[f"{info}/WHEEL"]
    write_fat(target.parent, files, filename=target.name, metadata=metadata)


def unpack(wheel: Path, place: Path) -> Path:
    zipfile.ZipFile(wheel).extractall(place)
    return place


def objects(library: Path, isa: str, workdir: Path) -> dict[int, bytes]:
    """Wrapper number → code object that the stand-in runtime finds for it."""
    found = loader.load(library, isa=isa, workdir=workdir)
    assert found and not found.error
    return {one.low: one.read() for one in found if not one.reason}


# -- one wheel for a family --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def merged(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("merged")
    merge_wheels(wheels(dist), place, families=["gfx94X-dcgpu", "gfx1100", "gfx90a-dcgpu"])
    return place


def test_each_family_gets_one_wheel(merged: Path, dist: Path, tmp_path: Path) -> None:
    assert names(merged) == [f"{family}/{HOST}" for family in ("gfx1100", "gfx90a-dcgpu", "gfx94X-dcgpu")]
    path = merged / "gfx90a-dcgpu" / HOST
    done = merge_wheels(wheels(dist), tmp_path, families=["gfx90a-dcgpu"])
    again = MergedWheel(
        str(tmp_path / "gfx90a-dcgpu" / HOST), path.stat().st_size, "gfx90a-dcgpu", ("gfx90a",), True
    )
    assert done == WheelMerge((again,))


@pytest.mark.parametrize(
    ("family", "parts", "archives", "further"),
    [
        ("gfx94X-dcgpu", ["gfx942"], ["gfx942"], ["torch/lib/rocblas/library/Kernels_gfx942.hsaco"]),
        ("gfx90a-dcgpu", ["gfx90a"], ["gfx90a:xnack+", "gfx90a:xnack-"], []),
        (
            "gfx1100",
            ["gfx1100", "gfx11"],
            ["gfx1100"],
            ["torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2"],
        ),
    ],
)
def test_it_holds_the_host_and_exactly_the_familys_device_code(
    family: str,
    parts: list[str],
    archives: list[str],
    further: list[str],
    merged: Path,
    fat: Path,
    dist: Path,
) -> None:
    found = content(merged / family / HOST)
    host = content(dist / HOST)
    added = [f"torch/.kpack/mini_torch_{target}.kpack" for target in archives] + further
    added += [f"torch/.kpack/mini_torch_{part}.json" for part in parts]
    assert found.files.keys() == host.files.keys() | set(added)
    said = "torch/.kpack/mini_torch.json"
    assert json.loads(found.files[said])["targets"] == archives
    changed = {f"{STEM}.dist-info/METADATA", f"{STEM}.dist-info/RECORD", said}
    assert {name: found.files[name] for name in host.files.keys() - changed} == {
        name: host.files[name] for name in host.files.keys() - changed
    }
    assert [found.files[name] for name in further] == [content(fat).files[name] for name in further]
    assert verify_record(open_wheel(merged / family / HOST)) == ()
    assert {found.info[name].compress_type for name in found.archives()} == {zipfile.ZIP_STORED}
    assert found.info["torch/bin/tool"].external_attr >> 16 == 0o100755
    expected = {("lib/libraw.so", 0, target): code for target, code in ALPHA.items() if target in archives}
    expected |= {("lib/libraw.so", 1, target): code for target, code in GAMMA.items() if target in archives}
    expected |= {("_C.so", 0, target): code for target, code in BETA.items() if target in archives}
    entries = {key: code for archive in found.archives().values() for key, code in archive.entries.items()}
    assert entries == expected


def test_it_offers_no_device_wheels_and_needs_what_they_needed(merged: Path) -> None:
    found = content(merged / "gfx1100" / HOST)
    head, body = METADATA.split(b"\n\n")
    needs = b"Requires-Dist: rocm-sdk-device-gfx1100==7.1\nRequires-Dist: rocm-extra"
    assert found.files[f"{STEM}.dist-info/METADATA"] == head + b"\n" + needs + b"\n\n" + body


def test_without_further_needs_its_metadata_is_that_of_the_fat_wheel(fat: Path, tmp_path: Path) -> None:
    split_wheel(fat, tmp_path / "dist")
    merge_wheels(wheels(tmp_path / "dist"), tmp_path / "out", families=["gfx942"])
    assert content(tmp_path / "out/gfx942" / HOST).files[f"{STEM}.dist-info/METADATA"] == METADATA


@pytest.mark.parametrize(
    ("family", "isa", "raw", "packed"),
    [
        ("gfx94X-dcgpu", "gfx942", {0: ALPHA["gfx942"], 1: GAMMA["gfx942"]}, {0: BETA["gfx942"]}),
        ("gfx94X-dcgpu", "gfx1100", {}, {}),
        ("gfx90a-dcgpu", "gfx90a:sramecc+:xnack-", {0: ALPHA["gfx90a:xnack-"]}, {}),
        ("gfx1100", "gfx1100", {0: ALPHA["gfx1100"]}, {0: BETA["gfx1100"]}),
    ],
)
def test_its_libraries_find_their_code(
    family: str, isa: str, raw: dict[int, bytes], packed: dict[int, bytes], merged: Path, tmp_path: Path
) -> None:
    site = unpack(merged / family / HOST, tmp_path / "site")
    assert objects(site / "torch/lib/libraw.so", isa, tmp_path / "a") == raw
    assert objects(site / "torch/_C.so", isa, tmp_path / "b") == packed


@pytest.mark.parametrize("family", ["gfx94X-dcgpu", "gfx1100", "gfx90a-dcgpu"])
def test_a_wheel_for_a_family_has_no_parts_to_be_in(merged: Path, family: str) -> None:
    report = verify([merged / family / HOST])
    # The code in these wheels is made up: only that its headers name no target may be found.
    assert {finding.rule for finding in report.findings} <= {"kpack-machine"}
    assert report.libraries and report.archives


def test_pip_installs_it(merged: Path, tmp_path: Path) -> None:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    place = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(place)]
    command.append(str(merged / "gfx94X-dcgpu" / HOST))
    done = subprocess.run(command, capture_output=True, text=True, env=keep)
    assert done.returncode == 0, done.stdout + done.stderr
    assert objects(place / "torch/_C.so", "gfx942", tmp_path / "a") == {0: BETA["gfx942"]}


def test_the_order_of_inputs_and_the_threads_do_not_matter(merged: Path, dist: Path, tmp_path: Path) -> None:
    merge_wheels(wheels(dist)[::-1], tmp_path, families=["gfx1100"], threads=1)
    assert (tmp_path / "gfx1100" / HOST).read_bytes() == (merged / "gfx1100" / HOST).read_bytes()


def test_a_group_alone_serves_its_members(tmp_path: Path) -> None:
    files = {f"torch/lib/aotriton.images/amd-gfx{name}/x.aks2": name.encode() for name in ("11xx", "942")}
    source = write_fat(tmp_path / "in", files, filename=HOST)
    split_wheel(source, tmp_path / "dist")
    given = wheels(tmp_path / "dist")
    merge_wheels(given, tmp_path / "out", families=["gfx1101", "gfx942"])
    for family, own in [("gfx1101", "11xx"), ("gfx942", "942")]:
        found = content(tmp_path / "out" / family / HOST).files
        assert [name for name in found if "amd-gfx" in name] == [
            f"torch/lib/aotriton.images/amd-gfx{own}/x.aks2"
        ]


def test_a_target_gets_the_wheel_that_its_code_comes_in(tmp_path: Path) -> None:
    words = ("gfx1250", "gfx1250-strict")
    files = {f"torch/lib/rocblas/library/K_{word}.co": word.encode() for word in words}
    split_wheel(write_fat(tmp_path / "in", files, filename=HOST), tmp_path / "dist")
    given = wheels(tmp_path / "dist")
    assert {path.name for path in given} == {HOST, device("gfx1250")}
    merge_wheels(given, tmp_path / "out", families=["gfx1250-strict"])
    found = content(tmp_path / "out" / "gfx1250-strict" / HOST).files
    assert [name for name in sorted(found) if name.endswith(".co")] == sorted(files)


def test_a_target_that_no_wheel_is_for_is_named(dist: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"dcgpu-all needs gfx908 gfx950 gfx1250, for which mini_torch"):
        merge_wheels(wheels(dist), tmp_path / "out", families=["gfx942", "dcgpu-all"])
    some = [dist / HOST, dist / device("gfx942")]
    with pytest.raises(InvalidInput, match=r"gfx90a needs gfx90a, for which (.*\n)+.*there are: gfx942;"):
        merge_wheels(some, tmp_path / "out", families=["gfx90a"])
    # The files of the group that gfx1100 belongs to are in a wheel of their own.
    some = [dist / HOST, dist / device("gfx1100")]
    with pytest.raises(InvalidInput, match="gfx1100 needs amd-mini-torch-device-gfx11, for which"):
        merge_wheels(some, tmp_path / "out", families=["gfx1100"])
    with pytest.raises(InvalidInput, match="'gfx94' is not a known family or target"):
        merge_wheels(wheels(dist), tmp_path / "out", families=["gfx94"])
    assert not (tmp_path / "out").exists()


# -- sets of several builds --------------------------------------------------------------------------------


def test_two_builds_of_one_wheel_become_the_set_of_both(dist: Path, tmp_path: Path) -> None:
    one = shard(dist, tmp_path / "1", "gfx942", "gfx90a", offers=("gfx942", "gfx90a"))
    other = shard(dist, tmp_path / "2", "gfx1100", "gfx11", "gfx942", offers=("gfx942", "gfx1100"))
    assert content(one / HOST).headers("Provides-Extra") == [
        "numpy", "device-gfx90a", "device-gfx942", "device-all",
    ]  # fmt: skip
    done = merge_wheels(wheels(one, other), tmp_path / "out")
    assert [(Path(wheel.path).name, wheel.targets, wheel.changed) for wheel in done.wheels] == [
        (HOST, (), True),
        (device("gfx90a"), ("gfx90a",), False),
        (device("gfx942"), ("gfx942",), False),
        (device("gfx1100"), ("gfx1100",), False),
        (device("gfx11"), done.wheels[4].targets, False),
    ]
    assert {"gfx1100", "gfx1101", "gfx1151"} <= set(done.wheels[4].targets)
    assert done.missing == ()
    assert names(tmp_path / "out") == names(dist)
    # The host says what a split of the whole says, byte for byte; device wheels are the same files.
    assert content(tmp_path / "out" / HOST).files == content(dist / HOST).files | {
        f"{STEM}.dist-info/RECORD": content(tmp_path / "out" / HOST).files[f"{STEM}.dist-info/RECORD"],
        f"{STEM}.dist-info/WHEEL": content(one / HOST).files[f"{STEM}.dist-info/WHEEL"],
    }
    for target in (*TARGETS, "gfx11"):
        assert (tmp_path / "out" / device(target)).read_bytes() == (dist / device(target)).read_bytes()
    merge_wheels(wheels(one, other), tmp_path / "families", families=["gfx1100"])
    assert "torch/.kpack/mini_torch_gfx1100.kpack" in content(tmp_path / "families/gfx1100" / HOST).files


def test_a_host_that_offers_all_already_is_taken_as_it_is(dist: Path, tmp_path: Path) -> None:
    for number, target in enumerate(TARGETS):
        (tmp_path / str(number)).mkdir()
        for name in (HOST, device(target)):
            shutil.copy(dist / name, tmp_path / str(number))
    given = wheels(*(tmp_path / str(number) for number in range(3)))
    for _ in range(2):  # outputs are links to inputs, which is no reason to refuse
        done = merge_wheels(given, tmp_path / "out")
    assert (tmp_path / "out" / HOST).read_bytes() == (dist / HOST).read_bytes()
    assert not any(wheel.changed for wheel in done.wheels)
    assert done.missing == (device("gfx11"),)
    assert names(tmp_path / "out") == sorted([HOST, *map(device, TARGETS)])


def test_several_projects_are_merged_at_once(dist: Path, tmp_path: Path) -> None:
    name = f"mini_vision-{VERSION}-{TAG}.whl"
    library = {"vision/_C.so": fat_bytes(tmp_path / "fat")["packed"]}
    metadata = METADATA.replace(b"mini-torch", b"mini-vision")
    split_wheel(write_fat(tmp_path / "in", library, filename=name, metadata=metadata), tmp_path / "vision")
    given = wheels(dist, tmp_path / "vision")
    merge_wheels(given, tmp_path / "out", families=["gfx942"])
    assert names(tmp_path / "out") == [f"gfx942/{HOST}", f"gfx942/{name}"]
    site = unpack(tmp_path / "out/gfx942" / name, tmp_path / "site")
    assert objects(site / "vision/_C.so", "gfx942", tmp_path / "a") == {0: BETA["gfx942"]}
    with pytest.raises(InvalidInput, match="gfx90a needs gfx90a, for which mini_vision"):
        merge_wheels(given, tmp_path / "out", families=["gfx90a"])


# -- refused -----------------------------------------------------------------------------------------------


def refused(given: list[Path], place: Path, text: str, error: type[Exception] = InvalidInput) -> str:
    for families in (None, ["gfx942"]):
        with pytest.raises(error, match=text) as caught:
            merge_wheels(given, place / "out", families=families)
        assert not (place / "out").exists()
    return str(caught.value)


def test_hosts_that_differ_are_refused_with_the_files(dist: Path, tmp_path: Path) -> None:
    one, other = shard(dist, tmp_path / "1", "gfx942"), tmp_path / "2"
    for name in ("torch/lib/libraw.so", "torch/__init__.py", f"{STEM}.dist-info/METADATA"):
        rewrite(one / HOST, other / HOST, name, lambda data: data + b" ")
        text = refused(wheels(one, other), tmp_path, re.escape(f"{HOST} differs between {one} and {other}"))
        reason = "differs in more than the device wheels offered" if "METADATA" in name else "other contents"
        assert text.splitlines()[1].strip() == f"{name}: {reason}"
    with zipfile.ZipFile(other / HOST) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if "dist-info" not in name}
    del files["torch/bin/tool"]
    metadata = content(one / HOST).files[f"{STEM}.dist-info/METADATA"]
    write_fat(other, {**files, "torch/new.py": b""}, filename=HOST, metadata=metadata)
    lines = [line.strip() for line in refused(wheels(one, other), tmp_path, "differs").splitlines()]
    assert f"torch/bin/tool: only in {one}" in lines and f"torch/new.py: only in {other}" in lines


def test_a_build_that_was_not_split_is_told(fat: Path, dist: Path, tmp_path: Path) -> None:
    text = refused([*wheels(dist), fat], tmp_path, "differs between")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[1] == f"it was not split in {fat.parent}: it offers no device wheels"
    assert f"torch/lib/libraw.so: not split in {fat.parent}" in lines
    assert f"torch/_C.so: not split in {fat.parent}" in lines
    assert f"torch/lib/rocblas/library/Kernels_gfx942.hsaco: only in {fat.parent}" in lines


def test_device_wheels_that_differ_are_refused(dist: Path, tmp_path: Path) -> None:
    name = "torch/.kpack/mini_torch_gfx942.kpack"
    other = tmp_path / device("gfx942")
    rewrite(dist / other.name, other, name, lambda data: data + b"x")
    text = refused([*wheels(dist), other], tmp_path, "amd_mini_torch_device_gfx942.* differs between")
    assert f"{name}: other contents" in text


@pytest.mark.parametrize("families", [None, ["gfx942"]])
def test_code_of_another_build_is_refused(dist: Path, tmp_path: Path, families: list[str] | None) -> None:
    """As when the host was built again under the same version."""
    place = shard(dist, tmp_path / "a", "gfx942", "gfx90a", "gfx1100")
    with zipfile.ZipFile(dist / HOST) as archive:
        name = next(n for n in archive.namelist() if b"host_build" in archive.read(n))
    rewrite(
        dist / HOST, place / HOST, name, lambda data: re.sub(rb"(host_build..)[0-9a-f]{4}", rb"\1ffff", data)
    )
    with pytest.raises(InvalidInput) as caught:
        merge_wheels(wheels(place), tmp_path / "out", families=families)
    assert re.search(
        rf"_gfx\w+-.* has code of another build of {re.escape(name)} than {re.escape(HOST)}",
        str(caught.value),
    )
    assert ", not of ffff" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_was_not_split(fat: Path, dist: Path, tmp_path: Path) -> None:
    refused([fat], tmp_path, f"{re.escape(HOST)} was not split", UsageError)
    plain = write_fat(
        tmp_path / "in",
        {"plain.py": b""},
        filename="plain-1.0-py3-none-any.whl",
        metadata=b"Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n",
    )
    refused([*wheels(dist), plain], tmp_path, "plain-1.0-py3-none-any.whl was not split", UsageError)
    refused([], tmp_path, "nothing to merge", UsageError)


def test_a_device_wheel_without_its_host(dist: Path, tmp_path: Path) -> None:
    refused([dist / device("gfx942")], tmp_path, "gfx942.* is a device wheel that no host given offers")


def test_a_flipped_bit(dist: Path, tmp_path: Path) -> None:
    for name, member in [
        (HOST, "torch/_C.so"),
        (device("gfx942"), "torch/.kpack/mini_torch_gfx942.kpack"),
    ]:
        given = tmp_path / "given"
        shutil.copytree(dist, given)
        data = bytearray((given / name).read_bytes())
        data[zipfile.ZipFile(dist / name).getinfo(member).header_offset + 300] ^= 1
        (given / name).write_bytes(data)
        refused(wheels(given), tmp_path, f"{member} in {re.escape(name)}", InvalidWheel)
        shutil.rmtree(given)


def test_a_record_that_is_wrong(dist: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    shutil.copytree(dist, given)
    found = content(dist / HOST).files
    files = {name: data for name, data in found.items() if not name.endswith(("METADATA", "WHEEL", "RECORD"))}
    for row, text in [
        ("torch/bin/tool,,300", "RECORD says None"),
        (None, "RECORD does not list each file once"),
    ]:
        metadata = found[f"{STEM}.dist-info/METADATA"]
        write_fat(given, files, filename=HOST, metadata=metadata, record={"torch/bin/tool": row})
        refused(wheels(given), tmp_path, f"torch/bin/tool in .*{text}", InvalidWheel)


def test_a_file_in_two_wheels(dist: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    shutil.copytree(dist, given)
    files = content(dist / device("gfx942")).files
    kept = {name: data for name, data in files.items() if ".dist-info/" not in name}
    metadata = next(data for name, data in files.items() if name.endswith("/METADATA"))
    write_fat(given, {**kept, "torch/_C.so": b"x"}, filename=device("gfx942"), metadata=metadata)
    with pytest.raises(InvalidInput, match=r"torch/_C\.so is in mini_torch-.* and amd_mini_torch"):
        merge_wheels(wheels(given), tmp_path / "out", families=["gfx942"])
    assert not (tmp_path / "out").exists()


def test_builds_that_call_a_targets_wheel_differently(fat: Path, dist: Path, tmp_path: Path) -> None:
    split_wheel(fat, tmp_path / "2", prefix="other-", device_requires=NEEDS)
    refused(wheels(dist, tmp_path / "2"), tmp_path, "is amd-mini-torch-device-gfx90a and other-gfx90a")


def test_inputs_are_never_replaced(dist: Path, tmp_path: Path) -> None:
    given = tmp_path / "gfx942"
    shutil.copytree(dist, given)
    before = {path.name: path.read_bytes() for path in given.iterdir()}
    with pytest.raises(UsageError, match="would replace"):
        merge_wheels(wheels(given), given)
    with pytest.raises(UsageError, match="would replace"):
        merge_wheels(wheels(given), tmp_path, families=["gfx942"])
    assert {path.name: path.read_bytes() for path in given.iterdir()} == before


def test_all_or_nothing_appears(dist: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "gfx942" / HOST / "x").mkdir(parents=True)
    with pytest.raises(InvalidInput, match="cannot write"):
        merge_wheels(wheels(dist), out, families=["gfx942", "gfx90a"])
    assert sorted(path.name for path in out.iterdir()) == ["gfx942"]

    def stop(text: str) -> None:
        if "for gfx90a" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge_wheels(wheels(dist), tmp_path / "new", families=["gfx942", "gfx90a"], note=stop)
    assert not (tmp_path / "new").exists()


# -- the command -------------------------------------------------------------------------------------------


def run(*words: str | Path) -> int:
    return status("kpack", "merge", *words)


def test_the_command_merges_wheels(dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = [path for path in wheels(dist) if path.name != device("gfx90a")]
    assert run(*some, "--output-dir", tmp_path / "set") == 0
    printed = capsys.readouterr().out
    assert device("gfx1100") in printed and f"offered, but not given: {device('gfx90a')}" in printed
    assert run(*some, "--output-dir", tmp_path / "one", "--families", "gfx942,gfx1100", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["family"], one["targets"]) for one in found["wheels"]] == [
        ("gfx942", ["gfx942"]),
        ("gfx1100", ["gfx1100"]),
    ]
    assert names(tmp_path / "one") == [f"gfx1100/{HOST}", f"gfx942/{HOST}"]


def test_the_command_takes_wheels_or_directories(
    dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dist / HOST, dist, "--output-dir", tmp_path / "out") == 2
    assert "both directories and files" in capsys.readouterr().err
    (tmp_path / "x.so").write_bytes(b"")
    assert run(tmp_path / "x.so", "--output-dir", tmp_path / "out") == 2
    assert "x.so is neither a wheel nor a directory" in capsys.readouterr().err


def test_databases_of_another_build_are_refused(dist: Path, tmp_path: Path) -> None:
    """The wheel of a group has no archive that could tell."""
    name = "torch/.kpack/mini_torch_gfx11.json"
    shutil.copytree(dist, tmp_path / "in")

    def another(text: bytes) -> bytes:
        return json.dumps({**json.loads(text), "build": "0" * 32}).encode()

    (tmp_path / "in" / device("gfx11")).unlink()
    rewrite(dist / device("gfx11"), tmp_path / "in" / device("gfx11"), name, another)
    with pytest.raises(
        InvalidInput, match=r"gfx11-.* is of another build than mini_torch-.*: of 000000000000"
    ):
        merge_wheels(wheels(tmp_path / "in"), tmp_path / "out")


def test_hosts_that_were_split_for_other_targets_unite_them(dist: Path, tmp_path: Path) -> None:
    name = "torch/.kpack/mini_torch.json"
    whole = json.loads(content(dist / HOST).files[name])

    def only(*targets: str) -> Callable[[bytes], bytes]:
        return lambda text: json.dumps({**json.loads(text), "targets": targets}).encode()

    one, two = shard(dist, tmp_path / "one", "gfx942"), shard(dist, tmp_path / "two", "gfx1100", "gfx90a")
    for place, targets in ((one, ["gfx942"]), (two, ["gfx1100", "gfx90a:xnack+", "gfx90a:xnack-"])):
        old = place / "old"
        (place / HOST).rename(old)
        rewrite(old, place / HOST, name, only(*targets))
        old.unlink()
    merge_wheels(wheels(one, two), tmp_path / "out")
    assert json.loads(content(tmp_path / "out" / HOST).files[name]) == whole
    assert verify_record(open_wheel(tmp_path / "out" / HOST)) == ()
