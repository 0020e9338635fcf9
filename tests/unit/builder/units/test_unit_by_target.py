"""Device code compiled and kept target by target: what clang makes of all at once, bit by bit."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from needs import needs
from rocwright.builder.units.by_target import with_device_code
from rocwright.builder.units.launch import write_launchers
from rocwright.builder.units.logs import UnitRecord, read_units

pytestmark = needs("clang++-19", "lld-19", "ccache")

# What HIP's headers would declare; without them neither ROCm nor its device libraries are needed.
HIP = """
typedef unsigned long size_t;
typedef struct hipStream *hipStream_t;
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" int __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = nullptr);
"""
KERNEL = """
__attribute__((device)) static int counter;
__attribute__((global)) void bump(int by) { counter += by; }
void launch() { bump<<<dim3{1, 1, 1}, dim3{64, 1, 1}>>>(2); }
"""
SOURCES = {"kernel": HIP + KERNEL, "no kernel": "int answer() { return 42; }\n"}


class Tree:
    """Sources below `root`, and the launcher of a work directory before a real clang behind a real ccache."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        root.mkdir(exist_ok=True)
        write_launchers(self.work, cache="ccache")

    def compile(
        self,
        targets: str,
        *options: str,
        text: str = "",
        launcher: bool = True,
        code: int = 0,
        output: str = "unit.o",
        folder: str = ".",
    ) -> subprocess.CompletedProcess[str]:
        """`unit.hip` to `unit.o`, beside it `unit.d`."""
        (self.root / folder / "unit.hip").write_text(text or SOURCES["kernel"])
        words = ["clang++-19", "-x", "hip", "-nogpuinc", "-nogpulib", "-O2", "-fPIC"]
        words += [f"--offload-arch={target}" for target in targets.split()]
        words += [*options, "-c", "unit.hip", "-o", output]
        env = {"CCACHE_DIR": str(self.root.parent / "ccache"), "CCACHE_BASEDIR": str(self.root)}
        done = subprocess.run(
            [str(self.work / "bin" / "record-hip"), *words] if launcher else words,
            cwd=self.root / folder,
            env={**os.environ, **env},
            text=True,
            capture_output=True,
        )
        assert done.returncode == code, done.stderr
        return done

    def object(self, targets: str, *options: str, text: str = "", launcher: bool = True) -> bytes:
        assert self.compile(targets, *options, text=text, launcher=launcher).stderr == ""
        return (self.root / "unit.o").read_bytes()

    @property
    def record(self) -> UnitRecord:
        return read_units(self.work / "units")[-1]

    @property
    def left(self) -> set[str]:
        """What lies there beside sources and the object."""
        names = {path.name for folder in (self.root, self.work / "units") for path in folder.iterdir()}
        return names - {"unit.hip", "unit.o", "work", "calls.jsonl"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "one")


# The id that the launcher gives, so that clang alone makes the same.
CUID = "-cuid=unit_2e_hip__unit_2e_o"
DEPENDS = ("-MD", "-MF", "unit.d", "-MT", "unit.o")


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    ("targets", "options"),
    [
        ("gfx942", ()),
        ("gfx942 gfx1100", ("-g",)),
        ("gfx1100,gfx942 gfx90a:xnack+ gfx90a:xnack-", ("--offload-compress",)),
        ("gfx942 gfx1100", ("-ffunction-sections", "-fPIE", "-DNDEBUG", "-Werror")),
        ("gfx942 gfx1100", DEPENDS),
        ("gfx942 gfx1100", DEPENDS[:3]),
    ],
)
def test_the_object_is_that_of_the_compiler_bit_by_bit(
    tree: Tree, text: str, targets: str, options: tuple[str, ...]
) -> None:
    depends, texts = tree.root / "unit.d", []
    objects = []
    for launcher in (False, True, True):
        own = (*options, *(() if launcher else (CUID,)))
        objects.append(tree.object(targets, *own, text=text, launcher=launcher))
        texts.append(depends.read_text() if depends.exists() else "")
        depends.unlink(missing_ok=True)
    assert len({hashlib.sha256(data).hexdigest() for data in objects}) == 1
    assert texts[0] == texts[1] == texts[2] and bool(texts[0]) == ("-MD" in options)
    assert tree.record.cache == "hit" and tree.record.devices == {}
    assert tree.left == set()


def test_of_a_further_target_only_its_device_code_is_compiled(tree: Tree) -> None:
    tree.object("gfx942")
    assert (tree.record.cache, set(tree.record.devices)) == ("miss", {"gfx942", "host"})
    both = tree.object("gfx942 gfx1100")
    assert (tree.record.cache, set(tree.record.devices)) == ("miss", {"gfx1100"})
    # One target less, or another order.
    tree.object("gfx1100")
    assert tree.record.cache == "hit"
    assert tree.object("gfx1100 gfx942") == both
    assert tree.record.cache == "hit"
    assert tree.object("gfx942 gfx1100", CUID, launcher=False) == both


def test_a_tree_that_has_moved_finds_it_again(tree: Tree, tmp_path: Path) -> None:
    first = tree.object("gfx942 gfx1100")
    other = Tree(tmp_path / "two")
    assert other.object("gfx942 gfx1100") == first
    assert other.record.cache == "hit"


@pytest.mark.parametrize(
    "options",
    [
        ("-fgpu-rdc",),
        ("-save-temps=obj",),
        ("-MD",),
        ("-Wp,-MD,unit.d",),
        ("-Xclang", "-dependency-file", "-Xclang", "unit.d", "-Xclang", "-MT", "-Xclang", "unit.o"),
        ("-gsplit-dwarf", "-g"),
        ("-g", "-gz"),
        ("-fsave-optimization-record",),
        ("-Xarch_gfx942", "-DV=15"),
        ("-Xarch_device", "-DV=15"),
    ],
)
def test_what_would_come_out_otherwise_is_left_to_the_compiler(tree: Tree, options: tuple[str, ...]) -> None:
    text = (
        f"{SOURCES['kernel']}#ifdef V\nint more = V;\n__attribute__((global)) void other(int) {{}}\n#endif\n"
    )
    made = []
    for launcher in (False, True):
        tree.compile("gfx942 gfx1100", *options, CUID, text=text, launcher=launcher)
        files = {name: (tree.root / name).read_bytes() for name in sorted(tree.left | {"unit.o"})}
        # Of kept files some have names of their own making.
        made.append(sorted(files) if "-save-temps=obj" in options else files)
        for name in tree.left:
            (tree.root / name).unlink()
    assert made[0] == made[1]


def test_a_device_stays_one(tree: Tree) -> None:
    """As a test of a configure script, whose result nobody wants."""
    os.mkfifo(tree.root / "pipe")
    with subprocess.Popen(["cat", tree.root / "pipe"], stdout=subprocess.PIPE) as reader:
        tree.compile("gfx942", output="pipe")
        assert reader.communicate()[0].startswith(b"\x7fELF")
    assert (tree.root / "pipe").is_fifo()


def test_units_of_two_directories_link_together(tree: Tree) -> None:
    for name in ("one", "two"):
        (tree.root / name).mkdir()
        text = SOURCES["kernel"].replace("launch()", f"launch_{name}()").replace("bump", f"bump_{name}")
        tree.compile("gfx942", text=text, folder=name)
    words = ["ld.lld-19", "-shared", "one/unit.o", "two/unit.o", "-o", "both.so"]
    linked = subprocess.run(words, cwd=tree.root, text=True, capture_output=True)
    assert linked.returncode == 0, linked.stderr


def test_an_end_by_a_signal_leaves_nothing(tree: Tree) -> None:
    # Long enough: one function of many lines.
    long = "".join(f"  x = x * {n}u + (x >> {n % 31});\n" for n in range(1, 10_000))
    (tree.root / "unit.hip").write_text(
        f"{HIP}__attribute__((global)) void k(unsigned *p) {{\n  unsigned x = *p;\n{long}  *p = x;\n}}\n"
    )
    words = [tree.work / "bin" / "record-hip", "clang++-19", "-x", "hip", "-nogpuinc", "-nogpulib", "-O1"]
    words += ["--offload-arch=gfx942", "-c", "unit.hip", "-o", "unit.o"]
    env = {**os.environ, "CCACHE_DIR": str(tree.root.parent / "ccache")}
    with subprocess.Popen(words, cwd=tree.root, env=env, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 60
        units = tree.work / "units"
        while time.monotonic() < deadline and not list(units.glob("*.host")):
            time.sleep(0.01)
        time.sleep(0.3)
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == -signal.SIGTERM
    assert not list(units.glob("*.host")) and not (tree.root / "unit.o").exists()


def test_a_fault_of_the_source_is_the_compilers_to_tell(tree: Tree) -> None:
    text = SOURCES["kernel"] + "__attribute__((device)) int wrong() { return missing; }\n"
    done = tree.compile("gfx942 gfx1100", text=text, code=1)
    assert "use of undeclared identifier 'missing'" in done.stderr
    assert (tree.record.exit, tree.left) == (1, set())
    assert not (tree.root / "unit.o").exists()
    # Of the device half alone: the host's has another function.
    only = "\n#ifdef __HIP_DEVICE_COMPILE__\n#error not for this target\n#endif\n"
    done = tree.compile("gfx942 gfx1100", text=SOURCES["kernel"] + only, code=1)
    assert "not for this target" in done.stderr
    assert not (tree.root / "unit.o").exists()


def test_an_object_of_more_sections_than_its_header_can_count(tmp_path: Path) -> None:
    """Of an assembler: the layout is LLVM's either way."""
    sections = "".join(f'.section .text.f{n},"ax",@progbits\n.byte 1\n' for n in range(66_000))
    after = '.section .hipFatBinSegment,"aw",@progbits\n.quad there\n.section .tail,"a",@progbits\n.byte 7\n'
    bundle = bytes(range(256)) * 17 + b"odd"
    objects = []
    for content in (b"", bundle):
        body = "".join(f".byte {byte}\n" for byte in content)
        fatbin = f'.section .hip_fatbin,"a",@progbits\n.p2align 12\nthere:\n{body}'
        (tmp_path / "x.s").write_text(fatbin + after + sections)
        words = ["clang++-19", "-c", tmp_path / "x.s", "-o", tmp_path / "x.o"]
        subprocess.run(words, check=True)
        objects.append((tmp_path / "x.o").read_bytes())
    assert int.from_bytes(objects[0][60:62], "little") == 0
    assert with_device_code(objects[0], bundle) == objects[1]


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01\x01" + bytes(58), b"MZ" + bytes(62)])
def test_what_is_no_object_of_64_bits_is_left_alone(data: bytes) -> None:
    assert with_device_code(data, b"bundle") is None
