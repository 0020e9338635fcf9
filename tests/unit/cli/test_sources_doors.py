"""`rocwright sources show` and `checkout` where no repository is needed: what is shown, what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright import cli
from rocwright.sources.lock import LockedSource, SourceLock


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_lock_is_shown_in_short_lines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = "0123456789" * 4
    sources = tuple(
        LockedSource(
            project, f"https://host/{project}.git", "refs/heads/main", commit, "flag", project, hipify
        )
        for project, hipify in (("torch", True), ("triton", False))
    )
    (place / "sources.lock.json").write_bytes(msgspec.json.encode(SourceLock(1, "linux", sources)))
    with pytest.raises(SystemExit) as ended:
        cli.main(["sources", "show"])
    assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("sources.lock.json: sources for linux")
    assert lines[1:3] == ["torch: https://host/torch.git", f"  upstream  {commit} main"]
    assert lines[5] == "triton: https://host/triton.git"
    assert lines[8] == "  hipify    no; not checked out yet"


def test_nothing_is_checked_out_below_a_checkout(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "pytorch/.git/rocwright").mkdir(parents=True)
    (place / "pytorch/tools").mkdir()
    monkeypatch.chdir(place / "pytorch/tools")
    with pytest.raises(SystemExit) as ended:
        cli.main(["checkout", "torch", "--dry-run"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"inside the checkout {place / 'pytorch'}" in said
    assert f"change to {place}, or name a directory outside" in said
