from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.cli.store.options import RunOptions
from rocwright.errors import UsageError


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (RunOptions(), "s3://therock-ci-artifacts"),
        (RunOptions(repository="ROCm/TheRock"), "s3://therock-ci-artifacts"),
        (RunOptions(repository="me/TheRock"), "s3://therock-ci-artifacts-external"),
        (RunOptions(release_type="nightly"), "s3://therock-nightly-python"),
        (RunOptions(store="s3://b/c"), "s3://b/c"),
        # What is named comes before $ROCWRIGHT_STORE.
        (RunOptions(store="s3://b/c", bucket="mine"), "s3://mine"),
        (RunOptions(store="s3://b/c", release_type="dev"), "s3://therock-dev-python"),
    ],
)
def test_which_store_is_meant(options: RunOptions, address: str) -> None:
    assert options.address() == address
    with pytest.raises(UsageError, match="give one of"):
        RunOptions(bucket="b", release_type="dev").address()


def test_a_directory_is_a_store() -> None:
    assert RunOptions(store="s3://b").address(Path("out")) == "out"
    with pytest.raises(UsageError, match="give one of"):
        RunOptions(bucket="b").address(Path("out"))


def test_a_table_of_ones_own_names_other_buckets_and_another_repository(tmp_path: Path) -> None:
    own = tmp_path / "rocwright.toml"
    own.write_text(
        '[channels.buckets]\nruns = "our-runs"\n[channels.runs]\nrepository = "us/wheels"\n', encoding="utf-8"
    )
    assert RunOptions(config=own, repository="us/wheels").address() == "s3://our-runs"
    assert RunOptions(config=own, repository="us/wheels").external_repo() == ""
    assert RunOptions(config=own, repository="ROCm/TheRock").external_repo() == "ROCm-TheRock/"
