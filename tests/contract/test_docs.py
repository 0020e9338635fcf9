"""The documentation says what is so: its commands parse, its codes, rules, steps, names and links exist."""

from __future__ import annotations

import re
import shlex
import typing
from pathlib import Path

import pytest
from cyclopts import CycloptsError, MissingArgumentError

import generate
from blocks.commands import commands
from blocks.errors import error_classes
from blocks.rules import render_rules, rule_ids
from rocwright import errors
from rocwright.check.contract import ContractTable, PackageRow
from rocwright.cli.documented import DOCUMENTED
from rocwright.cli.parse import app
from rocwright.pipeline.demo import demo_graph
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.store import gate

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
# What users read first stands beside docs/.
WITH_README = [*PAGES, *sorted(ROOT.glob("*.md"))]


def _calls(lines: list[str], program: str) -> list[list[str]]:
    """Arguments of every line that calls `program`; its name alone is no call."""
    called = re.compile(rf"(?:\$ )?\s*(?:[A-Z_]+=\S+ |uvx |time )*(?:\S*/)?{program} +(?P<arguments>.+)")
    found = []
    for match in filter(None, map(called.match, lines)):
        words = shlex.split(match["arguments"], comments=True)
        for end in ("|", ">", ";", "&&"):
            words = words[: words.index(end)] if end in words else words
        found.append(words)
    return found


def in_blocks(text: str, program: str) -> list[list[str]]:
    """Calls that a reader may copy: lines of console blocks, continuation lines joined."""
    # All fences in order: the end of one must not be taken for the beginning of another.
    fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fenced if language in ("", "console", "sh", "bash", "shell")]
    return _calls([line for block in blocks for line in _command_lines(block)], program)


def _command_lines(block: str) -> list[str]:
    """With a prompt anywhere, only the lines behind one are commands; the rest is what they print."""
    lines = re.sub(r"\\\n\s*", " ", block).splitlines()
    prompted = [line for line in lines if line.startswith("$ ")]
    return prompted or lines


def in_prose(text: str, program: str) -> list[list[str]]:
    """Calls as inline code, which may name a command without its arguments."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return _calls(re.findall(r"`([^`\n]+)`", prose), program)


def test_command_lines_are_found_in_blocks_and_prose() -> None:
    page = (
        "Use `rocwright doctor`, or rocwright.\n\n```console\n$ .venv/bin/rocwright check a \\\n"
        "    --json > out\n$ uvx rocwright demo | head\nrocwright printed this\n```\n\n"
        "```text\nrocwright no\n```\n"
        "between\n\n```\nrocwright sdk\n```\n"
    )
    assert in_blocks(page, "rocwright") == [["check", "a", "--json"], ["demo"], ["sdk"]]
    assert in_prose(page, "rocwright") == [["doctor"]]


@pytest.mark.parametrize("page", WITH_README, ids=lambda path: path.name)
def test_every_command_line_parses(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for words in [*in_blocks(text, "rocwright"), *in_prose(text, "rocwright")]:
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except CycloptsError as problem:
            if not (isinstance(problem, MissingArgumentError) and words in in_prose(text, "rocwright")):
                pytest.fail(f"{page.relative_to(ROOT)}: rocwright {shlex.join(words)}: {problem}")


@pytest.mark.parametrize("page", WITH_README, ids=lambda path: path.name)
def test_every_call_of_a_documented_script_parses(page: Path) -> None:
    for words in _script_calls(page.read_text(encoding="utf-8")):
        script = next(name for name in DOCUMENTED if Path(name).name == Path(words[0]).name)
        documented = DOCUMENTED[script]
        assert script.endswith(words[0].removeprefix("./")), f"{page.name}: {words[0]} is {script}"
        # Scripts with sub-commands have parsers of their own, and tests of those.
        if not documented.builder and documented.project is None:
            app.parse_args([*documented.command, *words[1:]], exit_on_error=False, print_error=False)


def _script_calls(text: str) -> list[list[str]]:
    """Calls of documented scripts in blocks, as the script's name and its arguments."""
    names = {Path(name).name for name in DOCUMENTED}
    return [words for words in in_blocks(text, "python3?") if Path(words[0]).name in names]


def test_calls_of_scripts_are_found() -> None:
    page = "```console\n$ python build_tools/setup_venv.py .venv \\\n    --nope\n$ python other.py\n```\n"
    assert _script_calls(page) == [["build_tools/setup_venv.py", ".venv", "--nope"]]
    with pytest.raises(CycloptsError, match="--nope"):
        app.parse_args(["test", "setup-venv", ".venv", "--nope"], exit_on_error=False, print_error=False)


def test_the_reference_shows_every_command() -> None:
    reference = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    shown = re.findall(r"^## rocwright (.+)$", reference, re.MULTILINE)
    assert {"demo", "check", "checkout", "doctor", "sdk import", "sdk fetch"} <= set(shown)
    assert shown == [" ".join(words[1:]) for words, _ in commands(app)]


def test_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(CycloptsError, match="--nope"):
        app.parse_args(["demo", "--nope"], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", WITH_README, ids=lambda path: path.name)
def test_make_targets_and_rocm_sdk_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for words in [*in_blocks(text, "make"), *in_prose(text, "make")]:
        assert {word for word in words if "=" not in word} <= targets
    sdk = (ROOT / "runtime/rocm/src/rocm_sdk/_commands.py").read_text(encoding="utf-8")
    known = set(re.findall(r'add_parser\("([a-z]+)"', sdk))
    assert {words[0] for words in [*in_blocks(text, "rocm-sdk"), *in_prose(text, "rocm-sdk")]} <= known


def test_generated_parts_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_page_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    old = "before\n<!-- generated: rules -->\nold\n<!-- end -->\nafter\n"
    page.write_text(old, encoding="utf-8")
    monkeypatch.setattr(generate, "DOCS", page.parent)
    assert generate.main(["--check"]) == 1
    assert "docs/page.md is stale" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == old
    assert generate.main([]) == 0
    new = page.read_text(encoding="utf-8")
    assert new.startswith("before\n") and new.endswith("after\n") and "`member-names`" in new
    assert generate.main(["--check"]) == 0


def test_a_stale_file_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.py"
    monkeypatch.setattr(generate, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(generate, "FILES", {file: lambda: "new\n"})
    for old in (None, "old\n"):
        if old is not None:
            file.write_text(old, encoding="utf-8")
        assert generate.main(["--check"]) == 1
        assert "table.py is stale" in capsys.readouterr().err
        assert file.exists() == (old is not None)
    assert generate.main([]) == 0
    assert file.read_text(encoding="utf-8") == "new\n"


def test_exit_codes_are_those_drawn_in_the_tree() -> None:
    page = (DOCS / "reference/errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (?:&nbsp;)*`(\w+)` \|", page, re.MULTILINE)
    documented = {name: int(code) for code, name in rows}
    # The tree at the head of errors.py is drawn by hand.
    drawn = re.findall(r"^\W*([A-Z]\w+) +(?:exit +)?(\d+)\b", errors.__doc__ or "", re.MULTILINE)
    assert len(drawn) >= 17
    assert {name: documented.get(name) for name, _ in drawn} == {name: int(code) for name, code in drawn}
    real = {name: getattr(errors, name).exit_code for name in errors.__all__}
    assert {name: documented.get(name) for name in real} == real


def test_every_error_and_exit_code_named_in_the_text_exists() -> None:
    known = {kind.exit_code for _, kind in error_classes()} | {0}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert {int(code) for code in re.findall(r"exit\s+code\s+(?:is\s+)?(\d+)", text)} <= known, page


def test_every_rule_of_the_checks_is_explained() -> None:
    page = (DOCS / "reference/wheel-contract.md").read_text(encoding="utf-8")
    explained = re.findall(r"^`([a-z-]+)`\n: ", page, re.MULTILINE)
    assert sorted(explained) == sorted(rule_ids())


def test_the_page_of_the_contract_names_packages_that_a_rule_is_off_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on = PackageRow(("*",), rules=("record", "tags"))
    off = PackageRow(("rocm-docs", "mykernels-*"), off=("tags",))
    monkeypatch.setattr("blocks.rules.load_table", lambda *_: ContractTable((on, off)))
    page = render_rules()
    assert "| all except `rocm-docs` `mykernels-*`: error |" in page
    assert page.count("all except") == 1


def test_the_rules_of_the_gate_are_explained_in_order() -> None:
    page = (DOCS / "explanation/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z]+)` \| (?:no|yes) \|", page, re.MULTILINE)
    assert tuple(rows) == typing.get_args(gate.Rule)


def test_the_tutorial_explains_the_steps_of_the_demo_in_order(tmp_path: Path) -> None:
    options = RunOptions(
        workspace=Workspace(tmp_path),
        cache=tmp_path,
        targets=("gfx90a",),
        torch_ref="release/2.9",
        rocm_prefix=tmp_path,
    )
    page = (DOCS / "tutorial/demo.md").read_text(encoding="utf-8")
    section = page.partition("\n## The steps\n")[2].partition("\n## ")[0]
    # A prefix of one's own needs no fetching, and works on any distribution.
    steps = ["rocm-fetch", *(step.id for step in demo_graph(options).steps)]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == steps


def test_every_table_of_facts_has_a_section() -> None:
    page = (DOCS / "reference/data.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in (ROOT / "src/rocwright/data").glob("*.toml"))
    assert sorted(re.findall(r"^## (\w+\.toml)$", page, re.MULTILINE)) == files


def _slugs(text: str) -> set[str]:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,3} (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", WITH_README, ids=lambda path: path.name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.is_file(), f"{page.name}: {target}"
        if anchor:
            assert anchor in _slugs(file.read_text(encoding="utf-8")), f"{page.name}: {target}"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^(?:(?:tutorial|how-to|packaging|reference|explanation|development)/[\w-]+|\w+_guide)$",
        index,
        re.MULTILINE,
    )
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES if path.name != "index.md"]
    assert sorted(listed) == sorted(pages)
