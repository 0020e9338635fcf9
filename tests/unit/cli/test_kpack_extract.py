"""`rocwright kpack extract` for some targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracle.fat_library import build_library, bundle, code_object
from rocwright import cli

CODE = {
    "gfx90a:xnack-": code_object(0x3F, b"a" * 3000, features=0x200),
    "gfx942": code_object(0x4C, b"b" * 99),
}


@pytest.mark.parametrize(
    ("targets", "written"),
    [
        ([], ["gfx90a:xnack-", "gfx942"]),
        (["--targets", "gfx942"], ["gfx942"]),
        (["--targets", "gfx942,gfx90a:xnack-"], ["gfx90a:xnack-", "gfx942"]),
        (["--targets", "gfx1100"], []),
    ],
    ids=["all", "one", "two", "none of them"],
)
def test_only_the_targets_that_are_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    targets: list[str],
    written: list[str],
) -> None:
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    library = build_library(tmp_path, bundles=[bundle(list(CODE.items()))], name="libfat.so")
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        cli.main(["kpack", "extract", str(library), "--output-dir", str(out), "--json", *targets])
    assert not ended.value.code
    said = capsys.readouterr()
    assert [row["target"] for row in json.loads(said.out)] == written
    assert ("no code for gfx1100" in said.err) == (not written)
    assert {path.name: path.read_bytes() for path in out.glob("*")} == {
        f"libfat.so#0-{target}.hsaco": CODE[target] for target in written
    }
