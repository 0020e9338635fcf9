"""An archive of another build beside a split library: AMD's runtime takes it for the library's own.

It is told by the identity of the host file, which archives repeat, and where a writer leaves that out, by the
kernels that the host registers and the code does not define.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from needs import needs
from oracle.fat_library import build_library, bundle
from rocwright.binary.view import mapped
from rocwright.device_code.archives import split_library
from rocwright.device_code.kpack import read_archive
from rocwright.device_code.verify.verify import verify
from unit.check.kpack_cases import BUNDLES, TARGETS, Case, build_of, code, code_with, split_case

# A host that is another build: one word more among its constants.
_ANOTHER = ".section .rodata\n.long 4711"


def _registers(*names: str) -> str:
    """A constructor as the compiler makes one for a unit with these kernels."""
    calls = "".join(
        f"leaq fat_tail(%rip), %rsi\nleaq name_{name}(%rip), %rdx\nmovq %rdx, %rcx\nmovq %rbx, %rdi\n"
        "call __hipRegisterFunction@PLT\n"
        for name in names
    )
    texts = "".join(f'name_{name}: .asciz "{name}"\n' for name in names)
    return f"""
.weak __hipRegisterFatBinary, __hipRegisterFunction
.text
registers: pushq %rbx
leaq fat_wrappers(%rip), %rdi
call __hipRegisterFatBinary@PLT
movq %rax, %rbx
{calls}popq %rbx
ret
.section .rodata
{texts}
.section .init_array,"aw",@init_array
.balign 8
.quad registers
"""


def _split(folder: Path, **options: object) -> Case:
    return split_case(folder / "root", build_library(folder, **{"bundles": BUNDLES, **options}))


def _strangers(case: Case) -> list[tuple[str, str]]:
    return [(f.file, f.cause) for f in verify([case.root]).findings if f.rule == "kpack-stranger"]


def test_archives_of_another_build_are_strangers(tmp_path: Path) -> None:
    one, other = _split(tmp_path / "one"), _split(tmp_path / "other", extra_asm=_ANOTHER)
    assert verify([one.root]).findings == verify([other.root]).findings == ()
    shutil.copy(other.archive("gfx942"), one.archive("gfx942"))
    ((file, cause),) = _strangers(one)
    assert file == "root/.kpack/fat_gfx942.kpack"
    assert build_of(other.host) in cause and build_of(one.host) in cause
    assert build_of(other.host) != build_of(one.host)


def test_every_archive_names_thebuild_of(tmp_path: Path) -> None:
    case = _split(tmp_path)
    for target in TARGETS:
        with mapped(case.archive(target)) as file:
            assert read_archive(file).builds == {"lib/libfat.so": build_of(case.host)}


def test_a_target_that_is_added_later_to_an_equal_host_is_none(tmp_path: Path) -> None:
    first = [bundle([("gfx942", code("gfx942"))])]
    later = [bundle([("gfx906", code("gfx906"))])]
    one, other = _split(tmp_path / "one", bundles=first), _split(tmp_path / "other", bundles=later)
    assert one.host.read_bytes() != other.host.read_bytes(), "they have build ids"
    shutil.copy(other.archive("gfx906"), one.archive("gfx906"))
    assert verify([one.root]).findings == ()


def test_a_program_with_an_archive_of_the_same_name(tmp_path: Path) -> None:
    """As `kpack split` leaves a single file, without a tree around it."""
    for name, more in (("one", ""), ("other", _ANOTHER)):
        fat = build_library(tmp_path / name, bundles=BUNDLES, kind="pie", extra_asm=more)
        assert split_library(fat, tmp_path / name / "out")
    out = tmp_path / "one" / "out"
    shutil.copytree(tmp_path / "other" / "out" / ".kpack", out / ".kpack", dirs_exist_ok=True)
    found = [finding for finding in verify([out / "fat-pie"]).findings if finding.rule == "kpack-stranger"]
    assert len(found) == len(TARGETS)


def _without_builds(path: Path) -> None:
    """As AMD's tool writes an archive."""
    raw = path.read_bytes()
    at = int.from_bytes(raw[8:16], "little")
    table = msgspec.msgpack.decode(raw[at:])
    del table["host_builds"]
    path.write_bytes(raw[:at] + msgspec.msgpack.encode(table))


@needs("llvm-mc", "ld.lld")
@pytest.mark.parametrize(
    ("launched", "rule", "what"),
    [
        (("_Z4firstPf",), "", ""),
        (
            ("_Z6secondPf",),
            "kpack-stranger",
            "root/lib/libfat.so finds none of 1 of 1 kernels that it launches, such as _Z6secondPf, in it",
        ),
        # As where a target has no instructions for some of a library's kernels.
        (
            ("_Z4firstPf", "_Z6secondPf"),
            "kpack-launch",
            "no archive that is here defines 1 of 2 kernels that it launches, such as _Z6secondPf",
        ),
    ],
)
def test_without_identities_the_kernels_tell(
    tmp_path: Path, launched: tuple[str, ...], rule: str, what: str
) -> None:
    made = code_with(tmp_path / "code", "_Z4firstPf", "_Z5thirdPf")
    bundles = [bundle([("gfx90a", made)])]
    case = _split(tmp_path / "fat", bundles=bundles, with_tail=False, extra_asm=_registers(*launched))
    _without_builds(case.archive("gfx90a"))
    report = verify([case.root])
    told = [(f.rule, f.cause) for f in report.findings] + [(n.rule, n.text) for n in report.notes]
    assert told == ([(rule, what)] if rule else [])
