"""Every console line of the README, typed by a newcomer; what stands under a line is what it prints.

The first block is not typed here: `.ci/bare-root` reads it out of the README and types it on a bare machine.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from real.conftest import REPOSITORY, Newcomer

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BARE = "$ sudo apt-get install -y python3 python3-venv git make g++\n$ make demo\n$ make test\n"
# Other than 0: the published wheel has errors.
STATUS = {"rocwright check": 9}


def console_blocks() -> list[str]:
    return re.findall(r"^```console\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def calls(block: str) -> list[tuple[str, list[str]]]:
    """Each line behind a prompt, with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def follow(wanted: list[str], printed: str) -> list[str]:
    """The wanted lines that do not come in this order; … stands for anything, alone for any lines."""
    lines = iter(printed.splitlines())
    patterns = [".*".join(map(re.escape, line.rstrip().split("…"))) for line in wanted if line.strip() != "…"]
    return [
        pattern for pattern in patterns if not any(re.fullmatch(pattern, line.rstrip()) for line in lines)
    ]


def test_the_blocks_are_those_that_are_typed() -> None:
    assert console_blocks()[0] == BARE
    assert len(console_blocks()) == 3


def test_what_is_not_printed_is_noticed() -> None:
    assert follow(["a … c", "…", "end"], "a b c\nx\nend\n") == []
    assert follow(["end", "a"], "a\nend\n") == ["a"]


@pytest.mark.parametrize(("line", "printed"), calls(console_blocks()[1]), ids=lambda value: str(value)[:20])
def test_each_way_gets_the_tool(newcomer: Newcomer, line: str, printed: list[str]) -> None:
    programs = newcomer.home / "programs"
    if not programs.exists():
        newcomer.run(_python(newcomer), "-m", "venv", programs)
        newcomer.run(programs / "bin/python", "-m", "pip", "install", "-q", "uv", "pipx")
    path = f"{newcomer.home}/.local/bin:{programs}/bin:{newcomer.environment['PATH']}"
    if line.startswith("uvx"):
        assert "Usage: rocwright" in newcomer.run("sh", "-c", line, PATH=path).stdout
    else:
        said = newcomer.run("sh", "-c", f"{line} && rocwright --version", PATH=path).stdout
        assert said.splitlines()[-1] == "0.1.0"
    assert printed == []


def _python(newcomer: Newcomer) -> Path:
    return newcomer.clone / ".venv/bin/python"


@pytest.fixture(scope="module")
def desk(newcomer: Newcomer) -> Path:
    """An empty directory, where the lines are typed one after the other."""
    root = newcomer.home / "readme"
    root.mkdir()
    newcomer.own(root)
    return root


@pytest.mark.parametrize(("line", "printed"), calls(console_blocks()[2]), ids=lambda value: str(value)[:30])
def test_each_line_does_what_stands_there(
    newcomer: Newcomer, desk: Path, line: str, printed: list[str]
) -> None:
    path = f"{newcomer.clone}/.venv/bin:{newcomer.environment['PATH']}"
    done = subprocess.run(
        newcomer.command("sh", "-c", line),
        cwd=desk,
        env=newcomer.env(PATH=path),
        text=True,
        capture_output=True,
    )
    assert done.returncode == STATUS.get(" ".join(line.split()[:2]), 0), done.stdout + done.stderr
    assert follow(printed, done.stdout + done.stderr) == [], done.stdout + done.stderr
    assert done.stdout.strip()
