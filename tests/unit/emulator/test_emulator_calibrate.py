"""What an emulator is right about, and what follows for what is tested under it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from command_line import run
from emulator_stand_in import build, protocol_program, script
from rocwright.data import load_table, parse_table
from rocwright.emulator.calibrate import SOURCE, Calibration, OperationAnswer, calibrate
from rocwright.emulator.find import emulator_table, find_emulator, find_runtime
from rocwright.emulator.values import EmulatorTable
from rocwright.emulator.verdicts import judge, rests_on
from rocwright.errors import InvalidData
from rocwright.model.emulated import Emulated

TABLE = emulator_table()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache/rocwright/emulated"


def states(out: str, label: str = "rocjitsu") -> dict[str, str]:
    return {one["name"]: one["state"] for one in json.loads(out)["calibrations"][label]["answers"]}


def words(prefix: Path, *more: object) -> list[object]:
    return ["test", "calibrate", "--emulate", "gfx942", "--emulator", prefix, "--rocm", prefix, *more]


def test_an_emulator_that_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = build(tmp_path / "rocm")
    ended = run(capsys, *words(prefix, "--json"))
    assert ended.code == 0, ended.err
    assert set(states(ended.out).values()) == {"right"}
    found = ended.json["calibrations"]["rocjitsu"]
    assert [one["dispatches"] for one in found["answers"]] == [1] * 34
    assert found["emulated"]["emulated"] is True
    assert (found["emulated"]["target"], found["emulated"]["dispatches"]) == ("gfx942", 34)
    assert found["compiler"].startswith(f"HIP_PLATFORM=amd {prefix}/bin/hipcc --offload-arch=gfx942 ")
    report = tmp_path / "test-reports/calibrate-gfx942-rocjitsu"
    for name in ("index.html", "report.md", "results.json"):
        assert "emulated" in (report / name).read_text()
    assert (
        "<title>Calibration of rocjitsu as gfx942 (emulated)</title>" in (report / "index.html").read_text()
    )
    # What was asked once is not asked again, unless that is wanted.
    (prefix / "bin/hipcc").unlink()
    again = run(capsys, *words(prefix, "--json"))
    assert (again.code, again.out) == (0, ended.out)
    assert "calibrated before" in again.err
    # The machine may have a hipcc of its own.
    monkeypatch.setenv("PATH", "")
    assert run(capsys, *words(prefix, "--fresh")).code == 4
    assert len(list(cache.glob("*.json"))) == 1


def test_another_configuration_is_another_calibration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = build(tmp_path / "rocm")
    run(capsys, *words(prefix))
    path = prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json"
    path.write_text('{"target": "gfx942", "fault": "wrong", "at": "pow"}')
    assert states(run(capsys, *words(prefix, "--json")).out)["pow"] == "wrong"


@pytest.mark.parametrize(
    ("fault", "state"),
    [("wrong", "wrong"), ("crash", "crashed"), ("silent", "no dispatch")],
)
def test_what_it_is_wrong_about_costs_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, state: str
) -> None:
    ended = run(capsys, *words(build(tmp_path / "rocm", fault=fault, at="pow"), "--json"))
    assert ended.code == 0
    found = states(ended.out)
    assert found.pop("pow") == state
    assert set(found.values()) == {"right"}
    assert len(found) == 33
    page = (tmp_path / "test-reports/calibrate-gfx942-rocjitsu/index.html").read_text()
    assert ("<td>3 of 8</td><td>1.91</td><td>0.5 s</td><td>value 5 is 2, not 3</td>" in page) is (
        state == "wrong"
    )
    assert "Right about 33 of 34 operations; what rests on pow says nothing here" in page
    assert ended.json["calibrations"]["rocjitsu"]["starts"] == (2 if fault == "crash" else 1)


def test_a_hang_costs_its_limit_and_the_rest_goes_on(tmp_path: Path) -> None:
    prefix = build(tmp_path / "rocm", fault="hang", at="half")
    limits = msgspec.structs.replace(TABLE.limits, operation_s=1)
    program = tmp_path / "program"
    program.write_bytes((Path(_program(prefix))).read_bytes())
    program.chmod(0o755)
    found = calibrate(
        find_emulator(str(prefix), {}),
        "gfx942",
        find_runtime(prefix, {}),
        program,
        msgspec.structs.replace(TABLE, limits=limits),
        operations=["erf", "half", "grid"],
    )
    assert [(one.name, one.state) for one in found.answers] == [
        ("erf", "right"),
        ("half", "hung"),
        ("grid", "right"),
    ]
    assert "nothing came in 1 seconds" in found.answers[1].detail
    assert found.starts == 2


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("while :; do read x; done < /dev/zero", "its process did not begin in its time"),
        ("echo no such instruction >&2; exit 3", "ended with exit code 3: no such instruction"),
        ("kill -SEGV $$", "its process was killed by signal 11"),
        ("echo hello", "its process ended with exit code 0"),
        ('echo \'{"begin": 1, "done": []}\'', "its process ended with exit code 0"),
    ],
    ids=["hangs", "fails", "crashes", "ends-at-once", "speaks-otherwise"],
)
def test_a_process_that_never_begins_is_told(tmp_path: Path, program: str, said: str) -> None:
    prefix = build(tmp_path / "rocm")
    table = msgspec.structs.replace(TABLE, limits=msgspec.structs.replace(TABLE.limits, start_s=1))
    found = calibrate(
        find_emulator(str(prefix), {}),
        "gfx942",
        find_runtime(prefix, {}),
        script(tmp_path / "program", program),
        table,
    )
    assert said in found.problem
    assert {one.state for one in found.answers} == {"not run"}
    assert (found.usable, found.starts) == (False, 1)


def _program(prefix: Path) -> str:
    """The program that the stand-in's compiler gives out."""
    return (prefix / "bin/hipcc").read_text().split("cp ")[1].split()[0]


def test_without_a_kernel_executed_nothing_is_calibrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    ended = run(capsys, *words(build(tmp_path / "rocm", fault="silent")))
    assert ended.code == 1
    assert "no kernel was executed" in ended.err
    assert not list(cache.glob("*.json"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [("wrong", "right about none of 34 operations"), ("crash", "10 processes in a row were lost")],
)
def test_an_emulator_that_is_right_about_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path, fault: str, said: str
) -> None:
    ended = run(capsys, *words(build(tmp_path / "rocm", fault=fault), "--json"))
    assert (ended.code, said in ended.err) == (1, True), ended.err
    lost = list(states(ended.out).values())
    assert lost == ["wrong"] * 34 if fault == "wrong" else lost == ["crashed"] * 10 + ["not run"] * 24
    assert not list(cache.glob("*.json"))


def test_a_runtime_that_shows_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = build(tmp_path / "rocm")
    (prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json").write_text("{}")
    ended = run(capsys, *words(prefix, "--json"))
    assert ended.code == 1
    assert "HIP shows no GPU: no ROCm-capable device is detected" in ended.err
    assert set(states(ended.out).values()) == {"not run"}


def test_a_compiler_that_refuses_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = build(tmp_path / "rocm")
    script(prefix / "bin/hipcc", "echo 'error: cannot find ROCm device library' >&2; exit 1")
    ended = run(capsys, *words(prefix))
    assert ended.code == 3
    assert "does not build the calibration for gfx942: error: cannot find ROCm device library" in ended.err


def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = build(tmp_path / "rocm", without=("gfx1100",))
    ended = run(capsys, *words(prefix, "powf"))
    assert ended.code == 2
    assert "'powf' is no operation of the calibration; there are integer," in ended.err
    ended = run(capsys, "test", "calibrate", "--emulate", "gfx1100", "--emulator", prefix, "--rocm", prefix)
    assert ended.code == 2
    assert "no configuration for gfx1100; it has some for gfx942" in ended.err
    ended = run(capsys, "test", "calibrate", "--emulator", prefix)
    assert (ended.code, "no GPU is named to emulate" in ended.err) == (2, True)
    ended = run(capsys, *words(prefix, "--emulator", prefix))
    assert (ended.code, "names the same emulator twice" in ended.err) == (2, True)


def test_what_would_run_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    prefix = build(tmp_path / "rocm")
    ended = run(capsys, *words(prefix, "pow", "--dry-run", "--json"))
    assert ended.json == [
        {
            "target": "gfx942",
            "emulator": str(prefix / "lib/librocjitsu.so"),
            "configuration": str(prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json"),
            "runtime": str(prefix / "lib/libamdhip64.so"),
            "operations": ["pow"],
        }
    ]
    assert not cache.exists()
    assert not (tmp_path / "test-reports").exists()


def test_two_emulators_say_where_they_disagree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = build(tmp_path / "rocm", fault="wrong", at="gemm")
    second = protocol_program(tmp_path / "second", build(tmp_path / "other"))
    ended = run(capsys, *words(prefix, "--emulator", second, "--json"))
    assert ended.code == 0, ended.err
    assert ended.json["disagreements"] == [
        {"name": "gemm", "states": {"rocjitsu": "wrong", "second": "right"}}
    ]
    shown = run(capsys, *words(prefix, "--emulator", second))
    assert "they disagree about gemm: wrong under rocjitsu, right under second" in shown.out


def test_a_program_that_counts_no_kernel_has_calibrated_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = build(tmp_path / "rocm")
    second = protocol_program(tmp_path / "second", prefix, counts=0)
    ended = run(
        capsys, "test", "calibrate", "--emulate", "gfx942", "--emulator", second, "--rocm", prefix, "--json"
    )
    assert ended.code == 1
    assert set(states(ended.out, "second").values()) == {"no dispatch"}


# -- verdicts


def calibration(**wrong: str) -> Calibration:
    answers = [OperationAnswer(row.name, wrong.get(row.name, "right")) for row in TABLE.operation]  # type: ignore[arg-type]
    return Calibration(1, Emulated("rocjitsu", "gfx942", dispatches=1), tuple(answers))


@pytest.mark.parametrize(
    ("name", "shown", "wrong", "verdict", "because"),
    [
        ("Pow", "right", {"pow": "wrong"}, "right", ()),
        ("Pow", "wrong", {}, "wrong", ()),
        ("Pow", "wrong", {"pow": "wrong"}, "unsure", ("pow",)),
        ("Pow", "wrong", {"erf": "wrong", "gemm": "hung"}, "wrong", ()),
        ("Softmax", "refused", {"shuffle": "crashed", "exp": "wrong"}, "unsure", ("exp", "shuffle")),
        ("test_ops.py::test_softmax[float16]", "wrong", {"half": "no dispatch"}, "unsure", ("half",)),
        ("MatMul", "refused", {}, "refused", ()),
        ("Identity", "wrong", {"arguments": "refused"}, "unsure", ("arguments",)),
    ],
)
def test_what_rests_on_a_fault_of_the_emulator_is_demoted(
    name: str, shown: str, wrong: dict[str, str], verdict: str, because: tuple[str, ...]
) -> None:
    found = judge(name, shown, calibration(**wrong), TABLE)  # type: ignore[arg-type]
    assert (found.verdict, found.because) == (verdict, because)
    assert found.says == TABLE.verdict[verdict]  # type: ignore[index]


def test_without_a_calibration_nothing_red_counts() -> None:
    assert judge("Relu", "wrong", None, TABLE).verdict == "unsure"
    assert "not calibrated" in judge("Relu", "wrong", None, TABLE).says
    assert judge("Relu", "right", None, TABLE).verdict == "right"


def test_a_caller_may_name_what_it_rests_on() -> None:
    assert judge("anything", "wrong", calibration(fmod="wrong"), TABLE, ["fmod"]).because == ("fmod",)
    assert rests_on("anything", TABLE) == ("integer", "arguments")


def test_the_program_has_each_operation_of_the_table() -> None:
    text = SOURCE.read_text()
    listed = text[text.index("static const Operation operations[]") :].partition("};")[0]
    names = [part.split('"')[1] for part in listed.split("{")[2:]]
    assert names == [row.name for row in load_table("emulators", EmulatorTable).operation]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('on = ["sin", "cos"]', 'on = ["sinus"]', "names the operation 'sinus', which has no row"),
        ("'(?P<target>gfx[0-9a-f]+)_[^_]+_kmd", "'(gfx[0-9a-f]+)_[^_]+_kmd", "names no target"),
        ("dispatch = '", "dispatch = '(", "has a pattern"),
        ("operation_s = 120", "operation_s = 0", "Expected `float` > 0"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(old: str, new: str, said: str) -> None:
    from importlib import resources

    text = resources.files("rocwright.data").joinpath("emulators.toml").read_text()
    assert old in text
    with pytest.raises(InvalidData, match=said):
        parse_table(text.replace(old, new, 1), EmulatorTable, where="emulators.toml")
