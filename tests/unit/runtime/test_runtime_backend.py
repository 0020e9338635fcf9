"""The build backend of the `rocm` sdist: which family it chooses, and what wheel it writes."""

from __future__ import annotations

import email
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import fake_rocm as fake
import pytest
from packaging.requirements import Requirement


class NoGpu:
    class DetectionError(RuntimeError):
        pass

    targets: tuple[str, ...] = ()

    def detect_gpus(self) -> list[dict[str, str]]:
        return [{"target": target} for target in self.targets]


def load(top: Path):
    spec = importlib.util.spec_from_file_location("rocm_build_backend", top / "rocm_build_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def machine() -> NoGpu:
    """The machine's GPUs, to be set by a test."""
    return NoGpu()


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: NoGpu):
    monkeypatch.delenv("ROCM_SDK_TARGET_FAMILY", raising=False)
    module = load(fake.sdist_tree(tmp_path / "sdist"))
    monkeypatch.setattr(module, "_load", lambda name: machine)
    return module


def chosen(backend, tmp_path: Path) -> tuple[str, str]:
    """Family and what selected it, as recorded in the wheel."""
    with zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path))) as wheel:
        values: dict = {}
        exec(wheel.read("rocm_sdk/_set.py"), values)
    return values["FAMILY"], values["SELECTED_BY"]


def test_default_family_without_gpu_is_said_aloud(backend, tmp_path: Path, capsys) -> None:
    assert chosen(backend, tmp_path) == (fake.FAMILY, "default")
    assert capsys.readouterr().err == "rocm: no AMD GPU here; chose the default family gfx90X-dcgpu\n"


def test_variable_over_gpu_over_default(backend, tmp_path: Path, machine, monkeypatch) -> None:
    machine.targets = ("gfx1030",)
    assert chosen(backend, tmp_path) == (fake.OTHER, "gpu")
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", fake.FAMILY)
    assert chosen(backend, tmp_path) == (fake.FAMILY, "environment")
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "GFX90x-DCGPU")
    assert chosen(backend, tmp_path) == (fake.FAMILY, "environment")


def test_unknown_family_lists_the_right_ones(backend, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx90x")
    with pytest.raises(SystemExit) as caught:
        backend.build_wheel(str(tmp_path))
    assert str(caught.value) == (
        "rocm 5.2.3: ROCM_SDK_TARGET_FAMILY=gfx90x is not available. "
        "Set it to one of: gfx103X-dgpu (gfx1030 gfx1031); gfx90X-dcgpu (gfx906 gfx90a)"
    )
    assert list(tmp_path.glob("*.whl*")) == []


def test_unserved_and_unreadable_gpus_are_errors(backend, tmp_path: Path, machine, monkeypatch) -> None:
    machine.targets = ("gfx1201",)
    with pytest.raises(SystemExit, match=r"GPUs \(gfx1201\) are served by no family.*ROCM_SDK_TARGET_FAMILY"):
        backend.build_wheel(str(tmp_path))

    def unreadable():
        raise machine.DetectionError("cannot read node 1")

    monkeypatch.setattr(machine, "detect_gpus", unreadable)
    with pytest.raises(SystemExit, match=r"cannot read node 1\. Choose the family yourself"):
        backend.build_wheel(str(tmp_path))


@pytest.mark.parametrize(
    ("targets", "family"),
    [
        (("gfx1030", "gfx90a"), "b"),  # the first GPU decides; b serves both
        (("gfx90a", "gfx1030"), "b"),
        (("gfx90a",), "a"),  # a and b serve it; a is smaller
        (("gfx1201", "gfx906"), "a"),  # the first one is served by none
        (("gfx1100",), "c"),
        (("gfx1101", "gfx1100"), "c"),  # features of a target do not matter; c and d alike, by name
    ],
)
def test_several_gpus(backend, targets, family: str) -> None:
    families = {
        "b": ["gfx906", "gfx90a", "gfx1030"],
        "a": ["gfx906", "gfx90a"],
        "d": ["gfx1101:xnack+", "gfx1100"],
        "c": ["gfx1100", "gfx1101"],
    }
    assert backend._family_of(list(targets), families, "1", "") == family


def test_wheel_is_deterministic_and_pip_and_uv_can_read_it(backend, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert backend.build_wheel(str(tmp_path / name)) == "rocm-5.2.3-py3-none-any.whl"
    one, two = (tmp_path / name / "rocm-5.2.3-py3-none-any.whl" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert [p.name for p in (tmp_path / "one").iterdir()] == [one.name]
    with zipfile.ZipFile(one) as wheel:
        assert wheel.testzip() is None
        assert not any(member.flag_bits & 8 for member in wheel.infolist())  # uv refuses data descriptors
        names = wheel.namelist()
        recorded = wheel.read("rocm-5.2.3.dist-info/RECORD").decode().splitlines()
        assert [line.split(",")[0] for line in recorded] == names
        expected = {file.name for file in (fake.RUNTIME / "rocm/src/rocm_sdk").glob("*.py")} | {"_set.py"}
        assert {name[9:] for name in names if name.startswith("rocm_sdk/")} == expected
        assert b"Tag: py3-none-any\n" in wheel.read("rocm-5.2.3.dist-info/WHEEL")


def test_metadata(backend, tmp_path: Path) -> None:
    name = backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert name == "rocm-5.2.3.dist-info"
    text = (tmp_path / name / "METADATA").read_text()
    metadata = email.message_from_string(text)
    assert metadata.get_all("Provides-Extra") == [
        "libraries",
        "libraries-gfx103x-dgpu",
        "libraries-gfx90x-dcgpu",
        "devel",
    ]
    assert metadata.get_all("Requires-Dist") == [
        "rocm-sdk-core==5.2.3",
        'rocm-sdk-libraries-gfx90X-dcgpu==5.2.3 ; extra == "libraries"',
        'rocm-sdk-libraries-gfx103X-dgpu==5.2.3 ; extra == "libraries-gfx103x-dgpu"',
        'rocm-sdk-libraries-gfx90X-dcgpu==5.2.3 ; extra == "libraries-gfx90x-dcgpu"',
        'rocm-sdk-devel==5.2.3 ; extra == "devel"',
        'rocm-sdk-libraries-gfx90X-dcgpu==5.2.3 ; extra == "devel"',
    ]
    with zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path))) as wheel:
        assert wheel.read(f"{name}/METADATA").decode() == text
        assert wheel.read(f"{name}/entry_points.txt") == b"[console_scripts]\nrocm-sdk = rocm_sdk._cli:main\n"
    assert backend.get_requires_for_build_wheel() == []


def test_a_set_without_devel_and_libraries(tmp_path: Path, monkeypatch) -> None:
    small = json.loads(json.dumps(fake.ROCM_SET))
    del small["packages"]["libraries"], small["packages"]["devel"]
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", fake.FAMILY)
    module = load(fake.sdist_tree(tmp_path, small))
    name = module.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = email.message_from_string((tmp_path / name / "METADATA").read_text())
    assert metadata.get_all("Requires-Dist") == ["rocm-sdk-core==5.2.3"]
    assert metadata.get_all("Provides-Extra") is None


def test_a_damaged_set_file_is_named(tmp_path: Path) -> None:
    top = fake.sdist_tree(tmp_path)
    (top / "rocm_set.json").write_text('{"version": "5.2.3"}')
    code = "import rocm_build_backend as b; b.build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", code], cwd=top, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "rocm: rocm_set.json of this sdist is not usable: KeyError('mode')\n"


KPACK_METADATA = [
    "Metadata-Version: 2.2",
    "Name: rocm",
    "Version: 5.2.3",
    "Summary: ROCm for Python environments: finds and loads its libraries; provides rocm-sdk.",
    "Requires-Python: >=3.8",
    "Provides-Extra: libraries",
    "Provides-Extra: devel",
    "Provides-Extra: profiler",
    "Provides-Extra: device-gfx1030",
    "Provides-Extra: device-gfx11",
    "Provides-Extra: device-gfx906",
    "Provides-Extra: device-all",
    "Provides-Extra: device",
    "Requires-Dist: rocm-sdk-core==5.2.3",
    'Requires-Dist: rocm-sdk-libraries==5.2.3 ; extra == "libraries"',
    'Requires-Dist: rocm-sdk-devel==5.2.3 ; extra == "devel"',
    'Requires-Dist: rocm-sdk-libraries==5.2.3 ; extra == "devel"',
    'Requires-Dist: rocm-profiler==5.2.3 ; sys_platform == "linux" and extra == "profiler"',
    'Requires-Dist: rocm-sdk-device-gfx1030==5.2.3 ; sys_platform == "linux" and extra == "device-gfx1030"',
    'Requires-Dist: rocm-sdk-device-gfx11==5.2.3 ; extra == "device-gfx11"',
    "Requires-Dist: rocm-sdk-device-gfx906==5.2.3 ; "
    '(sys_platform == "linux" or sys_platform == "win32") and extra == "device-gfx906"',
    'Requires-Dist: rocm-sdk-device-gfx1030==5.2.3 ; sys_platform == "linux" and extra == "device-all"',
    'Requires-Dist: rocm-sdk-device-gfx11==5.2.3 ; extra == "device-all"',
    "Requires-Dist: rocm-sdk-device-gfx906==5.2.3 ; "
    '(sys_platform == "linux" or sys_platform == "win32") and extra == "device-all"',
    'Requires-Dist: rocm-sdk-device==5.2.3 ; extra == "device"',
]


def test_kpack_metadata_is_static_and_the_same_in_sdist_and_wheel(tmp_path: Path) -> None:
    """Every target with a wheel has an extra; today a missing one is only a line in a log."""
    top = fake.sdist_tree(tmp_path, fake.KPACK_SET)
    assert (top / "PKG-INFO").read_text().splitlines() == KPACK_METADATA
    with zipfile.ZipFile(tmp_path / load(top).build_wheel(str(tmp_path))) as wheel:
        assert wheel.read("rocm-5.2.3.dist-info/METADATA").decode().splitlines() == KPACK_METADATA
    for line in KPACK_METADATA:
        if line.startswith("Requires-Dist: "):
            Requirement(line[len("Requires-Dist: ") :])


def test_kpack_wheels_of_all_machines_are_the_same(tmp_path: Path, monkeypatch) -> None:
    made = set()
    for number, gpus in enumerate([(), ("gfx906",), ("gfx1030", "gfx1201")]):
        monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", str(number))
        directory = tmp_path / str(number)
        top = fake.sdist_tree(directory / "sdist", fake.KPACK_SET)
        fake.with_gpus(top, *gpus)
        source = (fake.RUNTIME / "rocm/src/rocm_sdk/_detect.py").read_bytes()
        backend = load(top)
        backend.prepare_metadata_for_build_wheel(str(directory))
        (top / "src/rocm_sdk/_detect.py").write_bytes(source)  # the test's own change is not to be compared
        settings = {"selector": "static"} if number else None
        made.add((directory / backend.build_wheel(str(directory), settings)).read_bytes())
    assert len(made) == 1


def test_static_selector_takes_the_default_family_on_every_machine(
    backend, tmp_path: Path, machine, monkeypatch, capsys
) -> None:
    machine.targets = ("gfx1030",)
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", fake.OTHER)
    with zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path), {"selector": "static"})) as wheel:
        values: dict = {}
        exec(wheel.read("rocm_sdk/_set.py"), values)
        metadata = email.message_from_bytes(wheel.read("rocm-5.2.3.dist-info/METADATA"))
    assert (values["FAMILY"], values["SELECTED_BY"]) == (fake.FAMILY, "static")
    assert metadata.get_all("Requires-Dist")[1].startswith("rocm-sdk-libraries-gfx90X-dcgpu==5.2.3 ; ")
    assert capsys.readouterr().err == ""


def test_legacy_pkg_info_leaves_the_requirements_open(tmp_path: Path) -> None:
    """Without these lines uv takes an sdist's empty requirements for the final ones."""
    lines = (fake.sdist_tree(tmp_path) / "PKG-INFO").read_text().splitlines()
    assert lines[-2:] == ["Dynamic: Requires-Dist", "Dynamic: Provides-Extra"]
    assert not [line for line in lines if line.startswith(("Requires-Dist", "Provides-Extra"))]


def test_families_of_other_platforms_are_not_chosen(tmp_path: Path, monkeypatch) -> None:
    rocm_set = json.loads(json.dumps(fake.ROCM_SET))
    rocm_set["packages"]["libraries"][fake.OTHER]["platforms"] = ["windows"]
    top = fake.sdist_tree(tmp_path, rocm_set)
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", fake.OTHER)
    with pytest.raises(
        SystemExit, match=r"not available\. Set it to one of: gfx90X-dcgpu \(gfx906 gfx90a\)$"
    ):
        load(top).build_wheel(str(tmp_path))
    monkeypatch.delenv("ROCM_SDK_TARGET_FAMILY")
    rocm_set["default_family"] = fake.OTHER
    module = load(fake.sdist_tree(tmp_path / "again", rocm_set))
    monkeypatch.setattr(module, "_load", lambda name: NoGpu())
    assert chosen(module, tmp_path) == (fake.FAMILY, "default")


@pytest.mark.parametrize(
    ("gpus", "lines"),
    [
        (
            (),
            [
                "No AMD GPU was found on this machine. On the machine with the GPU, run:",
                '    pip install "rocm==5.2.3" && rocm-sdk targets --detect',
            ],
        ),
        (
            ("gfx906", "gfx1101", "gfx906"),
            [
                "This machine has: gfx906 gfx1101",
                "Run instead:",
                '    pip install "rocm[libraries,device-gfx906,device-gfx11]==5.2.3"',
            ],
        ),
        (
            ("gfx1103",),
            [
                "This machine has: gfx1103",
                "No device package serves gfx1103; the nearest: gfx1100 gfx1101",
            ],
        ),
    ],
    ids=["no GPU", "two kinds", "unserved"],
)
@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "build_wheel"])
def test_the_device_extra_never_chooses(tmp_path: Path, hook: str, gpus, lines) -> None:
    """Today `rocm[device]` without a GPU silently picks a target."""
    top = fake.refusal_tree(tmp_path)
    fake.with_gpus(top, *gpus)
    code = f"import rocm_device_backend as b; assert b.get_requires_for_build_wheel() == []; b.{hook}('.')"
    done = subprocess.run([sys.executable, "-c", code], cwd=top, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        'rocm: the extra "device" chooses nothing: which device code is right depends on the GPU.',
        "Extras of rocm 5.2.3: device-gfx1030 device-gfx11 device-gfx906 device-all",
        *lines,
    ]
    assert (top / "PKG-INFO").read_text().splitlines()[1::4] == [
        "Name: rocm-sdk-device",
        "Dynamic: Requires-Dist",
    ]
