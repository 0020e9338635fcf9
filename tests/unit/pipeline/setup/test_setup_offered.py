"""Before a run begins: whether the index has ROCm for what is to be built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import status as call
from index_server import IndexServer, multi_arch, serving


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexServer]:
    with serving(multi_arch(tmp_path_factory.mktemp("offered"))) as server:
        yield server


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "ROCWRIGHT_ROCM", "ROCWRIGHT_SOURCES"):
        monkeypatch.delenv(name, raising=False)


def set_up(rocm: str, *words: str) -> int:
    event = ("--event", "workflow_dispatch", "--sources", "upstream", "--platforms", "linux")
    return call("pipeline", "setup", *event, "--rocm", rocm, *words)


def test_an_index_with_everything_lets_the_run_begin(
    index: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    families = ("--families", "gfx94X-dcgpu;gfx1201")
    assert set_up(f"index:{index.url()}", *families) == 0
    assert set_up(f"page:{index.url('flat.html')}", *families) == 0
    assert f"rocm=page {index.url('flat.html')}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ("gfx94X-dcgpu;gfx1151", "gfx1151 on linux: {index} has no code for gfx1151 on linux; it has gfx942"),
        ("gfx110X-all", "gfx110X-all on linux: {index} has no code for gfx1101, gfx1102, gfx1103 on linux"),
    ],
)
def test_a_family_without_code_ends_it_before_it_begins(
    families: str, said: str, index: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set_up(f"index:{index.url()}", "--families", families) == 3
    told = capsys.readouterr()
    assert said.format(index=index.url()) in " ".join(told.err.split())
    assert "run=" not in told.out


def test_each_platform_is_asked_for(index: IndexServer, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--event", "workflow_dispatch", "--sources", "upstream", "--families", "gfx120X-all")
    assert call("pipeline", "setup", *words, "--rocm", f"index:{index.url()}") == 3
    assert f"{index.url()} has no rocm-sdk-core for windows" in " ".join(capsys.readouterr().err.split())


def test_an_address_without_an_index_is_told(index: IndexServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert set_up(f"index:{index.url('nowhere/')}", "--families", "gfx94X-dcgpu") == 3
    assert "nowhere" in capsys.readouterr().err


def test_an_index_that_cannot_be_reached_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert set_up("index:http://127.0.0.1:9/simple/", "--families", "gfx94X-dcgpu") == 0
    assert "cannot be asked now" in " ".join(capsys.readouterr().err.split())


def test_an_input_says_where_rocm_comes_from(index: IndexServer, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--families", "gfx94X-dcgpu", "--input", f"rocm=page:{index.url('flat.html')}")
    assert set_up("index:stable", *words) == 0
    assert f"ROCm is page {index.url('flat.html')}, as asked for" in " ".join(capsys.readouterr().err.split())
    assert set_up("index:stable", *words, "--input", "artifact_run_id=7") == 2
