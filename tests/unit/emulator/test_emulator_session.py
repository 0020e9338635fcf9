"""Finding an emulator and running commands under it; the stand-in takes the place of the real one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from emulator_stand_in import build, protocol_program, script
from rocwright.emulator.find import emulator_table, find_emulator, find_runtime
from rocwright.emulator.session import EmulatedRun, Session, emulated
from rocwright.errors import InvalidInput, MissingTool, UsageError
from rocwright.system.files import sha256_file

LAUNCH = (
    "import ctypes, sys\n"
    "hip = ctypes.CDLL('libamdhip64.so')\n"
    "for name in sys.argv[1:]: hip.stand_in_launch(name.encode(), ctypes.byref(ctypes.c_int()))\n"
)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return build(tmp_path / "rocm")


def session_of(prefix: Path, target: str = "gfx942") -> AbstractContextManager[Session]:
    return emulated(find_emulator(str(prefix), {}), target, find_runtime(prefix, {}))


def launch(session: Session, *names: str, limit_s: float = 60) -> EmulatedRun:
    return session.run([sys.executable, "-c", LAUNCH, *names], limit_s=limit_s)


def test_a_prefix_its_library_and_the_variable_lead_to_the_same(prefix: Path) -> None:
    library = prefix / "lib/librocjitsu.so"
    for choice, environ in ((prefix, {}), (library, {}), (None, {"ROCWRIGHT_EMULATOR": str(prefix)})):
        found = find_emulator(choice and str(choice), environ)
        assert (found.name, found.version, found.library) == ("rocjitsu", "0.2.0-stand-in", library)
        # Neither the one for two GPUs nor that for translated code.
        assert found.targets == ("gfx942", "gfx1100")
        assert found.digest == sha256_file(library)
    assert found.found == "ROCWRIGHT_EMULATOR"


def test_what_is_named_goes_before_what_is_installed(prefix: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other")
    environ = {"ROCWRIGHT_EMULATOR": str(prefix), "ROCM_PATH": str(prefix)}
    assert find_emulator(str(other), environ).library == other / "lib/librocjitsu.so"
    assert find_emulator(None, {"ROCM_PATH": str(other)}).found == "ROCM_PATH"


def test_a_small_library_that_leads_to_the_runtime_is_not_taken_for_it(prefix: Path) -> None:
    found = find_runtime(prefix, {})
    short = prefix / "lib/libamdhip64.so"
    real = short.resolve()
    short.unlink()
    short.write_bytes(real.read_bytes())
    again = find_runtime(prefix, {})
    assert (again.library.resolve(), again.version) == (real, found.version)


def test_an_installed_devel_package_has_it(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    build(site / "_rocm_sdk_devel")
    python = script(tmp_path / "python", f"echo '[\"{site}\"]'")
    found = find_emulator(None, {}, python)
    assert (found.library, found.found) == (
        site / "_rocm_sdk_devel/lib/librocjitsu.so",
        f"installed for {python}",
    )
    # The loader needs no help for what a wheel brings.
    runtime = find_runtime(None, {}, python)
    assert (runtime.library.parent, runtime.version, runtime.directories) == (
        site / "_rocm_sdk_devel/lib",
        "7.2.4",
        (),
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: place / "nowhere", "which does not exist"),
        (lambda place: place, "there is no emulator in"),
        (lambda place: place / "notes.txt", "is no emulator that is known"),
        (lambda place: place / "libother.so", "is no emulator that is known"),
    ],
    ids=["absent", "empty-directory", "text", "other-library"],
)
def test_a_place_that_is_named_is_the_only_one(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "libother.so").write_text("x")
    (tmp_path / "libother.so").chmod(0o755)
    with pytest.raises(MissingTool, match=said):
        find_emulator(str(make(tmp_path)), {"ROCM_PATH": "/opt/rocm"})


def test_none_is_found_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import msgspec

    table = msgspec.structs.replace(emulator_table(), prefixes=(str(tmp_path),))
    with pytest.raises(MissingTool, match="no emulator of AMD GPUs was found") as told:
        find_emulator(None, {}, table=table)
    assert "ROCWRIGHT_EMULATOR" in (told.value.next_step or "")


def test_a_target_without_a_configuration_is_refused(tmp_path: Path) -> None:
    prefix = build(tmp_path / "rocm", without=("gfx1100",))
    with pytest.raises(UsageError, match="no configuration for gfx1100; it has some for gfx942"):
        session_of(prefix, "gfx1100").__enter__()
    with session_of(prefix, "gfx942:xnack-") as session:
        assert session.target == "gfx942"


def test_a_configuration_that_is_gone_is_told(prefix: Path) -> None:
    emulator = find_emulator(str(prefix), {})
    (prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json").unlink()
    with pytest.raises(MissingTool, match=r"gfx942_cdna3_kmd\.json of rocjitsu for gfx942 is gone"):
        emulated(emulator, "gfx942", find_runtime(prefix, {})).__enter__()


def test_each_session_has_its_own_directory_and_log(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    with session_of(prefix) as first, session_of(prefix, "gfx1100") as second:
        assert first.env["ROCJITSU_RUNTIME_DIR"] != second.env["ROCJITSU_RUNTIME_DIR"]
        assert first.env["LD_PRELOAD"].split(":")[0] == str(prefix / "lib/librocjitsu.so")
        assert first.env["LD_LIBRARY_PATH"] == f"{prefix / 'lib'}:/somewhere"
        assert "HIP_VISIBLE_DEVICES" in first.drop_env
        assert (first.directory / "config_path").read_text().strip().endswith("gfx942_cdna3_kmd.json")
        assert launch(first, "a", "b").ended == "done"
        assert (first.dispatches, second.dispatches) == (2, 0)
        assert "Kernel #2 dispatch" in first.said
    assert not first.directory.exists()


def test_what_several_processes_execute_is_counted(prefix: Path) -> None:
    """The emulator opens its log anew in each process; the first one's lines stay."""
    with session_of(prefix) as session:
        assert [launch(session, "a").dispatches, launch(session, "b", "c").dispatches] == [1, 2]
        assert session.dispatches == 3
        record = session.record()
    assert (record.name, record.target, record.runtime, record.dispatches) == (
        "rocjitsu",
        "gfx942",
        "7.2.4",
        3,
    )
    assert record.emulated is True
    assert record.configuration == "gfx942_cdna3_kmd.json"
    assert record.configuration_digest == sha256_file(prefix / "share/rocjitsu/configs/gfx942_cdna3_kmd.json")
    assert "emulated" in record.told()


def test_a_process_that_executes_nothing_has_not_passed(prefix: Path) -> None:
    with session_of(prefix) as session:
        assert session.run([sys.executable, "-c", "pass"], limit_s=60).ended == "no dispatch"


def test_faults_have_names(tmp_path: Path) -> None:
    with session_of(build(tmp_path / "crashes", fault="crash", at="bad")) as session:
        lost = launch(session, "good", "bad", "good")
    assert (lost.ended, lost.status, lost.dispatches) == ("crashed", -11, 1)
    assert "illegal instruction in bad" in lost.said
    with session_of(build(tmp_path / "hangs", fault="hang")) as session:
        assert launch(session, "any", limit_s=1).ended == "hung"
    with session_of(build(tmp_path / "silent", fault="silent")) as session:
        assert launch(session, "any").ended == "no dispatch"
        failed = session.run([sys.executable, "-c", "raise SystemExit(3)"], limit_s=60)
    assert (failed.ended, failed.status) == ("failed", 3)


def test_without_the_preload_there_is_no_gpu(prefix: Path) -> None:
    with session_of(prefix) as session:
        ask = "import ctypes; print(ctypes.CDLL('libamdhip64.so').hipInit(0))"
        words = [sys.executable, "-c", ask]
        with_it = session.run(words, limit_s=60, dispatching=False).stdout
        without = session.run(words, limit_s=60, dispatching=False, env={"LD_PRELOAD": ""}).stdout
    assert (with_it.strip(), without.strip()) == ("0", "100")


def test_a_program_that_speaks_the_protocol(prefix: Path, tmp_path: Path) -> None:
    program = protocol_program(tmp_path / "second", prefix)
    emulator = find_emulator(str(program), {})
    assert (emulator.name, emulator.targets, emulator.row) == ("second", ("gfx942",), None)
    with emulated(emulator, "gfx942", find_runtime(prefix, {})) as session:
        assert session.words(["x"])[1:] == ["--target", "gfx942", "--", "x"]
        done = launch(session, "a", "b", "c")
        assert (done.ended, done.dispatches) == ("done", 3)
        assert session.record().configuration == ""
    with pytest.raises(UsageError, match="no configuration for gfx1100"):
        emulator.require("gfx1100")


def test_a_program_that_speaks_something_else_is_refused(tmp_path: Path) -> None:
    chatty = script(tmp_path / "chatty", "echo hello")
    with pytest.raises(InvalidInput, match="does not speak the protocol"):
        find_emulator(str(chatty), {})
    odd = script(tmp_path / "odd", "echo '[\"sm_90\"]'")
    with pytest.raises(InvalidInput, match="lists 'sm_90', which is no GPU target"):
        find_emulator(str(odd), {})


def test_the_callers_own_choice_of_gpus_is_not_handed_on(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "7")
    with session_of(prefix) as session:
        told = session.run(
            [sys.executable, "-c", "import os; print(os.environ.get('HIP_VISIBLE_DEVICES'))"],
            limit_s=60,
            dispatching=False,
        )
    assert told.stdout.strip() == "None"
    assert os.environ["HIP_VISIBLE_DEVICES"] == "7"
