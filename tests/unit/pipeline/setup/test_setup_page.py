"""The page about labels and inputs names all that the code knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.model.plan import TEST_LEVELS
from rocwright.pipeline.setup.wish import INPUTS, LABELS

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/how-to/choose-what-ci-runs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*LABELS, *INPUTS, *TEST_LEVELS])
def test_the_page_names_it(name: str) -> None:
    assert f"`{name}" in PAGE or f":{name}`" in PAGE
