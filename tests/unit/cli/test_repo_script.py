"""Where the documented `pytorch_*_repo.py` put a checkout: two spellings of one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.cli.documented.repo_script import CheckoutPlace
from rocwright.errors import UsageError

BESIDE = Path("/scripts")


@pytest.mark.parametrize(
    ("place", "expected", "said"),
    [
        (CheckoutPlace(), "/scripts/pytorch", ""),
        (CheckoutPlace(checkout_dir=Path("/b/torch")), "/b/torch", ""),
        (
            CheckoutPlace(repo=Path("/b")),
            "/b/pytorch",
            "--repo is deprecated; give --checkout-dir /b/pytorch",
        ),
        (
            CheckoutPlace(repo=Path("/b"), repo_name="t"),
            "/b/t",
            "--repo is deprecated; give --checkout-dir /b/t",
        ),
        (
            CheckoutPlace(repo_name="src"),
            "/scripts/src",
            "--repo-name is deprecated; give --checkout-dir /scripts/src",
        ),
    ],
    ids=["beside the script", "checkout-dir", "repo", "repo and repo-name", "repo-name"],
)
def test_a_checkout_goes_where_either_spelling_says(
    place: CheckoutPlace, expected: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.directory(BESIDE, "pytorch") == Path(expected)
    assert capsys.readouterr().err == (f"warning: {said}\n" if said else "")


@pytest.mark.parametrize(
    ("place", "older"),
    [
        (CheckoutPlace(checkout_dir=Path("a"), repo=Path("b")), "--repo"),
        (CheckoutPlace(checkout_dir=Path("a"), repo_name="b"), "--repo-name"),
    ],
    ids=["repo", "repo-name"],
)
def test_both_spellings_at_once_are_refused(place: CheckoutPlace, older: str) -> None:
    with pytest.raises(UsageError, match=f"--checkout-dir and {older} contradict each other"):
        place.directory(BESIDE, "pytorch")
