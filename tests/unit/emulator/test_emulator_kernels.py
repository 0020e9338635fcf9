"""Code objects for a target, loaded where there is no GPU: what is wrong with one is found, by its name."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import run
from emulator_stand_in import build, protocol_program
from needs import find_llvm_tool, need, needs
from oracle.fat_library import build_library, bundle
from oracle.splitting import Split, split
from rocwright.binary.view import mapped
from rocwright.device_code.descriptors import KernelSizes, read_kernels
from rocwright.device_code.fatbin import NewEntry, raw_bundle
from rocwright.device_code.tree.split import split_tree
from rocwright.errors import InvalidElf

pytestmark = needs("gcc", "clang++-19", "ld.lld")
SOURCE = """
kernel void scale(global float *at, float by) { at[__builtin_amdgcn_workitem_id_x()] *= by; }
kernel void reversed(global int *at, global int *to, int count) {
    local int held[64];
    int lane = __builtin_amdgcn_workitem_id_x();
    held[lane] = at[lane];
    __builtin_amdgcn_s_barrier();
    to[lane] = held[63 - lane] + count;
}
"""


def compiled(place: Path, source: str, target: str) -> Path:
    """A code object of OpenCL kernels."""
    need("clang++-19", "ld.lld")
    (place / "source.cl").write_text(source)
    subprocess.run(
        ["clang++-19", "-x", "cl", "-cl-std=CL2.0", "-O2", "-nogpulib", "--target=amdgcn-amd-amdhsa",
         "-mcode-object-version=4", f"--ld-path={find_llvm_tool('ld.lld')}", f"-mcpu={target}",
         "source.cl", "-o", f"{target}.hsaco"],
        cwd=place, check=True, capture_output=True,
    )  # fmt: skip
    return place / f"{target}.hsaco"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The two kernels, compiled for two targets."""
    place = tmp_path_factory.mktemp("objects")
    return {target: compiled(place, SOURCE, target).read_bytes() for target in ("gfx942", "gfx1100")}


def fat(path: Path, *codes: tuple[str, bytes]) -> Path:
    """A bundle as libraries hold it."""
    entries = [NewEntry("host-x86_64-unknown-linux-gnu-", b"")]
    entries += [NewEntry(f"hipv4-amdgcn-amd-amdhsa--{target}", data) for target, data in codes]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw_bundle(entries))
    return path


def words(prefix: Path, *more: object) -> list[object]:
    return ["test", "kernels", *more, "--emulate", "gfx942", "--emulator", prefix, "--rocm", prefix]


def descriptor_at(code: bytes, name: str) -> int:
    """Where the descriptor of a kernel lies, by pyelftools."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(code))
    (symbol,) = elf.get_section_by_name(".dynsym").get_symbol_by_name(f"{name}.kd")
    section = elf.get_section(symbol["st_shndx"])
    return int(symbol["st_value"] - section["sh_addr"] + section["sh_offset"])


def set_word(code: bytes, at: int, value: int) -> bytes:
    return code[:at] + struct.pack("<I", value) + code[at + 4 :]


def damage(name: str) -> Callable[[bytes], bytes]:
    def kernarg(code: bytes) -> bytes:
        return set_word(code, descriptor_at(code, "scale") + 8, 8)

    def lds(code: bytes) -> bytes:
        return set_word(code, descriptor_at(code, "reversed"), 128)

    def entry(code: bytes) -> bytes:
        return set_word(code, descriptor_at(code, "scale") + 16, 0x7F000000)

    return {
        "symbol": lambda code: code.replace(b"\0scale.kd\0", b"\0scale.xx\0"),
        "kernarg": kernarg,
        "lds": lds,
        "entry": entry,
        "magic": lambda code: b"\x7fELG" + code[4:],
        "machine": lambda code: code[:18] + b"\x3e\0" + code[20:],
        "headers": lambda code: code[:32] + struct.pack("<QQ", 1 << 40, 1 << 40) + code[48:],
    }[name]


def test_whole_objects_load(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    library = fat(tmp_path / "code.hipfb", *objects.items())
    ended = run(capsys, *words(build(tmp_path / "rocm"), library, "--json"))
    assert ended.code == 0, ended.err
    found = ended.json["loaded"]["rocjitsu"]
    (one,) = found["objects"]
    assert (one["state"], one["target"], one["kernels"]) == ("loads", "gfx942", 2)
    assert (found["emulated"]["target"], found["emulated"]["emulated"]) == ("gfx942", True)
    page = (tmp_path / "test-reports/kernels-gfx942-rocjitsu/index.html").read_text()
    assert "<title>Code objects for gfx942 (emulated)</title>" in page
    assert "none of them is launched" in page


@pytest.mark.parametrize(
    ("kind", "state", "said"),
    [
        ("symbol", "kernel missing", "named symbol not found"),
        ("kernarg", "contradiction", "its descriptor says 8 bytes of arguments, the metadata "),
        ("lds", "contradiction", "its descriptor says 128 bytes of LDS, the metadata 256"),
        ("entry", "contradiction", "its descriptor leads to no code"),
        ("magic", "damaged", "ELF"),
        ("machine", "damaged", "is no code object of an AMD GPU"),
        ("headers", "damaged", ""),
    ],
)
def test_what_is_damaged_is_told_apart(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    state: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = damage(kind)(objects["gfx942"])
    assert bad != objects["gfx942"]
    good = fat(tmp_path / "in/good.hipfb", ("gfx942", objects["gfx942"]))
    library = fat(tmp_path / "in/bad.hipfb", ("gfx942", bad))
    ended = run(capsys, *words(build(tmp_path / "rocm"), good, library, "--json"))
    assert ended.code == 1
    found = {Path(one["source"]).name: one for one in ended.json["loaded"]["rocjitsu"]["objects"]}
    assert found["good.hipfb"]["state"] == "loads"
    assert (found["bad.hipfb"]["state"], said in found["bad.hipfb"]["detail"]) == (state, True), found


def test_a_swapped_object_is_refused(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    library = fat(tmp_path / "code.hipfb", ("gfx942", objects["gfx1100"]), ("gfx1100", objects["gfx942"]))
    ended = run(capsys, *words(build(tmp_path / "rocm"), library))
    assert ended.code == 1
    assert "refused" in ended.out
    assert "no kernel image is available" in ended.out


def test_a_missing_target_is_told(
    tmp_path: Path, objects: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    library = fat(tmp_path / "code.hipfb", ("gfx1100", objects["gfx1100"]))
    ended = run(capsys, *words(build(tmp_path / "rocm"), library))
    assert ended.code == 3
    assert "code.hipfb: no code for gfx942; there is some for gfx1100" in ended.err


def test_a_code_object_by_itself_is_loaded_too(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As BLAS libraries have them beside them, one file a target."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for target, code in objects.items():
        (tmp_path / f"in/Kernels.so-000-{target}.hsaco").write_bytes(code)
    ended = run(capsys, *words(build(tmp_path / "rocm"), tmp_path / "in", "--json"))
    assert ended.code == 0, ended.err
    (one,) = ended.json["loaded"]["rocjitsu"]["objects"]
    assert (one["kernel"], one["state"]) == ("Kernels.so-000-gfx942.hsaco", "loads")
    (tmp_path / "in/Kernels.so-000-gfx942.hsaco").unlink()
    ended = run(capsys, *words(tmp_path / "rocm", tmp_path / "in"))
    assert (ended.code, "in: no code for gfx942; there is some for gfx1100" in ended.err) == (3, True)


def test_a_library_without_the_target_beside_others_is_named(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fat(tmp_path / "in/both.hipfb", *objects.items())
    fat(tmp_path / "in/one.hipfb", ("gfx1100", objects["gfx1100"]))
    ended = run(capsys, *words(build(tmp_path / "rocm"), tmp_path / "in"))
    assert ended.code == 0
    assert "in/one.hipfb has code for other targets only" in ended.err
    assert "both.hipfb has code" not in ended.err
    # So is a translation unit of a library whose others have it.
    units = [bundle(objects.items()), bundle([("gfx1100", objects["gfx1100"])])]
    library = build_library(tmp_path / "work", bundles=units, name="libtwo.so")
    ended = run(capsys, *words(tmp_path / "rocm", library))
    assert ended.code == 0
    assert "libtwo.so#1 has code for other targets only" in ended.err
    assert "libtwo.so#0" not in ended.err


def test_a_split_library_is_followed_to_its_archives(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    library = build_library(tmp_path / "work", bundles=[bundle(objects.items())] * 2, name="libtwo.so")
    done = split(library, tmp_path / "split")
    assert isinstance(done, Split)
    prefix = build(tmp_path / "rocm")
    for given in (library, done.host):
        ended = run(capsys, *words(prefix, given, "--json"))
        assert ended.code == 0, ended.err
        found = ended.json["loaded"]["rocjitsu"]["objects"]
        assert [(one["index"], one["state"], one["kernels"]) for one in found] == [
            (0, "loads", 2),
            (1, "loads", 2),
        ]
    # Without its archives it is no pass, though another library beside it loads.
    for archive in done.archives.values():
        archive.unlink()
    ended = run(capsys, *words(prefix, library, done.host))
    assert ended.code == 1
    assert "archives of 1 split file are missing; the rest loads" in ended.err


def test_an_archive_that_is_not_the_one_that_its_part_names_is_no_pass(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    build_library(tmp_path / "rocm-tree/lib", bundles=[bundle(objects.items())] * 2, name="libtwo.so")
    split_tree(tmp_path / "rocm-tree", tmp_path / "split")
    prefix = build(tmp_path / "rocm")
    host = tmp_path / "split/generic/lib/libtwo.so"
    assert run(capsys, *words(prefix, host)).code == 0
    (archive,) = (tmp_path / "split/gfx942/.kpack").glob("*.kpack")
    data = bytearray(archive.read_bytes())
    data[20] ^= 1  # one that no reader of code reads
    archive.write_bytes(data)
    # Found from the library, and as a file of the directory.
    for given in (host, tmp_path / "split"):
        ended = run(capsys, *words(prefix, given))
        assert ended.code == 1
        assert "1 archive is of another build, or damaged; all code loads" in ended.err
        assert f"{archive.name}: it is of another build, or damaged: its sha256 is " in ended.err


def test_code_for_other_features_is_no_fault(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    # The stand-in refuses it as the real runtime does what its GPU's features are against.
    library = fat(
        tmp_path / "code.hipfb", ("gfx942:xnack+", objects["gfx1100"]), ("gfx942:xnack-", objects["gfx942"])
    )
    ended = run(capsys, *words(build(tmp_path / "rocm"), library, "--json"))
    assert ended.code == 0, ended.err
    found = {one["target"]: one["state"] for one in ended.json["loaded"]["rocjitsu"]["objects"]}
    assert found == {"gfx942:xnack+": "other GPU", "gfx942:xnack-": "loads"}
    # One of the GPU's own kind that is refused is damaged, though the error is the same.
    bad = fat(tmp_path / "bad.hipfb", ("gfx942:xnack-", objects["gfx1100"]))
    ended = run(capsys, *words(tmp_path / "rocm", library, bad, "--json"))
    assert ended.code == 1
    states = [one["state"] for one in ended.json["loaded"]["rocjitsu"]["objects"]]
    assert sorted(states) == ["loads", "other GPU", "refused"]


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_a_process_that_is_lost_costs_its_object(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    import msgspec

    from rocwright.cli.gputest import emulated
    from rocwright.emulator.find import emulator_table

    table = emulator_table()
    quick = msgspec.structs.replace(table, limits=msgspec.structs.replace(table.limits, object_s=1))
    monkeypatch.setattr(emulated, "emulator_table", lambda: quick)
    monkeypatch.chdir(tmp_path)
    other = objects["gfx942"].replace(b"scale", b"shift")
    for number in range(4):
        fat(tmp_path / f"in/{number}.hipfb", ("gfx942", other if number == 1 else objects["gfx942"]))
    ended = run(capsys, *words(build(tmp_path / "rocm", fault=fault, at="shift"), tmp_path / "in", "--json"))
    assert ended.code == 1
    found = ended.json["loaded"]["rocjitsu"]
    lost = "crashed" if fault == "crash" else "hung"
    assert [one["state"] for one in found["objects"]] == ["loads", lost, "loads", "loads"]
    # The three others were loaded by two processes, not by three.
    assert found["starts"] == 2


def test_no_gpu_is_no_pass(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    prefix = build(tmp_path / "rocm")
    (prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json").write_text("{}")
    ended = run(capsys, *words(prefix, fat(tmp_path / "code.hipfb", ("gfx942", objects["gfx942"])), "--json"))
    assert ended.code == 1
    assert ended.json["loaded"]["rocjitsu"]["objects"][0]["state"] == "not run"
    assert "HIP shows no GPU" in ended.err


def test_no_kernel_executed_is_no_pass(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The objects load, and nothing shows that there is a GPU."""
    monkeypatch.chdir(tmp_path)
    library = fat(tmp_path / "code.hipfb", ("gfx942", objects["gfx942"]))
    ended = run(capsys, *words(build(tmp_path / "rocm", fault="silent"), library, "--json"))
    assert ended.code == 1
    assert ended.json["loaded"]["rocjitsu"]["objects"][0]["state"] == "loads"
    assert "no kernel was executed" in ended.err


def test_two_emulators_are_compared(
    tmp_path: Path,
    objects: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    library = fat(tmp_path / "code.hipfb", ("gfx942", objects["gfx942"]))
    second = protocol_program(tmp_path / "second", build(tmp_path / "other", fault="crash", at="reversed"))
    ended = run(capsys, *words(build(tmp_path / "rocm"), library, "--emulator", second, "--json"))
    assert ended.code == 1
    (apart,) = ended.json["disagreements"]
    assert apart["states"] == {"rocjitsu": "loads", "second": "crashed"}


def test_what_a_code_object_says_of_its_kernels(tmp_path: Path, objects: dict[str, bytes]) -> None:
    """Two pointers and an integer; arrays of 64 integers in shared memory."""
    path = tmp_path / "two.hsaco"
    path.write_bytes(objects["gfx1100"])
    with mapped(path) as file:
        back, scale = read_kernels(file)
    assert (back.name, scale.name) == ("reversed", "scale")
    assert (back.trouble, scale.trouble, scale.enters) == ("", "", True)
    assert back.metadata is not None
    assert (back.metadata.lds, back.metadata.scratch) == (256, 0)
    assert back.descriptor == back.metadata
    assert scale.metadata == scale.descriptor == KernelSizes(0, 0, scale.metadata.arguments)  # type: ignore[union-attr]


def test_a_kernel_of_no_instruction_is_no_contradiction(tmp_path: Path) -> None:
    """What is tuned for one GPU is compiled to nothing for the others; it begins where the code ends."""
    path = compiled(tmp_path, "kernel void nothing() { __builtin_unreachable(); }", "gfx942")
    with mapped(path) as file:
        (kernel,) = read_kernels(file)
    assert (kernel.name, kernel.trouble) == ("nothing", "")


def test_a_host_file_has_no_kernels() -> None:
    with mapped(Path(sys.executable).resolve()) as file, pytest.raises(InvalidElf, match="no code object"):
        read_kernels(file)


def test_the_script_runs_alone(tmp_path: Path, objects: dict[str, bytes]) -> None:
    """As a user of another environment would start it; without the preload HIP shows no GPU."""
    from rocwright.emulator.objects import SCRIPT

    prefix = build(tmp_path / "rocm")
    (tmp_path / "tasks.json").write_text(
        json.dumps({"library": str(prefix / "lib/libamdhip64.so"), "objects": {}})
    )
    (tmp_path / "names.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), "tasks.json", "names.json"],
        cwd=tmp_path, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["problem"].startswith("HIP shows no GPU: error 100")
