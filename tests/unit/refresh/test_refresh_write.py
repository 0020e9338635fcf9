"""What `rocwright data refresh` writes: a rocwright.toml that loses nothing, and a patch of the tables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Run
from rocwright import data as tables
from rocwright.data import load_table
from rocwright.data.explain import explain
from rocwright.data.overlay import read_overlay
from rocwright.model.gpu import GpuTable
from rocwright.system.days import today
from trees import write
from unit.refresh import refresh_pages as pages

pytest.importorskip("tomlkit")

MINE = """\
# Ours, and it stays.
[channels]
max_age = 60 # near

[families.families]
# The lab's.
"mi300-lab" = ["gfx942"]
"""


def refresh(run: Run, folder: Path, *words: object) -> str:
    done = run("data", "refresh", "--from", f"therock-targets={folder}", *words)
    assert done.code == 0, done.err
    return done.out


def test_an_overlay_keeps_what_was_there_and_holds_the_changes(rocwright: Run, tmp_path: Path) -> None:
    clone, mine = pages.therock(tmp_path / "clone"), write(tmp_path / "mine.toml", MINE)
    refresh(rocwright, clone, "--overlay", mine)
    text = mine.read_text()
    # The lines that were there stand there in their order.
    kept = iter(text.splitlines())
    assert all(line in kept for line in MINE.splitlines())
    overlay = read_overlay(mine)
    assert overlay is not None
    found = explain("families.families.gfx94X-all", overlay)
    assert (found.value, found.origin, found.replaces) == (["gfx942", "gfx950"], "overlay", '["gfx942"]')
    assert [str(one) for one in found.sources] == [
        "https://github.com/ROCm/TheRock/blob/main/cmake/therock_amdgpu_targets.cmake, "
        f"as of {today()}, read {today()}"
    ]
    # What stands beside it is by hand.
    assert explain("families.families.mi300-lab", overlay).sources == ()
    # A family that the source does not have any more stays.
    assert explain("families.families.gfx90a-dcgpu", overlay).value == ["gfx90a"]
    # Run again, there is nothing to change.
    assert refresh(rocwright, clone, "--overlay", mine).count("changed  families") == 0
    assert mine.read_text() == text


def test_a_dry_run_writes_nothing(rocwright: Run, tmp_path: Path) -> None:
    clone, mine = pages.therock(tmp_path / "clone"), write(tmp_path / "mine.toml", MINE)
    out = refresh(rocwright, clone, "--overlay", mine, "--dry-run")
    assert "changed  families.families.gfx94X-all" in out
    assert mine.read_text() == MINE


def test_a_row_written_by_hand_is_told_and_left(rocwright: Run, tmp_path: Path) -> None:
    clone = pages.therock(tmp_path / "clone")
    by_hand = MINE + '"gfx94X-all" = ["gfx942", "gfx90a"]\n'
    mine = write(tmp_path / "mine.toml", by_hand)
    out = refresh(rocwright, clone, "--overlay", mine)
    assert "conflict families.families.gfx94X-all" in out
    assert '- "gfx94X-all" = ["gfx942", "gfx90a"]' in out
    assert mine.read_text().count("gfx94X-all") == 1
    assert '"gfx94X-all" = ["gfx942", "gfx90a"]\n' in mine.read_text()


def test_a_row_of_an_earlier_refresh_is_written_anew(rocwright: Run, tmp_path: Path) -> None:
    clone, mine = pages.therock(tmp_path / "clone"), tmp_path / "mine.toml"
    refresh(rocwright, clone, "--overlay", mine)
    families = dict(pages.table("families")["families"])  # type: ignore[call-overload]
    families["gfx94X-all"] = ["gfx942", "gfx908"]
    pages.therock(clone, cmake=pages.cmake(families))
    out = refresh(rocwright, clone, "--overlay", mine)
    assert "changed  families.families.gfx94X-all" in out
    assert explain("families.families.gfx94X-all", read_overlay(mine)).value == ["gfx908", "gfx942"]
    assert mine.read_text().count("gfx94X-all") == 1


def test_a_chip_of_the_overlay_takes_the_place_of_the_built_in_one(rocwright: Run, tmp_path: Path) -> None:
    ids, mine = write(tmp_path / "amdgpu.ids", pages.IDS), tmp_path / "mine.toml"
    done = rocwright("data", "refresh", "--from", f"amdgpu-ids={ids}", "--overlay", mine)
    assert done.code == 0, done.err
    table = load_table("gpus", GpuTable, read_overlay(mine))
    (by,) = explain("gpus.chip.Navi 31.names", read_overlay(mine)).sources
    assert by.url.endswith("/amdgpu.ids")
    (navi,) = [chip for chip in table.chip if chip.name == "Navi 31"]
    assert navi.named()["744c", "c8"] == "AMD Radeon RX 9999 XTX"
    # And what a hand changes in it is a hand's from then on.
    text = "\n".join(line.partition(" # by rocwright")[0] for line in mine.read_text().splitlines())
    mine.write_text(text)
    ids.write_text(pages.IDS.replace("9999", "8888"))
    done = rocwright("data", "refresh", "--from", f"amdgpu-ids={ids}", "--overlay", mine)
    assert "conflict gpus.chip.Navi 31" in done.out
    assert "8888" not in mine.read_text()


@pytest.mark.parametrize(
    "text",
    ["families = { families = { a = ['gfx942'] } }\n", "[families]\nfamilies = { a = ['gfx942'] }\n"],
)
def test_a_form_that_rows_cannot_be_added_to_is_refused(rocwright: Run, tmp_path: Path, text: str) -> None:
    mine = write(tmp_path / "mine.toml", text)
    clone = pages.therock(tmp_path / "clone")
    done = rocwright("data", "refresh", "--from", f"therock-targets={clone}", "--overlay", mine)
    assert done.code == 3 and "write its tables as [table]" in done.err
    assert mine.read_text() == text


def test_a_link_stays_one(rocwright: Run, tmp_path: Path) -> None:
    mine = write(tmp_path / "real.toml", MINE)
    (tmp_path / "link.toml").symlink_to(mine)
    refresh(rocwright, pages.therock(tmp_path / "clone"), "--overlay", tmp_path / "link.toml")
    assert (tmp_path / "link.toml").is_symlink()
    assert "gfx129X-all" in mine.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_on_a_full_disk_the_old_overlay_stays(rocwright: Run, tmp_path: Path) -> None:
    clone, mine = pages.therock(tmp_path / "clone"), write(tmp_path / "mine.toml", MINE)
    (tmp_path / "mine.toml.partial").symlink_to("/dev/full")
    done = rocwright("data", "refresh", "--from", f"therock-targets={clone}", "--overlay", mine)
    assert done.code == 8
    assert mine.read_text() == MINE


KILLED = """
import os, sys
from pathlib import Path
real = Path.replace
def replace(self, target):
    print("here", flush=True)
    import time
    time.sleep(60)
    return real(self, target)
Path.replace = replace
from rocwright.cli import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill")
def test_killed_while_writing_the_old_overlay_stays(rocwright: Run, tmp_path: Path) -> None:
    clone, mine = pages.therock(tmp_path / "clone"), write(tmp_path / "mine.toml", MINE)
    words = ["data", "refresh", "--from", f"therock-targets={clone}", "--overlay", str(mine)]
    with subprocess.Popen([sys.executable, "-c", KILLED, *words], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "here\n"
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert mine.read_text() == MINE
    # What the killed run left is in nobody's way.
    refresh(rocwright, clone, "--overlay", mine)
    assert "gfx129X-all" in mine.read_text()


def test_a_patch_is_one_that_git_applies_to_the_tables(rocwright: Run, tmp_path: Path) -> None:
    clone, ids = pages.therock(tmp_path / "clone"), write(tmp_path / "amdgpu.ids", pages.IDS)
    pages.therock(clone)
    patch, tree = tmp_path / "p.patch", tmp_path / "tree"
    data = tree / "src/rocwright/data"
    data.mkdir(parents=True)
    for file in Path(tables.__file__).parent.glob("*.toml"):
        shutil.copy(file, data)
    done = rocwright(
        "data",
        "refresh",
        "--from",
        f"therock-targets={clone}",
        "--from",
        f"amdgpu-ids={ids}",
        "--patch",
        patch,
    )
    assert done.code == 0, done.err
    before = (data / "families.toml").read_text().splitlines()
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True)
    after = (data / "families.toml").read_text().splitlines()
    gone, new = [line for line in before if line not in after], [line for line in after if line not in before]
    assert gone == ['"gfx94X-all" = ["gfx942"]']
    assert new == ['"gfx94X-all" = ["gfx942", "gfx950"]', 'gfx129X-all = ["gfx1299"]']
    # No mark stands in the tables, and only the names that differ were touched.
    chips = (data / "gpus.toml").read_text()
    assert '"744c:c8" = "AMD Radeon RX 9999 XTX"\n' in chips and "by rocwright data refresh" not in chips
    assert '"738c:01 02" = "AMD Instinct MI100"\n' in chips and '"738c:01" =' not in chips


def test_without_tomlkit_it_says_what_to_install(
    rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    clone = pages.therock(tmp_path / "clone")
    done = rocwright("data", "refresh", "--from", f"therock-targets={clone}", "--overlay", "mine.toml")
    assert done.code == 4 and "pip install 'rocwright[refresh]'" in done.err
    # To look at the changes it is not needed.
    assert rocwright("data", "refresh", "--from", f"therock-targets={clone}").code == 0
