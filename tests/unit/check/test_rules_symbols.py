"""What the rules say of symbols, entries of modules, programs and the endings of extensions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest
from facts_by_hand import elf, said, wheel

from rocwright.binary.elf import PT_DYNAMIC, read_elf
from rocwright.binary.symbols import Want, known_symbols, read_symbols
from rocwright.binary.view import Mapped
from rocwright.check.facts import Member
from rocwright.check.gather.look import Look
from rocwright.check.rules.metadata import foreign_extensions
from rocwright.check.rules.symbols import init_name
from rocwright.errors import InvalidInput


def compiled(folder: Path, source: str, *flags: str) -> Path:
    (folder / "x.c").write_text(source)
    argv = ["gcc", "-shared", "-fPIC", "-o", str(folder / "x.so"), str(folder / "x.c"), *flags]
    subprocess.run(argv, check=True, capture_output=True)
    return folder / "x.so"


SOURCE = """
extern int nowhere(int); extern int __attribute__((weak)) perhaps(void); extern int puts(const char *);
extern void *PyLong_FromLong(long);
void *PyInit_mod(void) { puts("x"); return nowhere(1) && perhaps ? PyLong_FromLong(1) : 0; }
static int hidden(void) { return 1; } int shown(void) { return hidden(); }
"""


def test_symbols_are_read_as_nm_tells_them(tmp_path: Path) -> None:
    symbols = read_symbols(read_elf(compiled(tmp_path, SOURCE)))
    assert symbols is not None
    assert symbols.inits == {"PyInit_mod"}
    assert symbols.python == {"PyLong_FromLong"}
    assert {want.name for want in symbols.wanted} == {"nowhere", "puts"}
    assert next(want.library for want in symbols.wanted if want.name == "puts") == "libc.so.6"
    assert hash(b"shown") in symbols.defined
    assert hash(b"hidden") not in symbols.defined


def test_damaged_tables_end_in_an_error_or_in_symbols(tmp_path: Path) -> None:
    good = compiled(tmp_path, SOURCE).read_bytes()
    random, refused = Random(31), 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(random.randrange(1, 12)):
            data[random.randrange(64, min(len(data), 4096))] = random.randrange(256)
        try:
            read_symbols(read_elf(Mapped(Path("x.so"), bytes(data))))
        except InvalidInput:
            refused += 1
    assert 0 < refused < 300


def test_forged_addresses_end_alike_in_memory_and_on_disk(tmp_path: Path) -> None:
    path = compiled(tmp_path, SOURCE)
    good = path.read_bytes()
    dynamic = next(segment.offset for segment in read_elf(path).segments if segment.type == PT_DYNAMIC)
    random, refused = Random(32), 0
    for _ in range(200):
        data = bytearray(good)
        # The values of the dynamic table lie behind the first segments; headers lie at the start.
        at = random.choice([32, 40, 72, 80, 96, *range(dynamic + 8, dynamic + 400, 16)])
        data[at : at + 8] = random.choice([1 << 40, (1 << 63) - 8, 1 << 63, (1 << 64) - 1]).to_bytes(
            8, "little"
        )
        path.write_bytes(data)
        answers = []
        for source in (path, Mapped(path, bytes(data))):
            try:
                read_symbols(read_elf(source))
            except InvalidInput as error:
                answers.append(str(error))
            else:
                answers.append("")
        assert answers[0] == answers[1]
        refused += bool(answers[0])
    assert 0 < refused < 200


USER = known_symbols(
    ["PyInit_a"], [Want("f"), Want("puts", "GLIBC_2.2.5", "libc.so.6"), Want("PyLong_AsLong")]
)
MODULE = "pkg/a.cpython-312-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("defined", "told"), [(["f"], []), (["g"], [(MODULE, "nothing that it loads defines f")])]
)
def test_what_a_module_wants_is_defined_by_what_it_loads(
    defined: list[str], told: list[tuple[str, str]]
) -> None:
    library = elf("pkg/libf.so", "libc.so.6", symbols=known_symbols(defined))
    module = elf(MODULE, "libf.so", "libc.so.6", symbols=USER)
    assert said("elf-symbols", wheel("pkg", module, library)) == told


PLAIN = known_symbols(["PyInit_b"])
LACKS_F = [(MODULE, "nothing that it loads defines f")]


def test_what_another_module_loads_is_not_seen() -> None:
    library = elf("pkg/libf.so", symbols=known_symbols(["f"]))
    module, other = elf(MODULE, symbols=USER), elf("pkg/b.abi3.so", "libf.so", symbols=PLAIN)
    assert said("elf-symbols", wheel("pkg", module, other, library)) == LACKS_F
    # Unless the wheel has its libraries opened for all, or what is loaded is not all known.
    assert said("elf-symbols", wheel("pkg", module, other, library, opens_globally=True)) == []
    unknown = elf(MODULE, "libX11.so.6", symbols=USER)
    assert said("elf-symbols", wheel("pkg", unknown, other, library)) == []
    # What the family opens for all is not meant for its own libraries.
    assert said("elf-symbols", wheel("torch", module, other, library, opens_globally=True)) == LACKS_F


def test_a_library_has_what_any_of_its_users_loads() -> None:
    library = elf("pkg/libf.so", symbols=known_symbols(["f"]))
    middle = elf("pkg/libm1.so", symbols=known_symbols(["m"], [Want("f")]))
    poor = elf("pkg/b.abi3.so", "libm1.so", symbols=PLAIN)
    rich = elf(MODULE, "libm1.so", "libf.so", symbols=PLAIN)
    assert said("elf-symbols", wheel("pkg", middle, poor, rich, library)) == []
    lacking = [("pkg/libm1.so", "nothing that it loads defines f")]
    assert said("elf-symbols", wheel("pkg", middle, poor, library)) == lacking
    # What a program opens may use all that the program has.
    program = elf("pkg/tool", "libm1.so", kind="exec", symbols=known_symbols([]))
    assert said("elf-symbols", wheel("pkg", middle, program, library)) == []


def test_an_interpreter_has_loaded_the_library_of_mathematics_and_a_program_has_not() -> None:
    want = known_symbols(["PyInit_a"], [Want("sin")])
    assert said("elf-symbols", wheel("pkg", elf(MODULE, "libc.so.6", symbols=want))) == []
    program = elf("pkg/tool", "libc.so.6", kind="exec", symbols=known_symbols([], [Want("sin")]))
    assert said("elf-symbols", wheel("pkg", program)) == [("pkg/tool", "nothing that it loads defines sin")]
    by_runtime = elf("pkg/tool", "libstdc++.so.6", kind="exec", symbols=known_symbols([], [Want("sin")]))
    assert said("elf-symbols", wheel("pkg", by_runtime)) == []


@pytest.mark.parametrize(
    ("name", "member", "told"),
    [
        ("PyExc_RuntimeErorr", MODULE, 1),
        ("PyExc_RuntimeErorr", "pkg/a.so", 1),
        ("PyExc_RuntimeErorr", "pkg/a.cpython-312d-x86_64-linux-gnu.so", 0),
        ("PyExc_RuntimeError", MODULE, 0),
        ("_PyObject_GetState", MODULE, 0),
        ("PyLong_AsInt", MODULE, 1),  # since 3.13
    ],
)
def test_a_module_wants_what_its_python_has(name: str, member: str, told: int) -> None:
    module = elf(member, symbols=known_symbols(["PyInit_a"], [Want(name)]))
    assert len(said("elf-symbols", wheel("pkg", module))) == told


def test_what_is_not_known_is_not_told() -> None:
    module = elf(MODULE, "libelsewhere.so.1", symbols=USER)
    assert said("elf-symbols", wheel("pkg", module)) == []
    # A library that another program opens may have its symbols from there, unless the set is all there is.
    plugin = elf("pkg/plugin.so", symbols=known_symbols(["entry"], [Want("f")]))
    assert said("elf-symbols", wheel("pkg", plugin)) == []
    assert len(said("elf-symbols", wheel("pkg", plugin), closed=True)) == 1


@pytest.mark.parametrize(
    ("want", "count"),
    [
        (Want("no_such_function", "GLIBC_2.2.5", "libc.so.6"), 1),
        (Want("pthread_create", "GLIBC_2.2.5", "libpthread.so.0"), 0),
        (Want("new_function", "GLIBC_9.9", "libc.so.6"), 0),
        (Want("puts", "GLIBC_2.6.9", "libc.so.6"), 1),
        (Want("puts", "GLIBC_PRIVATE", "libc.so.6"), 0),
        (Want("_ZSt4cout", "GLIBCXX_3.9", "libstdc++.so.6"), 1),
        (Want("_ZSt4cout", "GLIBCXX_3.4.99", "libstdc++.so.6"), 0),
        (Want("_Unwind_Resume", "GCC_99.0.0", "libgcc_s.so.1"), 0),
        (Want("sin", "GLIBC_2.2.5", "libm.so.6"), 0),
        (Want("deflate"), 0),
        (Want("inflateCopy", "ZLIB_1.2.0.1", "libz.so.1"), 1),
    ],
)
def test_the_c_library_is_known_by_name_and_version(want: Want, count: int) -> None:
    needed = want.library or "libz.so.1"
    module = elf(MODULE, needed, symbols=known_symbols(["PyInit_a"], [want]))
    assert len(said("elf-symbols", wheel("pkg", module))) == count


def test_a_library_of_the_set_lacks_a_version() -> None:
    module = elf(MODULE, "libf.so", symbols=known_symbols(["PyInit_a"], [Want("f", "F_2", "libf.so")]))
    library = elf("pkg/libf.so", symbols=known_symbols(["f", "f@F_1"], versions=["F_1"]))
    assert said("elf-symbols", wheel("pkg", module, library)) == [
        (MODULE, "nothing that it loads defines f@F_2 (libf.so)")
    ]


def test_a_program_is_no_library() -> None:
    facts = wheel(
        "pkg", elf(MODULE, kind="exec"), elf("pkg/libx.so", program=True), elf("pkg/tool", kind="exec")
    )
    assert [member for member, _ in said("elf-program", facts)] == [MODULE, "pkg/libx.so"]


def test_what_forbids_to_be_opened_is_no_library_of_python() -> None:
    tool = elf("pkg/bin/tool", "libtool.so", program=True)
    forbid = [elf(name, not_opened=True) for name in (MODULE, "pkg/libx.so", "pkg/libtool.so")]
    assert [member for member, _ in said("elf-program", wheel("pkg", tool, *forbid))] == [
        MODULE,
        "pkg/libx.so",
    ]
    # As soon as another library needs it, that one cannot be opened either.
    module = elf("pkg/b.so", "libtool.so")
    assert [one for one, _ in said("elf-program", wheel("pkg", tool, module, *forbid[2:]))] == [
        "pkg/libtool.so"
    ]


@pytest.mark.parametrize(
    ("inits", "wanted", "count"),
    [(["PyInit_a"], [], 0), (["PyInit_b"], [], 1), ([], ["PyModule_Create2"], 1), ([], ["PyLong_AsLong"], 0)],
)
def test_a_module_is_entered_by_its_name(inits: list[str], wanted: list[str], count: int) -> None:
    module = elf(MODULE, symbols=known_symbols(inits, map(Want, wanted)))
    assert len(said("extension-init", wheel("pkg", module))) == count


def test_a_package_that_is_a_module_has_the_name_of_its_folder() -> None:
    symbols = known_symbols(["PyInit_pkg"])
    assert said("extension-init", wheel("pkg", elf("pkg/__init__.abi3.so", symbols=symbols))) == []


@pytest.mark.parametrize(
    ("name", "needs", "count"),
    [
        ("a.cpython-312-x86_64-linux-gnu.so.1", "", 1),
        ("a.cpython-312-x86_64-linux-gnu", "", 1),
        ("a.so.1", "", 1),
        ("a.so.1", "a.so.1", 0),
        ("a.so", "", 0),
        ("a.pypy39-pp73-x86_64-linux-gnu.so", "", 0),
        ("libpython3.12.so.1.0", "", 0),
    ],
)
def test_a_module_has_a_name_that_is_imported(name: str, needs: str, count: int) -> None:
    module = elf(f"pkg/{name}", symbols=known_symbols(["PyInit_a"]))
    user = elf("pkg/libu.so", *filter(None, [needs]), symbols=known_symbols([]))
    assert len(said("extension-init", wheel("pkg", module, user))) == count


@pytest.mark.parametrize(
    ("soname", "count"), [("liba.so", 1), ("libb.so", 0), ("libb.so.2", 0), ("libelsewhere.so", 0)]
)
def test_a_library_has_no_name_of_another(soname: str, count: int) -> None:
    one = elf("pkg/liba.so", symbols=known_symbols(["a"]))
    other = elf("pkg/libb.so", soname=soname, symbols=known_symbols(["b"]))
    copy = elf("pkg/libcopy.so", soname="liba.so", symbols=known_symbols(["a"]))
    user = elf("pkg/u.so", "liba.so", "libb.so", "libcopy.so", symbols=known_symbols([]))
    assert len(said("elf-soname", wheel("pkg", one, other, copy, user))) == count


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (6, 2, "a version of ELF that there is none of"),
        (20, 0, "a version of ELF that there is none of"),
        (16, 1, "is an object file"),
        (16, 4, "is the dump of a process"),
        (16, 9, "unknown ELF type 9"),
        (56, 0, "no segments that are loaded"),
    ],
)
def test_headers_that_no_loader_takes(tmp_path: Path, place: int, value: int, what: str) -> None:
    data = bytearray(compiled(tmp_path, SOURCE).read_bytes())
    data[place] = value
    found = Look()("pkg/x.so", Mapped(Path("x.so"), bytes(data))).elf
    assert found is not None and found.problem is not None and what in found.problem


@pytest.mark.parametrize(("system", "count"), [(0, 0), (3, 0), (9, 1)])
def test_the_loader_takes_libraries_for_linux(system: int, count: int) -> None:
    assert len(said("elf-machine", wheel("pkg", elf("pkg/a.so", system=system)))) == count
    assert said("elf-machine", wheel("pkg", elf("pkg/tool", system=system, interp="/lib64/ld.so"))) == []


def test_names_of_entries() -> None:
    assert init_name("spam") == "PyInit_spam"
    assert init_name("lančmít") == "PyInitU_lanmt_2sa6t"  # the example of PEP 489


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PyList_New", None),
        ("PyUnicode_AsUTF8AndSize", None),  # promised since 3.10, and there before
        (
            "PyObject_Vectorcall",
            "it uses PyObject_Vectorcall (3.12), newer than Python 3.9, for which it is tagged",
        ),
        ("PyLong_FromLnog", "it uses PyLong_FromLnog, no part of the stable ABI that its tag promises"),
    ],
)
def test_the_stable_abi(name: str, told: str | None) -> None:
    module = elf("pkg/a.abi3.so", "libc.so.6", symbols=known_symbols(["PyInit_a"], [Want(name)]))
    found = said("stable-abi", wheel("pkg", module, python="cp39-abi3"))
    assert [cause for _, cause in found] == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("python", "name", "count"),
    [
        ("cp312-cp312", "a.cpython-312-x86_64-linux-gnu.so", 0),
        ("cp312-cp312", "a.cpython-312d-x86_64-linux-gnu.so", 1),
        ("cp312-cp312", "a.cpython-312-darwin.so", 1),
        ("cp312-cp312", "a.cpython-312-aarch64-linux-gnu.so", 1),
        ("cp312-cp312", "a.cp312-win_amd64.pyd", 1),
        ("cp313-cp313", "a.cpython-313t-x86_64-linux-gnu.so", 1),
        ("cp313-cp313t", "a.cpython-313-x86_64-linux-gnu.so", 1),
        ("cp39-abi3", "a.cpython-311-x86_64-linux-gnu.so", 1),
        ("py3-none", "a.cpython-311-x86_64-linux-gnu.so", 1),
        ("cp311-none", "a.cpython-311-x86_64-linux-gnu.so", 0),
        ("cp311-cp311", "_C.cpython-39-x86_64-linux-gnu.so", 1),
        ("cp311-cp311", "_C.so", 0),
        ("cp39-abi3", "a.abi3.so", 0),
    ],
)
def test_endings_of_extensions(python: str, name: str, count: int) -> None:
    facts = wheel("pkg", python=python, members=(Member(f"pkg/{name}"),))
    assert len(list(foreign_extensions(facts))) == count


@pytest.mark.parametrize(("facts", "count"), [({}, 0), ({"bits": 32}, 1), ({"order": "big"}, 1)])
def test_one_machine_number_stands_for_several_machines(facts: dict[str, object], count: int) -> None:
    assert len(said("elf-machine", wheel("pkg", elf("pkg/a.so", **facts)))) == count
