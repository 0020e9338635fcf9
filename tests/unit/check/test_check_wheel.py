"""Each rule of one wheel: a broken wheel that it finds, and a good one without any finding."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.check.run import check_paths
from rocwright.errors import ContractBroken
from rocwright.model.findings import Finding
from rocwright.model.gpu import InvalidTarget

OLD_RPATH = "-Wl,--disable-new-dtags"


def found(path: Path, **options: Any) -> list[str]:
    """Rules that an error was found of; set-closed is about what is not there and left out."""
    report = check_paths([path], **options)
    return [finding.rule for finding in report.findings if finding.rule != "set-closed"]


def cause(path: Path, **options: Any) -> str:
    return only(path, **options).cause


def members(path: Path, **options: Any) -> tuple[str, ...]:
    return only(path, **options).members


def only(path: Path, **options: Any) -> Finding:
    [finding] = [one for one in check_paths([path], **options).findings if one.rule != "set-closed"]
    return finding


def test_a_good_torch_has_no_findings(build: Any, library: Any) -> None:
    good = library(
        OLD_RPATH, "-Wl,-rpath,$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib", targets=["gfx90a", "gfx1030"]
    )
    wheel = build.torch(
        {"torch/lib/libtorch_hip.so": good, "torch/_C.so": library(OLD_RPATH, "-Wl,-rpath,$ORIGIN/lib")}
    )
    report = check_paths([wheel], targets=["gfx1030", "gfx90a"])
    assert [finding.rule for finding in report.findings] == ["set-closed"]
    assert report.passed
    assert (report.errors, report.warnings) == (0, 1)


def test_files_that_are_no_wheel(tmp_path: Path, build: Any) -> None:
    zeros = tmp_path / "torch-2.9.0-cp311-cp311-linux_x86_64.whl"
    zeros.write_bytes(bytes(200_000))
    assert found(zeros) == ["readable"]
    cut = build.torch()
    cut.write_bytes(cut.read_bytes()[:-100])
    assert found(cut) == ["readable"]
    assert found(tmp_path / "absent-1-py3-none-any.whl") == ["readable"]
    assert found(build.torch().rename(tmp_path / "torch.whl")) == ["readable"]
    (tmp_path / "notes.txt").write_text("")
    assert found(tmp_path / "notes.txt") == ["readable"]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    report = check_paths([tmp_path])
    assert [finding.rule for finding in report.findings] == ["empty-folder"]
    assert not report.passed
    assert not check_paths([]).passed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/etc/passwd", "not a relative path"),
        ("C:/x", "not a relative path"),
        ("torch\\x.py", "not a relative path"),
        ("torch/../../x.py", "leaves the folder"),
        ("torch//x.py", "leaves the folder"),
    ],
)
def test_member_names(build: Any, name: str, says: str) -> None:
    wheel = build.torch({name: "x"})
    assert found(wheel) == ["member-names"]
    assert says in cause(wheel)


def test_a_member_twice(build: Any) -> None:
    wheel = build.torch()
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(zipfile.ZipInfo("torch/__init__.py"), b"again")
    assert found(wheel) == ["member-twice"]
    assert members(wheel) == ("torch/__init__.py",)


class Unseekable:
    """A stream that cannot go back, so that zipfile writes data descriptors."""

    def __init__(self, path: Path) -> None:
        self.stream = path.open("wb")

    def write(self, data: bytes) -> int:
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()


@pytest.mark.parametrize(
    ("method", "rules"), [(zipfile.ZIP_STORED, ["stored-descriptor"]), (zipfile.ZIP_DEFLATED, [])]
)
def test_stored_members_with_a_data_descriptor(
    build: Any, tmp_path: Path, method: int, rules: list[str]
) -> None:
    wheel = build.torch()
    copy = tmp_path / wheel.name
    stream = Unseekable(copy)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(stream, "w") as archive:
        for info in source.infolist():
            kind = method if info.filename == "torch/version.py" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(info.filename), source.read(info), kind)
    stream.stream.close()
    assert found(copy) == rules


def test_record(build: Any, tmp_path: Path) -> None:
    assert found(build.torch(record={"torch/version.py": None})) == ["record"]
    wheel = build.torch()
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(changed, "w") as archive:
        for info in source.infolist():
            data = source.read(info)
            archive.writestr(
                info.filename, data + b"# edited\n" if info.filename == "torch/__init__.py" else data
            )
    assert found(changed) == ["record"]
    assert "torch/__init__.py" in str(only(changed))


def test_metadata_of_another_version(build: Any) -> None:
    assert found(build.torch(said=("torch", "2.9.0"))) == ["metadata-identity"]
    assert found(build.torch(said=("torchx", "2.9.0+rocm7.1"))) == ["metadata-identity"]


@pytest.mark.parametrize("text", ["rocm[libraries]=={7.1}", "rocm[libraries]=={$(rocm-sdk version)}"])
def test_braces_left_by_a_shell(build: Any, text: str) -> None:
    wheel = build.torch(requires=[text])
    assert found(wheel) == ["requirement-brace"]
    assert "contains a brace" in cause(wheel)


def test_a_malformed_requirement(build: Any) -> None:
    wheel = build.torch(requires=["rocm[libraries]==7.1", "sympy>>1"])
    assert found(wheel) == ["requirement-malformed"]
    assert "'sympy>>1'" in cause(wheel)


def test_tags(build: Any, library: Any) -> None:
    assert found(build.torch(wheel_tag="cp312-cp312-linux_x86_64")) == ["tags"]
    wheel = build("pure", "1", {"pure/x.so": library()}, tag="py3-none-any")
    assert found(wheel) == ["tag-any"]
    assert members(wheel) == ("pure/x.so",)


@pytest.mark.parametrize(
    "text", [None, "x = 1\n", "def initialize(:\n", "def initialize(): pass\ndef other(): pass\n"]
)
def test_rocm_init(build: Any, text: str | None) -> None:
    assert found(build.torch({"torch/_rocm_init.py": text})) == ["torch-rocm-init"]


@pytest.mark.parametrize("text", [None, "hip = None\n", "cuda = '12'\n", "hip: str = ''\n", "hip = (\n"])
def test_a_torch_built_for_the_cpu_only(build: Any, text: str | None) -> None:
    assert found(build.torch({"torch/version.py": text})) == ["torch-hip"]


@pytest.mark.parametrize(
    "requires",
    [
        [],
        ["rocm==7.1"],
        ["rocm[devel]==7.1"],
        ["rocm[libraries]>=7.1"],
        ["rocm[libraries]==7.*"],
        ["rocm[libraries]"],
    ],
)
def test_torch_without_an_exact_rocm(build: Any, requires: list[str]) -> None:
    assert found(build.torch(requires=requires)) == ["torch-requires-rocm"]


@pytest.mark.parametrize("project", ["torchvision", "torchaudio", "apex"])
def test_extensions_pin_torch_exactly(build: Any, project: str) -> None:
    def wheel(*requires: str) -> Path:
        return build.extension(project, requires=requires)

    assert found(wheel("torch==2.9.0+rocm7.1")) == []
    for bad in ([], ["torch"], ["torch>=2.9"], ["torch==2.9.*"], ["torch==2.9.0,!=2.9.1"], ["torchx==1"]):
        assert found(wheel(*bad)) == ["torch-pin"]


def test_runpath_and_rpath(build: Any, library: Callable[..., bytes]) -> None:
    def wheel(*flags: str) -> Path:
        return build.torch({"torch/lib/x.so": library(*flags)})

    assert found(wheel("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN")) == ["elf-runpath"]
    for good in ("$ORIGIN", "$ORIGIN/../../other/lib", "${ORIGIN}/sub", "$ORIGIN/"):
        assert found(wheel(OLD_RPATH, f"-Wl,-rpath,{good}")) == []
    for bad in ("lib", "$ORIGIN/../../..", "$ORIGINAL", "$LIB"):
        assert found(wheel(OLD_RPATH, f"-Wl,-rpath,$ORIGIN:{bad}")) == ["elf-rpath"]


def test_a_damaged_library(build: Any, library: Callable[..., bytes]) -> None:
    wheel = build.torch({"torch/lib/x.so": library()[:200]})
    assert found(wheel) == ["elf-readable"]
    assert members(wheel) == ("torch/lib/x.so",)


def test_device_code(build: Any, library: Callable[..., bytes]) -> None:
    def wheel(*targets: str, **options: Any) -> Path:
        return build.torch({"torch/lib/x.so": library(targets=targets)}, **options)

    assert found(wheel("gfx90a", "gfx1030"), targets=["gfx90a", "gfx1030"]) == []
    assert found(wheel("gfx90a", "gfx1030")) == []
    assert cause(wheel("gfx90a"), targets=["gfx90a", "gfx1030"]).startswith(
        "no library holds code for gfx1030"
    )
    assert cause(wheel("gfx90a", "gfx906"), targets=["gfx90a"]).startswith("libraries hold code for gfx906")
    assert cause(wheel(), targets=["gfx90a"]).startswith("no library holds code for gfx90a")
    # A host wheel whose device code is in wheels of its own.
    assert found(wheel(extras=["device-gfx90a"]), targets=["gfx90a"]) == []
    assert found(wheel("gfx90a:xnack-"), targets=["gfx90a"]) == []
    assert found(wheel("gfx90a:xnack-"), targets=["gfx90a:xnack+"]) == [
        "device-missing",
        "device-extra",
    ]
    with pytest.raises(InvalidTarget):
        check_paths([wheel("gfx90a")], targets=["rtx4090"])


def test_device_code_of_all_libraries_counts_together(build: Any, library: Callable[..., bytes]) -> None:
    one, two = library(targets=["gfx90a"]), library(targets=["gfx1030"])
    wheel = build.torch({"torch/lib/a.so": one, "torch/lib/b.so": two})
    assert found(wheel, targets=["gfx90a", "gfx1030"]) == []


def test_an_extension_may_have_no_device_code(build: Any) -> None:
    wheel = build.extension("torchaudio")
    assert found(wheel, targets=["gfx90a"]) == []


def test_device_code_objects_are_no_host_libraries(build: Any, library: Callable[..., bytes]) -> None:
    code = bytearray(library("-Wl,--enable-new-dtags", "-Wl,-rpath,/opt/rocm"))
    code[18:20] = b"\xe0\x00"
    wheel = build("rocm_x", "1", {"rocm_x/Kernels.co": bytes(code)}, tag="py3-none-any")
    assert found(wheel) == []


def test_a_second_dist_info(build: Any) -> None:
    wheel = build.torch({"other-1.dist-info/METADATA": "Metadata-Version: 2.1\n"})
    assert found(wheel) == ["dist-info"]


def test_what_only_the_strict_reader_refuses_is_said(build: Any) -> None:
    wheel = build.torch(without=["WHEEL"])
    assert found(wheel) == ["structure"]
    assert "WHEEL" in cause(wheel)


def test_all_findings_of_all_files_at_once(build: Any) -> None:
    build.torch({"torch/_rocm_init.py": None, "torch/version.py": None}, requires=[])
    vision = build.extension("torchvision", requires=["torch"])
    report = check_paths([vision.parent])
    assert [(one.file.split("-")[0], one.rule) for one in report.findings] == [
        ("torch", "torch-requires-rocm"),
        ("torch", "torch-rocm-init"),
        ("torch", "torch-hip"),
        ("torchvision", "torch-pin"),
    ]
    with pytest.raises(ContractBroken, match="4 errors in 2 files"):
        report.raise_for_errors()


def test_the_report_is_json_without_folders(build: Any, tmp_path: Path) -> None:
    report = check_paths([build.torch(requires=[])], targets=["gfx90a"])
    text = msgspec.json.encode(report.predicate()).decode()
    assert str(tmp_path) not in text
    document = msgspec.json.decode(text)
    assert document["passed"] is False
    assert document["counts"] == {"files": 1, "errors": 2, "warnings": 0}
    assert document["targets"] == ["gfx90a"]
    assert {finding["rule"] for finding in document["findings"]} == {"torch-requires-rocm", "device-missing"}
    assert set(document["findings"][0]) == {"rule", "severity", "file", "cause", "next_step"}
