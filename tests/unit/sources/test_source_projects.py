"""Sources of projects that stand on torch: what they are called, and what a failure leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from git_repos import git
from rocwright.errors import InvalidInput, UsageError
from rocwright.sources.project import ProjectSource, from_repository, from_sdist
from small_extension import sources
from wheels import pack_tar


def test_an_archive_of_a_repository_is_called_what_its_sources_say(tmp_path: Path) -> None:
    files = {
        f"pytorch_scatter-2.1.2/{name}": text for name, text in sources("torch-scatter", "2.1.2").items()
    }
    archive = pack_tar(tmp_path / "pytorch_scatter-2.1.2.tar.gz", files)
    for name in ("", "torch-scatter"):
        source = ProjectSource("path", name, place=str(archive))
        for _ in range(2):
            assert from_sdist(archive, source, tmp_path / "src", origin="").project == "torch-scatter"
    with pytest.raises(InvalidInput, match="the sources of torch-scatter, not of pytorch-scatter"):
        source = ProjectSource("path", "pytorch-scatter", place=str(archive))
        from_sdist(archive, source, tmp_path / "src", origin="")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One whose sources say neither name nor version, tagged."""
    root = tmp_path / "origin"
    root.mkdir()
    (root / "setup.py").write_text("from setuptools import setup\nsetup(use_scm_version=True)\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "tag", "v1.2.3")
    return root


def test_a_checkout_of_a_tag_has_the_tag(repository: Path, tmp_path: Path) -> None:
    """Projects ask git for their version."""
    source = ProjectSource("git", "my-ext", place=repository.as_uri(), ref="v1.2.3")
    tree = from_repository(source, tmp_path / "src", mirrors=None)
    said = subprocess.run(
        ["git", "describe", "--tags", "--match", "*[0-9]*"],
        cwd=tree.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "v1.2.3"


def test_a_wrong_name_for_a_repository_is_not_remembered(repository: Path, tmp_path: Path) -> None:
    def called(name: str) -> str:
        source = ProjectSource("git", name, place=repository.as_uri(), ref="v1.2.3")
        return from_repository(source, tmp_path / "src", mirrors=None).project

    assert [called("my-exd"), called("my-ext")] == ["my-exd", "my-ext"]
    with pytest.raises(UsageError, match="do not say what the project is called"):
        called("")
