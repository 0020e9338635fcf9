"""What benchmarks promise: rows that the tables know, no wall of a loaded machine, missed goals by name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import msgspec
import pytest

import generate
from blocks import growth
from blocks import measured as tables
from blocks.measured import measured, results
from needs import need, needs
from oracle import fatbin_walk
from real import corpus
from wheels import ANY, write_wheel

LOADED, Load, Ran, Side, Turns = measured.LOADED, measured.Load, measured.Ran, measured.Side, measured.Turns
Figure, Report, compared, ended, row, seconds = (
    *(results.Figure, results.Report, results.compared),
    *(results.ended, results.row, results.seconds),
)
ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
QUIET, BUSY = Load(0.1, 0.2, 0.0), Load(3.0, 3.0, LOADED + 0.01)


def recipes() -> dict[str, str]:
    """What each target for measurements runs."""
    found = re.findall(r"^(bench[a-z-]*):.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert len(found) >= 12
    return dict(found)


def written() -> dict[str, list[str]]:
    """Names of the files of results by target."""
    return {
        name: re.findall(r"--json \$\(RESULTS\)/([a-z-]+)\.json", text) for name, text in recipes().items()
    }


def test_every_target_writes_rows_that_the_tables_know_or_is_named() -> None:
    without = {name for name, files in written().items() if not files}
    assert without == set(tables.NOT_IN_TABLES)
    known = tables.all_results()
    assert {file for files in written().values() for file in files} | {"by-hand"} == set(known)
    for name, files in written().items():
        for file in files:
            assert (known[file].command, known[file].benchmark) == (f"make {name}", file)


def test_every_phony_target_has_a_recipe() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert {name for name in phony[1].split() if name.startswith("bench")} == set(recipes())


@pytest.mark.parametrize("target", ["bench-kpack", "bench-sdk", "bench-check"])
def test_a_second_run_takes_the_rocm_that_the_first_fetched(target: str, tmp_path: Path) -> None:
    def typed() -> str:
        command = ["make", "-n", f"WORK={tmp_path / 'demo'}", target]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    fetch = f"rocwright sdk fetch {tmp_path / 'demo-rocm'}\n"
    assert fetch in typed()
    (tmp_path / "demo-rocm").mkdir()
    assert fetch not in typed()
    assert f"benchmarks/{target.removeprefix('bench-')}.py {tmp_path / 'demo-rocm'}" in typed()


@pytest.mark.parametrize("target, scripts", [("bench-scale", 3), ("bench-store", 3), ("bench", 2)])
@pytest.mark.parametrize("statuses", [(0, 0, 0), (1, 0, 0), (2, 1, 0), (0, 1, 2)])
def test_make_tells_the_worst_of_several_and_runs_them_all(
    target: str, scripts: int, statuses: tuple[int, ...], tmp_path: Path
) -> None:
    place, ran = tmp_path / "venv", tmp_path / "ran"
    for name in (".ready", ".dev"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    stand_in = place / "bin" / "python"
    stand_in.parent.mkdir()
    codes = " ".join(map(str, statuses))
    stand_in.write_text(
        f"#!/bin/sh\nset -- {codes}\nshift $(cat {ran} | wc -l)\necho >>{ran}\nexit $1\n", encoding="utf-8"
    )
    stand_in.chmod(0o755)
    stand_in.with_name("rocwright").symlink_to("/bin/true")
    ran.touch()
    command = ["make", f"VENV={place}", f"RESULTS={tmp_path}", f"WORK={tmp_path / 'demo'}", target]
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert len(ran.read_text(encoding="utf-8")) == scripts
    told = [f"Error {worst}"] if (worst := max(statuses[:scripts])) else []
    assert re.findall(r"Error \d+", done.stderr) == told, done.stderr


def load(script: str) -> ModuleType:
    """A benchmark as a module, under a name that no package has."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{script}", BENCHMARKS / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compressed_library(place: Path) -> Path:
    """A wheel with a library of compressed bundles, and one that is none."""
    need("gcc")
    library = load("kpack").synthetic(place / "library", 2, compressed=True)
    content = {"part/lib/libpart.so.1": library.read_bytes(), "part/libother.so": "INPUT(libpart.so.1)"}
    return write_wheel(place, "part", "1.0", content)


def small_wheel(place: Path) -> Path:
    """A wheel of two modules."""
    return write_wheel(place, "part", "1.0", {"part/__init__.py": "", "part/other.py": "A = 1\n"}, tag=ANY)


# Words of the command line, and what makes its input.
TWICE = {
    "cli": "",
    "detect": "",
    "pipeline": "",
    "store_index": "",
    "store_durable": "",
    "gputest": "work --tests 5 --files 1 --workers 1",
    "kpack": (compressed_library, "--only split"),
    "check": (small_wheel, "--wheel"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", TWICE)
def test_a_benchmark_runs_twice(script: str, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    command = [sys.executable, BENCHMARKS / f"{script}.py", "--runs", "1", "--json", file]
    match TWICE[script]:
        case str(words):
            command += words.split()
        case (make, words):
            command += [*words.split(), make(tmp_path / "input")]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == ("missed: " in done.stdout), done.stdout + done.stderr
    assert results.read_results(file).rows


def test_a_kept_input_is_made_again_when_what_makes_it_is_other(tmp_path: Path) -> None:
    kept, made = load("kept"), list[str]()

    def make(place: Path) -> None:
        place.mkdir()
        (place / "file").touch()
        made.append(place.name)

    # What earlier editions kept, and half of an input.
    (tmp_path / "split" / "old").mkdir(parents=True)
    (tmp_path / "split-1.new").mkdir()
    (tmp_path / "splinter").mkdir()
    for of in ("1", "1", "2"):
        assert kept.kept(tmp_path, "split", of, make) == tmp_path / f"split-{of}"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["splinter", f"split-{of}"]
    assert made == ["split-1.new", "split-2.new"]


def test_an_input_that_was_changed_and_not_put_back_is_made_again(tmp_path: Path) -> None:
    kept = load("kept")

    def make(place: Path) -> None:
        place.write_text("good", encoding="utf-8")

    place = kept.kept(tmp_path, "split", "1", make)
    with kept.spoiled(place):
        place.write_text("bad", encoding="utf-8")
    assert kept.kept(tmp_path, "split", "1", make).read_text(encoding="utf-8") == "bad"
    with pytest.raises(KeyboardInterrupt), kept.spoiled(place):
        raise KeyboardInterrupt
    assert kept.kept(tmp_path, "split", "1", make).read_text(encoding="utf-8") == "good"
    assert list(tmp_path.iterdir()) == [place]


def test_an_input_is_named_by_code_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, code, rocm = load("kept"), tmp_path / "code", tmp_path / "rocm"
    monkeypatch.setattr(kept, "SOURCES", code)
    (code / "wheel").mkdir(parents=True)
    (rocm / "lib").mkdir(parents=True)
    names = []
    for path, text in (
        (code / "wheel" / "write.py", "a"),
        (code / "wheel" / "write.py", "b"),
        (rocm / "lib" / "librocm.so.5", "a"),
        (rocm / "lib" / "librocm.so.6", "a"),
        (rocm / "lib" / "librocm.so.6", "ab"),
        (code / "wheel" / "write.pyc", "other compiled code"),
        (code / "other.py", "another room"),
    ):
        path.write_text(text, encoding="utf-8")
        names.append(kept.identity(("wheel",), rocm))
    assert len(set(names)) == 5 and names[4:] == names[-1:] * 3


@pytest.mark.parametrize("compressed", [False, True])
@needs("gcc")
def test_the_floor_of_a_split_compresses_the_same_code(compressed: bool, tmp_path: Path) -> None:
    kpack = load("kpack")
    with kpack.inputs_of(kpack.synthetic(tmp_path, 2, compressed=compressed)) as (one,):
        handle = os.open(one.path, os.O_RDONLY)
        code = [bytes(each) for bundle in one.bundles for each in kpack.code_of(handle, bundle, hashed=True)]
        os.close(handle)
        walked = fatbin_walk.walk(one.path)
        objects = [each.data for wrapper in walked for each in wrapper.device.values()]
    assert code == objects
    told = "4 code objects in 2 compressed bundles of " if compressed else "4 code objects)"
    assert told in str(one)


def test_the_published_wheels_are_those_of_the_corpus() -> None:
    for name in load("kpack").PUBLISHED:
        assert corpus.item(name).kind == "pypi"


@pytest.mark.parametrize("name", [name for name in tables.all_results() if name != "by-hand"])
def test_every_row_is_one_that_its_benchmark_writes(name: str) -> None:
    (recipe,) = [text for target, text in recipes().items() if name in written()[target]]
    scripts = [path for path in BENCHMARKS.glob("*.py") if re.search(rf"benchmarks/{path.stem}\b", recipe)]
    scripts += BENCHMARKS.glob(f"{name}_*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in scripts)
    for one in tables.all_results()[name].rows:
        # A number or a library's name may be put into it.
        made = " ".join(rf"({re.escape(word)}|{{[a-z.]+}})" for word in one.id.split(" "))
        assert re.search(f'"{made}"', text), one.id


def test_the_readme_is_stale_when_a_figure_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert ROOT / "README.md" in generate.pages()
    assert generate.regenerate(readme) == readme
    known = tables.all_results()
    kpack = known["kpack"]
    other = [msgspec.structs.replace(one, figures=[Figure("CPU", "×", 1.03, 1.25)]) for one in kpack.rows]
    changed = {**known, "kpack": msgspec.structs.replace(kpack, rows=other)}
    monkeypatch.setattr(tables, "all_results", lambda: changed)
    assert "| CPU 1.03 × | CPU 1.25 × |" in generate.regenerate(readme)


def test_the_readme_marks_what_its_benchmark_did_not_write() -> None:
    one = row("split", "a", QUIET, [])
    assert tables.mark(one) == ""

    def noted(note: str) -> str:
        origin = msgspec.structs.replace(one.origin, date="2026-11-23", note=note)
        return tables.mark(msgspec.structs.replace(one, origin=origin))

    assert noted("carried over") == " (of 2026-11-23)"
    assert noted("carried over; CPU by hand") == " (by hand, 2026-11-23)"
    text = tables.render_readme_measured()
    (reference,) = [one for one in tables.all_results()["by-hand"].rows if one.id == "reference"]
    assert f"the reference's own scripts{tables.mark(reference)} |" in text


def report(monkeypatch: pytest.MonkeyPatch, *words: object) -> results.Report:
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
    one = Report("kpack", "What it measures.")
    one.parse()
    return one


def test_a_missed_goal_is_named_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = report(monkeypatch)
    one.add(row("good", "a", QUIET, [Figure("CPU", "×", 1.25, 1.25), Figure("bytes", "B", 2_000_000)]))
    assert one.finish() == 0
    one.add(row("split", "b", QUIET, [Figure("CPU", "×", 1.26, 1.25)]))
    assert one.finish() == 1
    assert "missed: kpack: split: CPU 1.26 ×, goal 1.25 ×\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "value, unit, most, told, bound",
    [
        (1.103, "", 1.1, "1.103", "1.1"),
        (1.1027, "×", 1.1, "1.103 ×", "1.1 ×"),
        (1.26, "×", 1.25, "1.26 ×", "1.25 ×"),
        (1.1, "", 1.1, "1.1", "1.1"),  # met
        (160_400_000, "B", 160_000_000, "160.4 MB", "160 MB"),
        (3.00001, "s", 3, "3.00001 s", "3 s"),
    ],
)
def test_what_missed_its_goal_does_not_look_like_it(
    value: float, unit: str, most: float, told: str, bound: str
) -> None:
    figure = Figure("CPU", unit, value, most)
    missed = "" if figure.met else ", missed"
    assert (str(figure), figure.goal) == (f"CPU {told}", f"CPU {bound}{missed}")


@pytest.mark.parametrize(
    "stop, status, told",
    [
        (lambda: 0, 0, ""),
        (lambda: 1, 1, ""),
        (lambda: measured.give_up("no compiler"), 2, "no compiler\n"),
        (lambda: sys.exit("a text"), 2, "a text\n"),
        (lambda: Path("/nowhere").read_text(encoding="utf-8"), 2, "FileNotFoundError"),
        (lambda: subprocess.run(["false"], check=True), 2, "CalledProcessError"),
        (lambda: [][0], 2, "IndexError"),
    ],
)
def test_only_a_missed_goal_ends_with_1(
    stop: Callable[[], object], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        ended(stop)
    assert stopped.value.code == status
    assert told in capsys.readouterr().err


def test_every_benchmark_ends_by_that_door() -> None:
    for path in sorted(BENCHMARKS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if " = Report(" in text:
            assert text.endswith('if __name__ == "__main__":\n    ended(main)\n'), path.name


def test_who_wrote_results_is_told_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "TABLED", tmp_path / "results")
    for place, more in ((tmp_path / "results", "; now: python docs/generate.py"), (tmp_path, "")):
        one = report(monkeypatch, "--json", place / "kpack.json")
        one.add(row("split", "b", QUIET, [Figure("CPU", "×", 1.26, 1.25)]))
        assert one.finish() == 1
        assert capsys.readouterr().out.endswith(f"\nwrote {place / 'kpack.json'}{more}\n")


def test_seconds_of_a_loaded_machine_are_no_result_and_miss_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not seconds("wall", 2.0, QUIET, 1.0).met
    refused = seconds("wall", 2.0, BUSY, 1.0)
    assert refused.value is None and refused.met
    one = report(monkeypatch)
    one.add(row("plan", "a", BUSY, [refused]))
    assert one.finish() == 0
    assert "not a result: loaded" in capsys.readouterr().out


def sides(load: measured.Load) -> measured.Turns:
    """Medians: 3 CPU s in 2 s against 2 CPU s in 1 s."""
    ours = [Ran(wall, cpu, 0, 0, "") for wall, cpu in ((9.0, 9.0), (2.0, 3.0), (1.0, 1.0))]
    return Turns({}, {"ours": ours, "floor": [Ran(1.0, 2.0, 0, 0, "")] * 3}, load)


def test_ratios_are_those_of_medians_and_the_wall_is_refused_apart() -> None:
    goals = {"cpu": 1.25, "wall": 1.5, "of_cpu": 1.1, "threads": 2}
    quiet = compared("one", "a", sides(QUIET), against="b", **goals)
    assert [(figure.value, figure.met) for figure in quiet.figures] == [
        (1.5, False),
        (2.0, False),
        (1.3333, False),
    ]
    busy = compared("one", "a", sides(BUSY), against="b", **goals)
    assert [(figure.value, figure.met) for figure in busy.figures] == [
        (1.5, False),
        (None, True),
        (None, True),
    ]
    assert busy.seconds == {"ours": {"cpu_s": 3.0}, "floor": {"cpu_s": 2.0}}


def test_a_file_keeps_the_rows_that_were_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results" / "kpack.json"
    for told in ([("split", 1.5)], [("cold", 1.0)], [("split", 1.2), ("unproven", 1.1)]):
        one = report(monkeypatch, "--json", file)
        one.add(*(row(name, "a", QUIET, [Figure("CPU", "×", value)]) for name, value in told))
        one.finish()
    found = results.read_results(file)
    # What is new stands behind what was measured before it.
    kept = [(one.id, one.figures[0].value) for one in found.rows]
    assert kept == [("split", 1.2), ("unproven", 1.1), ("cold", 1.0)]
    assert found == results.Results("kpack", "make bench-kpack", found.rows)


def test_sides_run_in_turn_and_the_first_run_does_not_count(tmp_path: Path) -> None:
    order = tmp_path / "order"
    note = (
        f"import sys; open({str(order)!r}, 'a').write(sys.argv[1]); print('{{\"cpu_s\": 2, \"wall_s\": 3}}')"
    )
    found = measured.turns(
        {name: Side([sys.executable, "-c", note, name], inner=name == "b") for name in ("a", "b")}, 2
    )
    assert order.read_text(encoding="utf-8") == "ababab"
    assert [(one.cpu, one.wall) for one in found.ran["b"]] == [(2, 3)] * 2
    assert len(found.ran["a"]) == 2 and all(0 < one.cpu < 2 for one in found.ran["a"])


def test_what_cannot_be_measured_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        measured.turns({"ours": Side([sys.executable, "-c", "raise SystemExit('no such file')"])}, 1)
    assert ended.value.code == 2
    assert "no such file" in capsys.readouterr().err


def test_a_row_says_what_stands_in_the_tables() -> None:
    figures = [Figure("CPU", "×", 1.5, 1.25), Figure("memory", "B", 60_200_000, 300_000_000)]
    one = row("split", "splitting", BUSY, [*figures, seconds("wall", 1.0, BUSY)], against="a copy")
    assert tables.cells(one) == (
        "splitting, against a copy",
        "CPU 1.5 ×; memory 60.2 MB; wall not a result: loaded",
        "CPU 1.25 ×, missed; memory 300 MB",
    )
    assert tables.origin(one).endswith("others 11%")


def told(cpu_s: float) -> Side:
    """A process that says itself what it took, and stays long enough for its memory to be looked at."""
    code = f"""import time; print('{{"cpu_s": {cpu_s}, "wall_s": 1}}'); time.sleep(0.5)"""
    return Side([sys.executable, "-c", code], inner=True)


def test_a_curve_is_judged_by_its_last_step() -> None:
    one = results.grown("gc", "a", "objects", {1000: told(90), 10: told(1), 100: told(9)}, exponent=0.9)
    assert [(point.size, point.cpu_s) for point in one.points] == [(10, 1), (100, 9), (1000, 90)]
    assert all(point.memory > 1_000_000 for point in one.points)
    steepness = one.figures[0]
    assert (steepness.of, steepness.value, steepness.met) == ("exponent of CPU", 1.0, False)
    assert one.figures[3].of == "memory of 1,000 objects"


def test_what_is_proportional_is_drawn_as_a_diagonal() -> None:
    points = [results.Point(10**power, 10.0 ** (power - 3), 10 ** (power + 6)) for power in (1, 2, 3)]
    one = row("gc", "objects < files", QUIET, [], unit="objects", points=points)
    picture = ElementTree.fromstring(growth.draw(one))
    svg = "{http://www.w3.org/2000/svg}"
    lines = [line.attrib["points"] for line in picture.findall(f"{svg}polyline")]
    assert len(lines) == 2
    for line, left in zip(lines, growth.LEFTS, strict=True):
        places = [tuple(map(float, pair.split(","))) for pair in line.split()]
        assert places == [
            (left, growth.BOTTOM),
            (left + growth.PANEL / 2, (growth.TOP + growth.BOTTOM) / 2),
            (left + growth.PANEL, growth.TOP),
        ]
    assert (picture.findtext(f"{svg}title"), len(picture.findall(f"{svg}circle"))) == ("objects < files", 6)


def test_seconds_of_a_loaded_machine_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [results.Point(10**power, 7.5 * 10 ** (power - 1), 10 ** (power + 6)) for power in (1, 2)]
    for load, head, last in ((QUIET, "CPU", "75 s"), (BUSY, "CPU by the first", "10 ×")):
        one = row("gc", "objects", load, [], unit="objects", points=points)
        monkeypatch.setattr(growth, "curves", lambda one=one: [one])
        text = growth.render_scale()
        assert f"| objects | {head} | memory |" in text and f"| 100 | {last} | 100 MB |" in text
        assert f">{head}</text>" in growth.draw(one)
