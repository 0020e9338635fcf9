"""Rules about METADATA, tags, requirements, licences and bills of materials."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from wheel_facts import LINUX, findings, ids, only, sdist, wheel

from rocwright.binary.symbols import Names, Symbols
from rocwright.check.facts import ElfFacts, Facts, Fault, Headers, Member, PeFacts
from rocwright.check.rules import content, metadata, needs, requires
from rocwright.check.run import check_paths

RULES = (*metadata.RULES, *requires.RULES, *content.LEGAL_RULES)
TORCH = "2.9.0+rocm7.1"


def said(project: str = "pure", version: str = "1.0", **headers: Any) -> Facts:
    return wheel(project, version, headers=headers)


# -- who it is


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("pure", "1.1"),
        ("other", "1.0"),
        (None, "1.0"),
        ("pure", None),
        ("pure", "one"),
        ("a b", "1.0"),
        ("", ""),
    ],
)
def test_metadata_of_another(name: str | None, version: str | None) -> None:
    finding = only(wheel(headers={"name": name, "version": version}), RULES)
    assert (finding.rule, finding.severity) == ("metadata-identity", "error")
    assert finding.cause == f"its metadata is for {name} {version}, not pure 1.0"


def test_spellings_of_one_name_and_version() -> None:
    spelled = {"name": "My_Pure", "version": "1.0.0+ROCM7.1"}
    assert ids(wheel("my-pure", "1.0+rocm7.1", headers=spelled), RULES) == []


def test_no_metadata() -> None:
    finding = only(msgspec.structs.replace(wheel("torch", TORCH), headers=Headers()), RULES)
    assert (finding.rule, finding.cause) == (
        "metadata-identity",
        "it has no METADATA, or one without any field",
    )
    empty = only(msgspec.structs.replace(sdist("rocm", "7.1"), headers=Headers()), RULES)
    assert empty.cause.startswith("it has no PKG-INFO")


def test_without_one_dist_info_the_metadata_is_not_judged() -> None:
    for folders in ((), ("pure-1.0.dist-info", "x-2.dist-info")):
        unclear = wheel(headers={"version": "2", "metadata_version": None}, dist_infos=folders)
        assert ids(unclear, RULES) == []


def test_metadata_that_cannot_be_read_is_told_by_another_rule() -> None:
    for name, project in (("METADATA", "torch"), ("WHEEL", "pure")):
        fault = Fault(f"{project}-1.0.dist-info/{name}", "its checksum is wrong")
        unread = msgspec.structs.replace(wheel(project), damaged=(fault,), wheel_tags=frozenset())
        if name == "METADATA":
            unread = msgspec.structs.replace(unread, headers=Headers(), wheel_tags=unread.tags)
        assert ids(unread, RULES) == []


# -- its fields


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"metadata_version": None}, "Metadata-Version is None"),
        ({"metadata_version": "two"}, "Metadata-Version is 'two'"),
        ({"metadata_version": "2"}, "Metadata-Version is '2'"),
        ({"metadata_version": "3.0"}, "Metadata-Version 3.0 is newer"),
        ({"requires_python": "3.10 or newer"}, "Requires-Python '3.10 or newer' is not a version specifier"),
        ({"license_files": ("/LICENSE",)}, "License-File '/LICENSE' is not a path"),
        ({"license_files": ("../LICENSE",)}, "License-File '../LICENSE' is not a path"),
        ({"license_files": ("a\\LICENSE",)}, "is not a path"),
        ({"license_files": ("",)}, "License-File '' is not a path"),
        ({"license_files": ("LICENSE",)}, "License-File 'LICENSE' names no file in the wheel"),
        ({"license_expression": "MIT or so"}, "License-Expression 'MIT or so' is not an SPDX expression"),
        ({"license_expression": "MIT", "license": "MIT"}, "both License and License-Expression"),
        ({"unparsed": ("requires-dst",)}, "'requires-dst' cannot be read"),
    ],
)
def test_fields_that_are_malformed(headers: dict[str, Any], says: str) -> None:
    finding = only(said(**headers), RULES)
    assert (finding.rule, finding.severity) == ("metadata-fields", "error")
    assert says in finding.cause


@pytest.mark.parametrize(
    "headers",
    [
        {"metadata_version": "1.0"},
        {"metadata_version": "2.99"},
        {"requires_python": ">=3.10,!=3.14.1"},
        {"license": "anything"},
        {"license_expression": "Apache-2.0 WITH LLVM-exception AND (MIT OR LicenseRef-Own)"},
    ],
)
def test_fields_that_are_fine(headers: dict[str, Any]) -> None:
    assert ids(said(**headers), RULES) == []


@pytest.mark.parametrize(
    "place",
    ["licenses/doc/hip/copyright", "license_files/doc/hip/copyright", "doc/hip/copyright", "copyright"],
)
def test_where_the_texts_of_license_file_lie(place: str) -> None:
    named = wheel(members=[f"pure-1.0.dist-info/{place}"], headers={"license_files": ("doc/hip/copyright",)})
    assert ids(named, RULES) == []


def test_an_sdist_has_its_texts_elsewhere() -> None:
    assert ids(sdist("pure", "1.0", license_files=("LICENSE",)), RULES) == []


# -- tags


def tagged(name: str, *inside: str) -> Facts:
    return wheel(tag=name, wheel_tags=frozenset(inside))


def test_tags_of_name_and_wheel_file() -> None:
    assert ids(tagged(LINUX, LINUX), RULES) == []
    # One line may spell several tags.
    many = frozenset({"py2-none-any", "py3-none-any"})
    assert (
        ids(wheel(tag="py2.py3-none-any", tags=many, wheel_tags=frozenset({"py2.py3-none-any"})), RULES) == []
    )
    for inside in ((), ("py3-none-manylinux_2_28_x86_64",), (LINUX, "py2-none-any")):
        finding = only(tagged(LINUX, *inside), RULES)
        assert (finding.rule, finding.severity) == ("tags", "error")
        assert finding.cause == f"its name says {LINUX}, WHEEL says {', '.join(sorted(inside)) or 'none'}"
    assert "malformed tag among linux" in only(tagged(LINUX, "linux"), RULES).cause


def test_a_missing_wheel_file_is_not_told_as_a_tag() -> None:
    members = (Member("pure-1.0.dist-info/METADATA"),)
    assert ids(msgspec.structs.replace(wheel(wheel_tags=frozenset()), members=members), RULES) == []


@pytest.mark.parametrize(
    ("tag", "member", "wrong"),
    [
        ("cp311-cp311-linux_x86_64", "a/_C.cpython-312-x86_64-linux-gnu.so", "cp312"),
        ("cp311-cp311-linux_x86_64", "a/_C.cpython-311-x86_64-linux-gnu.so", None),
        ("cp313-cp313t-linux_x86_64", "a/_C.cpython-313-x86_64-linux-gnu.so", "cp313"),
        ("cp313-cp313t-linux_x86_64", "a/_C.cpython-313t-x86_64-linux-gnu.so", None),
        ("cp312-cp312-win_amd64", "a/_C.cp311-win_amd64.pyd", "cp311"),
        ("cp312-cp312-win_amd64", "a/_C.cp312-win_amd64.pyd", None),
        ("cp311-cp311-linux_x86_64", "a/_C.abi3.so", None),
        ("cp311-cp311-linux_x86_64", "a/_C.so", None),
        # Wheels for several Pythons may have a build for each.
    ],
)
def test_extensions_are_for_the_python_of_the_tag(tag: str, member: str, wrong: str | None) -> None:
    found = findings(wheel("a", members=[member], tag=tag), RULES)
    about = tag.split("-")[1]
    said = [] if wrong is None else [f"it is an extension for {wrong}, and the wheel is for {about}"]
    assert [each.cause for each in found] == said
    assert [each.rule for each in found] == ["tags"] * len(said)


BOUND = "a/_C.cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize("tag", ["py3-none-linux_x86_64", "cp39-abi3-linux_x86_64"])
def test_an_extension_for_one_python_in_a_wheel_for_any(tag: str) -> None:
    [finding] = findings(wheel("a", members=[BOUND], tag=tag), RULES)
    assert finding.rule == "tags"
    assert "it is an extension for cp311 alone" in finding.cause
    # Other Pythons import the source, or nobody imports the library: ctypes loads it.
    assert ids(wheel("a", members=[BOUND, "a/_C.py"], tag=tag), RULES) == []
    loaded = ElfFacts(BOUND, symbols=Symbols(Names()))
    assert ids(wheel("a", members=[BOUND], tag=tag, elf=(loaded,)), RULES) == []
    imported = ElfFacts(BOUND, symbols=Symbols(Names(), inits=frozenset({"PyInit__C"})))
    assert ids(wheel("a", members=[BOUND], tag=tag, elf=(imported,)), RULES) == ["tags"]


def test_an_extension_for_several_pythons_is_one_of_them() -> None:
    both = [f"a/_C.cpython-3{minor}-x86_64-linux-gnu.so" for minor in (10, 11)]
    assert ids(wheel("a", members=both, tag="cp311-cp311-linux_x86_64"), RULES) == []


@pytest.mark.parametrize(
    ("tag", "wanted", "wrong"),
    [
        ("cp311-cp311-linux_x86_64", ">=3.12", True),
        ("cp311-cp311-linux_x86_64", "<3.11", True),
        ("cp311-cp311-linux_x86_64", ">=3.11.4", False),
        ("cp311-cp311-linux_x86_64", "==3.11.*", False),
        ("cp310-abi3-linux_x86_64", ">=3.12", False),
        ("cp315-abi3t-linux_x86_64", ">=3.16", False),
        ("py3-none-any", ">=3.12", False),
    ],
)
def test_a_wheel_for_pythons_that_may_not_install_it(tag: str, wanted: str, wrong: bool) -> None:
    found = findings(wheel(tag=tag, headers={"requires_python": wanted}), RULES)
    said = [f"Requires-Python {wanted!r} excludes every Python in its tags"] if wrong else []
    assert [each.cause for each in found] == said


def test_an_sdist_whose_extras_come_late_says_so() -> None:
    late = ("requires-dist", "provides-extra")
    assert ids(sdist("rocm", "7.1", dynamic=late), RULES) == []
    assert ids(sdist("rocm", "7.1", metadata_version="2.1"), RULES) == []
    assert ids(sdist("rocm", "7.1", extras=("libraries", "devel")), RULES) == []
    assert ids(sdist("other", "7.1"), RULES) == []
    finding = only(sdist("rocm", "7.1", dynamic=late[:1]), RULES)
    assert (finding.rule, finding.severity) == ("metadata-fields", "error")
    assert finding.cause == (
        "its extras are known only where it is installed, but Dynamic does not list Provides-Extra: "
        "uv installs nothing for them"
    )


def test_names_that_are_no_text_can_be_stated() -> None:
    """As a library with a damaged string table has them; nothing could write them as JSON."""
    odd = ElfFacts("a/b\udcff.so", needed=("lib\udcff.so",))
    finding = only(wheel(elf=(odd,)), needs.RULES)
    assert finding.cause.startswith("it needs lib\\udcff.so: ")
    assert finding.members == ("a/b\\udcff.so",)


def test_compiled_files_in_a_wheel_for_any_platform() -> None:
    def any_platform(**fields: Any) -> Facts:
        return wheel(tag="py3-none-any", **fields)

    finding = only(any_platform(elf=(ElfFacts("pure/a.so"), ElfFacts("pure/b.so"))), RULES)
    assert (finding.rule, finding.members) == ("tag-any", ("pure/a.so", "pure/b.so"))
    assert ids(any_platform(pe=(PeFacts("pure/x.pyd"),)), RULES) == ["tag-any"]
    assembly = PeFacts("pure/Net.dll", machine=0x14C, portable=True)
    assert ids(any_platform(pe=(assembly,)), RULES) == []
    # It is none of several machines of which one is chosen.
    assert ids(any_platform(pe=(PeFacts("pure/x.pyd"), assembly)), RULES) == ["tag-any"]
    # Launchers that an installer writes for scripts.
    assert ids(any_platform(pe=(PeFacts("pure/t64.exe", is_dll=False),)), RULES) == []
    assert ids(wheel(elf=(ElfFacts("pure/a.so"),)), RULES) == []


def test_compiled_files_for_several_machines_are_there_to_choose_from() -> None:
    linux = (ElfFacts("a/linux/x86", machine=62), ElfFacts("a/linux/arm", machine=183))
    assert ids(wheel(tag="py3-none-any", elf=linux), RULES) == []
    both = wheel(tag="py3-none-any", elf=linux[:1], pe=(PeFacts("a/windows/a.dll"),))
    assert ids(both, RULES) == []
    broken = ElfFacts("a/b.so", machine=183, problem="cut")
    assert ids(wheel(tag="py3-none-any", elf=(linux[0], broken)), RULES) == ["tag-any"]


def test_a_tag_that_stands_for_more_than_any_wheel_is_for() -> None:
    """Four hundred interpreters, ABIs and platforms are 64 million tags."""
    text = "-".join(".".join([word] * 400) for word in ("py3", "none", "any"))
    finding = only(tagged(LINUX, text), RULES)
    assert finding.rule == "tags"
    assert finding.cause.startswith("WHEEL has a malformed tag among py3.py3.")
    assert len(finding.cause) < 1100


@pytest.mark.parametrize("extra", ["", "[devel]", "{family}", "device gfx", "x-"])
def test_extras_that_nobody_can_ask_for(extra: str) -> None:
    finding = only(said(extras=(extra,)), RULES)
    assert (finding.rule, finding.severity) == ("metadata-fields", "error")
    assert finding.cause == f"Provides-Extra {extra!r} is not a valid name of an extra"


def test_spellings_of_extras() -> None:
    assert ids(said(extras=("a_b", "A.B", "device-gfx1100", "3d")), RULES) == []


def test_metadata_above_all_measure_is_told_for_that() -> None:
    large = Member("pure-1.0.dist-info/METADATA", 60_000_000, 100)
    facts = msgspec.structs.replace(wheel(), members=(large,), headers=Headers())
    assert only(facts, RULES).cause == "its METADATA has 60,000,000 bytes, far more than any real one"


# -- requirements


@pytest.mark.parametrize(
    "text", ["rocm[libraries]=={7.1}", "rocm=={$(rocm-sdk version)}", "x=={version}", "}"]
)
def test_braces(text: str) -> None:
    finding = only(said(requires=(text,)), RULES)
    assert (finding.rule, finding.severity) == ("requirement-brace", "error")
    assert repr(text) in finding.cause


@pytest.mark.parametrize("text", ["sympy>>1", "sympy version 1", "==1", "x; python_version", "x[a==1"])
def test_malformed_requirements(text: str) -> None:
    finding = only(said(requires=("numpy>=1", text)), RULES)
    assert (finding.rule, finding.severity) == ("requirement-malformed", "error")
    assert repr(text) in finding.cause
    assert "\n" not in finding.cause


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # Ours where Python's stack ends first, packaging's own from 26.4 on.
        ("x; " + "(" * 3000 + "os_name == 'nt'" + ")" * 3000, "is nested "),
        ("x; os_name ~= 'nt'", 'its marker compares what cannot be compared: os_name ~= "nt"'),
        ("x; python_version ~= 'new'", "its marker compares what cannot be compared"),
        ("x; 'a' in extras", "its marker asks for 'extras', which no environment defines"),
    ],
)
def test_markers_that_installers_end_at(text: str, says: str) -> None:
    finding = only(said(requires=(text,)), RULES)
    assert finding.rule == "requirement-malformed"
    assert says in finding.cause
    assert len(finding.cause) < 400


@pytest.mark.parametrize("place", ["file:///build/x-1.whl", "../x-1.whl", "/build/x", "FILE:x"])
def test_a_requirement_on_a_file_of_the_build_machine(place: str) -> None:
    finding = only(said(requires=(f"x @ {place}",)), RULES)
    assert finding.rule == "requirement-malformed"
    assert finding.cause == f"Requires-Dist 'x @ {place}' names a file of one machine, which no other has"


@pytest.mark.parametrize("place", ["https://example.org/x-1.whl", "git+https://example.org/x@1"])
def test_a_requirement_on_a_file_of_all(place: str) -> None:
    assert ids(said(requires=(f"x @ {place}",)), RULES) == []


def test_an_empty_extra() -> None:
    finding = only(said(requires=("x; extra == ''",)), RULES)
    assert finding.cause == "it requires x for the extra '', which no Provides-Extra offers"


def test_extras() -> None:
    def offering(extras: tuple[str, ...], *requirements: str) -> list[str]:
        return ids(said(requires=requirements, extras=extras), RULES)

    assert offering(("dev",), 'x; extra == "dev"') == []
    assert offering(("My_Extra",), "x; python_version > '3.8' and extra == 'my-extra'") == []
    assert offering(("dev",), 'x; extra == "test"') == ["requirement-extra"]
    assert offering((), "x; 'test' == extra") == ["requirement-extra"]
    assert offering(("a",), 'x; extra == "a" or extra == "b"') == ["requirement-extra"]
    finding = only(said(requires=('x; extra == "t"', 'y; extra == "t"')), RULES)
    assert finding.cause == "it requires x, y for the extra 't', which no Provides-Extra offers"


@pytest.mark.parametrize(
    ("requirements", "says"),
    [
        ((), "it does not require rocm[libraries]==…"),
        (("rocm==7.1",), "it does not require rocm[libraries]==…"),
        (("rocm[devel]==7.1",), "it does not require rocm[libraries]==…"),
        (("rocm-sdk-libraries==7.1",), "it does not require rocm[libraries]==…"),
        (("rocm[libraries]>=7.1",), "rocm[libraries]>=7.1 is not an exact pin"),
        (("rocm[libraries]==7.*",), "rocm[libraries]==7.* is not an exact pin"),
        (("ROCm[Libraries]",), "is not an exact pin"),
    ],
)
def test_a_torch_without_an_exact_rocm(requirements: tuple[str, ...], says: str) -> None:
    finding = only(said("torch", TORCH, requires=requirements), requires.RULES)
    assert (finding.rule, finding.severity) == ("torch-requires-rocm", "error")
    assert says in finding.cause


def test_a_torch_that_needs_no_rocm_packages() -> None:
    for member in (
        "torch/lib/libamdhip64.so.7",
        "torch/lib/rocm/bin/amdhip64_7.dll",
        "torch/lib/amdhip64_7.dll",
    ):
        assert ids(wheel("torch", TORCH, [member]), requires.RULES) == []
    assert ids(wheel("torch", TORCH, ["torch/lib/libtorch_hip.so"]), requires.RULES) == [
        "torch-requires-rocm"
    ]


def test_a_torch_that_brings_rocm_and_requires_it() -> None:
    headers = {"requires": ("rocm[libraries]==7.1",)}
    finding = only(wheel("torch", TORCH, ["torch/lib/libamdhip64.so.7"], headers=headers), requires.RULES)
    assert finding.rule == "torch-requires-rocm"
    assert finding.cause == (
        "it brings ROCm's libraries and requires rocm[libraries]==7.1: a process may load two of each"
    )
    for text in ("rocm==7.1", "rocm-sdk-core==7.1"):
        left = wheel("torch", TORCH, ["torch/lib/libamdhip64.so.7"], headers={"requires": (text,)})
        assert f"requires {text}:" in only(left, requires.RULES).cause


@pytest.mark.parametrize("marker", ["python_version < '3.9'", "sys_platform == 'win32'", "extra == 'rocm'"])
def test_requirements_that_hold_nowhere(marker: str) -> None:
    for project, text, rule in (
        ("torch", "rocm[libraries]==7.1", "torch-requires-rocm"),
        ("torchvision", "torch==2.9.0+rocm7.1", "torch-pin"),
        ("amd-torch-device-gfx942", f"torch=={TORCH}", "device-pin"),
    ):
        version = TORCH if project.startswith("amd") else "1"
        nowhere = said(project, version, requires=(f"{text}; {marker}",), extras=("rocm",))
        assert ids(nowhere, requires.RULES) == [rule]
        here = said(project, version, requires=(f"{text}; sys_platform == 'linux'",))
        assert ids(here, requires.RULES) == []


def test_an_extension_for_rocm_pins_the_torch_for_rocm() -> None:
    """PyPI has a torch 2.9.0, too, made for another GPU."""
    finding = only(said("torchvision", "0.24.0+rocm7.1", requires=("torch==2.9.0",)), requires.RULES)
    assert (finding.rule, finding.severity) == ("torch-pin", "error")
    assert finding.cause == "it requires torch==2.9.0, which torch from any other index satisfies, too"
    assert finding.next_step == "pin the whole version, as in torch==2.9.0+rocm7.1"
    assert ids(said("torchvision", "0.24.0", requires=("torch==2.9.0",)), requires.RULES) == []


def test_what_cannot_be_read_is_told_once() -> None:
    """A pin with a stray brace is no missing pin."""
    assert ids(said("torch", TORCH, requires=("rocm[libraries]=={7.1}",)), RULES) == ["requirement-brace"]
    assert ids(said("apex", "1", requires=("torch=={x}",)), RULES) == ["requirement-brace"]
    assert ids(said("apex", "1", requires=("torch =>2",)), RULES) == ["requirement-malformed"]
    device = said("amd-torch-device-gfx942", TORCH, requires=("Torch=={x}",))
    assert ids(device, RULES) == ["requirement-brace"]


@pytest.mark.parametrize("project", ["torchvision", "torchaudio", "apex"])
@pytest.mark.parametrize(
    "text", ["", "torch", "torch>=2.9", "torch==2.9.*", "torch!=2.9.1,==2.9.0", "torchx==1"]
)
def test_extensions_without_an_exact_torch(project: str, text: str) -> None:
    finding = only(said(project, "1", requires=(text,) if text else ()), requires.RULES)
    assert (finding.rule, finding.severity) == ("torch-pin", "error")
    shown = text if text.startswith("torch") and text != "torchx==1" else "no torch at all"
    assert finding.cause.startswith(f"it requires {shown};")
    assert ids(said(project, "1", requires=("torch==2.9.0+rocm7.1",)), requires.RULES) == []


@pytest.mark.parametrize(
    ("project", "text", "exact"),
    [
        ("torch", "triton==3.5.*", "triton==3.5.0"),
        ("torch", 'pytorch-triton-rocm>=3; sys_platform == "linux"', "pytorch-triton-rocm==3.5"),
        (
            "torch",
            'amd-torch-device-gfx942; extra == "device-x"',
            'amd-torch-device-gfx942==2.9; extra == "device-x"',
        ),
        ("torchvision", "rocm[libraries]", "rocm[libraries]==7.1"),
        ("rocm-sdk-libraries", "rocm-sdk-core>=7.1", "rocm-sdk-core==7.1"),
        ("rocm-sdk-devel", "rocm-sdk-core~=7.1", "rocm-sdk-core===7.1"),
        ("amd-torch-device-gfx942", "rocm-sdk-device-x", "rocm-sdk-device-x==7.1"),
    ],
)
def test_requirements_inside_the_family_are_exact(project: str, text: str, exact: str) -> None:
    own = {
        "torch": ["rocm[libraries]==7.1"],
        "torchvision": [f"torch=={TORCH}"],
        "amd-torch-device-gfx942": ["torch==1.0"],
    }.get(project, [])

    def requiring(each: str) -> Facts:
        return said(project, "1.0", requires=(*own, each), extras=("device-x",))

    finding = only(requiring(text), requires.RULES)
    assert (finding.rule, finding.severity) == ("family-pin", "error")
    if "===" not in exact:
        assert ids(requiring(exact), requires.RULES) == []


def test_others_may_take_any_torch_and_the_family_any_numpy() -> None:
    assert ids(said("bitsandbytes", "1", requires=("torch>=2.2", "triton", "rocm-sdk-core")), RULES) == []
    assert ids(said("torch", TORCH, requires=("rocm[libraries]==7.1", "sympy>=1.13")), RULES) == []


def test_the_sdist_that_selects_packages_pins_them() -> None:
    line = 'rocm-sdk-libraries>=7.1 ; extra == "libraries"'
    assert ids(sdist("rocm", "7.1", requires=(line,), extras=("libraries",)), RULES) == ["family-pin"]
    assert ids(sdist("rocm", "7.1", requires=(line.replace(">=", "=="),), extras=("libraries",)), RULES) == []


@pytest.mark.parametrize(
    ("project", "host"), [("amd-torch-device-gfx942", "torch"), ("rocm-sdk-device-x", "rocm-sdk-libraries")]
)
def test_a_device_wheel_belongs_to_one_host(project: str, host: str) -> None:
    for text in ("", host, f"{host}>=1.0", f"{host}==1.0.*", f"{host}==1.1"):
        finding = only(said(project, "1.0", requires=(text,) if text else ()), requires.RULES)
        assert (finding.rule, finding.severity) == ("device-pin", "error")
        assert finding.cause.startswith(f"it requires {text or f'no {host} at all'};")
        assert finding.next_step == f"let it require {host}==1.0"
    assert ids(said(project, "1.0", requires=(f"{host}==1.0.0",)), requires.RULES) == []


# -- licences and bills of materials

CYCLONE = json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": []})
SPDX = json.dumps({"spdxVersion": "SPDX-2.3"})
SPDX3 = json.dumps({"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": []})
BILL = "pure-1.0.dist-info/sboms/pure.cdx.json"


def bundling(project: str = "pure", member: str = "pure.libs/libz.so.1", **fields: Any) -> Facts:
    return wheel(project, "1.0", [member], **fields)


def test_a_repaired_wheel_without_licences_and_bill() -> None:
    assert [(one.rule, one.severity) for one in findings(bundling(), content.LEGAL_RULES)] == [
        ("licences", "warning"),
        ("sbom", "warning"),
    ]
    assert "pure.libs/libz.so.1" in findings(bundling(), content.LEGAL_RULES)[0].cause
    assert ids(bundling(member="pure/.dylibs/libz.1.dylib"), content.LEGAL_RULES) == ["licences", "sbom"]
    good = bundling(licences=("pure-1.0.dist-info/LICENSE",), sboms=(BILL,), texts={BILL: CYCLONE})
    assert ids(good, content.LEGAL_RULES) == []


def test_libraries_of_its_own_need_no_bill() -> None:
    assert ids(bundling(member="pure/libz.so.1"), content.LEGAL_RULES) == []
    assert ids(bundling("torch", "torch/lib/libtorch_hip.so"), content.LEGAL_RULES) == []


def test_a_torch_that_brings_rocm_brings_its_licences() -> None:
    fat = bundling("torch", "torch/lib/libamdhip64.so.7")
    assert ids(fat, content.LEGAL_RULES) == ["licences", "sbom"]


@pytest.mark.parametrize(
    "project", ["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-x", "rocm-sdk-devel", "rocm-profiler"]
)
def test_packages_of_rocm_must_have_both(project: str) -> None:
    bare = bundling(project, "_rocm/lib/libx.so")
    assert [(one.rule, one.severity) for one in findings(bare, content.LEGAL_RULES)] == [
        ("licences", "error"),
        ("sbom", "error"),
    ]


def test_a_text_that_license_file_names_is_a_licence_whatever_it_is_called() -> None:
    info = "pure-1.0.dist-info"
    named = wheel(
        members=["pure.libs/libz.so.1", f"{info}/licenses/zlib.txt"],
        headers={"license_files": ("zlib.txt",)},
    )
    assert ids(named, content.LEGAL_RULES) == ["sbom"]


@pytest.mark.parametrize(
    "text", [CYCLONE, SPDX, SPDX3, json.dumps({"@context": ["x", "https://spdx.org/y"]})]
)
def test_bills_of_known_formats(text: str) -> None:
    assert ids(wheel(sboms=(BILL,), texts={BILL: text}), content.LEGAL_RULES) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "neither CycloneDX"),
        ("null", "neither CycloneDX"),
        ('{"bomFormat": "CycloneDX"}', "neither CycloneDX"),
        ('{"bomFormat": "Cyclone", "specVersion": "1.6"}', "neither CycloneDX"),
        ('{"spdxVersion": "2.3"}', "neither CycloneDX"),
        ('{"@context": "https://example.org"}', "neither CycloneDX"),
    ],
)
def test_bills_that_nobody_can_read(text: str, says: str) -> None:
    """Also where nothing is bundled: what is there must be right."""
    finding = only(wheel(sboms=(BILL,), texts={BILL: text}), content.LEGAL_RULES)
    assert (finding.rule, finding.members) == ("sbom", (BILL,))
    assert says in finding.cause


def test_bills_in_other_notations_are_left_alone() -> None:
    other = "pure-1.0.dist-info/sboms/pure.spdx"
    assert (
        ids(
            bundling(sboms=(other,), licences=("x",), texts={other: "SPDXVersion: SPDX-2.3"}),
            content.LEGAL_RULES,
        )
        == []
    )


# -- at the door


def door(path: Any) -> list[str]:
    return [one.rule for one in check_paths([path]).findings if one.rule != "set-closed"]


def test_licences_and_bill_of_a_real_wheel(build: Any) -> None:
    info = "rocm_sdk_core-7.1.dist-info"

    def core(files: dict[str, str]) -> Any:
        own = {"rocm_sdk_core/__init__.py": "", "_rocm_sdk_core/lib/libamdhip64.so.7": "", **files}
        return build("rocm_sdk_core", "7.1", own, tag=LINUX)

    licence = {f"{info}/licenses/LICENSE": "text"}
    assert door(core({})) == ["licences", "sbom"]
    assert door(core(licence)) == ["sbom"]
    assert door(core({**licence, f"{info}/sboms/x.cdx.json": CYCLONE})) == []
    assert door(core({**licence, f"{info}/sboms/x.cdx.json": CYCLONE[:-1]})) == ["sbom"]


def test_an_extra_of_a_real_wheel(build: Any) -> None:
    line = 'optree; extra == "optree"'
    needed = ["rocm[libraries]==7.1", line]
    assert door(build.torch(requires=needed)) == ["requirement-extra"]
    assert door(build.torch(requires=needed, extras=["optree"])) == []
