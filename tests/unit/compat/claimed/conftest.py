"""Every test here runs where no rocwright.toml lies, and leaves no handlers of signals behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright import cli


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
