"""Nothing that a user has set decides whether a set installs, and nothing of the user's is changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocwright.check.contract import ContractTable
from rocwright.check.installers import Surroundings, Tool, tool
from rocwright.check.run import CheckRequest
from rocwright.pipeline.check_set import check_set
from trees import listing, script, write
from wheels import ANY, write_wheel

pytestmark = pytest.mark.slow

CONTRACT = ContractTable((), own=())
# Settings of each kind; with any one of them heeded, nothing would be installed.
VARIABLES = {
    "PIP_REQUIRE_HASHES": "1",
    "PIP_INDEX_URL": "http://127.0.0.1:9/",
    "PIP_NO_BINARY": ":all:",
    "PIP_TARGET": "elsewhere",
    "UV_INDEX_URL": "http://127.0.0.1:9/",
    "UV_OFFLINE": "1",
    "UV_NO_BINARY": "1",
    "UV_EXCLUDE_NEWER": "2001-01-01",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "PYTHONWARNINGS": "error",
    "PYTHONPATH": "mine",
}
FILES = {
    ".config/pip/pip.conf": "[global]\nrequire-hashes = true\nindex-url = http://127.0.0.1:9/\n",
    ".pip/pip.conf": "[install]\nno-index = true\n",
    ".config/uv/uv.toml": 'no-binary = true\nindex-url = "http://127.0.0.1:9/"\n',
    "uv.toml": "offline = true\n",
    "pip.py": "raise SystemExit('this is not pip')\n",
    "logging.py": "raise SystemExit('this is not logging')\n",
    "mine/json.py": "raise SystemExit('this is not json')\n",
    "thing.py": "raise SystemExit('this is not the installed one')\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "dist"
    write_wheel(path, "thing", "1", {"thing.py": ""}, tag=ANY, python=">=3.8")
    return path


def test_settings_of_the_user_do_not_decide(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name, text in FILES.items():
        write(home / name, text)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    before = listing(home)
    report = check_set(CheckRequest((folder,), closed=True, contract=CONTRACT), install=True)
    assert report.findings == ()
    assert [(one.installer, one.imported) for one in report.proved] == [
        ("pip", ("thing",)),
        ("uv", ("thing",)),
    ]
    assert listing(home) == before


@pytest.mark.parametrize(
    "pip", ["echo broken >&2; exit 1", "echo 'pip 20.3.4 from /usr/lib (python 3.9)'", "echo garbage"]
)
def test_a_pip_that_does_not_do_is_replaced_by_the_copy_that_python_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str
) -> None:
    python = Path(sys.executable)
    script(tmp_path / "bin/pip", f"#!/bin/sh\n{pip}\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere/python"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    around = Surroundings(tmp_path / "home")
    chosen = tool("pip", around, python)
    assert isinstance(chosen, Tool)
    assert chosen.argv[0].startswith(str(around.home))
    assert int(chosen.version.partition(".")[0]) >= 22


def test_a_uv_that_does_not_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(sys.executable)
    script(tmp_path / "bin/uv", "#!/bin/sh\nexit 3\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere/python"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert tool("uv", Surroundings(tmp_path / "home"), python) == "it does not run"
