"""Workers collect one file at a time; fixtures of every conftest.py hold for it as in plain pytest.

pytest 9.1 ties them to the directories of one collection, and forgets those that it did not come to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated

OUTER = """
import pytest

@pytest.fixture
def place():
    return ["outer"]

@pytest.fixture(autouse=True)
def every(place):
    yield
"""


@pytest.mark.slow
def test_fixtures_of_directories_that_are_come_to_again_and_again(tmp_path: Path) -> None:
    # pytest's root is above, as it is where a checkout has its settings above its tests.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    root = tmp_path / "tests"
    files = []
    for name in ("one", "two", "package"):
        (root / name).mkdir(parents=True)
        (root / name / "conftest.py").write_text(
            f"import pytest\n@pytest.fixture\ndef place(place): return [*place, {name!r}]\n"
        )
    (root / "package" / "__init__.py").touch()
    (root / "conftest.py").write_text(OUTER)
    for turn in "ab":
        for name in ("", "one", "two", "package"):
            expected = ["outer", name] if name else ["outer"]
            path = root / name / f"test_{turn}_{name or 'outer'}.py"
            path.write_text(f"def test_place(place): assert place == {expected}\n")
            files.append(path.relative_to(root).as_posix())
    done = run_isolated(
        Isolation(
            python=Path(sys.executable),
            root=root,
            files=tuple(files),
            test_s=60,
            collect_s=60,
            end_s=10,
            log_dir=tmp_path / "logs",
        )
    )
    assert [one.message for one in done.results if one.bad] == []
    assert [one.verdict for one in done.results] == ["passed"] * 8
