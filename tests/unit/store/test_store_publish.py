from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from rocwright.errors import ContractBroken, IntegrityError, InvalidInput, InvalidWheel
from rocwright.model.manifest import SetManifest, new_set, set_id
from rocwright.model.statement import FINDINGS, Statement, about_set
from rocwright.store.objects import LocalStore
from rocwright.store.publish import describe_files, stage_set, upload_run
from rocwright.store.records import read_set, read_statements

TODAY = date(2026, 11, 21)


def manifest_of(paths: list[Path]) -> SetManifest:
    return new_set(
        family="fam",
        targets=["gfx90a"],
        platform="linux",
        files=describe_files(paths),
        sources={"torch": "abc"},
    )


def passed(manifest: SetManifest) -> list[Statement]:
    files = [entry.name for entry in manifest.files]
    return [about_set(manifest, FINDINGS, {"passed": True, "files": files})]


def test_describe_reads_the_file_itself(make_wheel: Callable[..., Path]) -> None:
    wheel = make_wheel("My_Torch", "2.0+rocm7.1", requires=["rocm[libraries]==7.1", "Typing.Extensions"])
    [entry] = describe_files([wheel])
    data = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("My_Torch-2.0+rocm7.1.dist-info/METADATA")
    assert entry.sha256 == hashlib.sha256(data).hexdigest()
    assert entry.metadata_sha256 == hashlib.sha256(metadata).hexdigest()
    assert (entry.size, entry.project, entry.version) == (len(data), "my-torch", "2.0+rocm7.1")
    assert entry.requires_python == ">=3.10"
    assert entry.depends == ("rocm", "typing-extensions")


def test_describe_reads_an_sdist(make_sdist: Callable[..., Path]) -> None:
    [entry] = describe_files([make_sdist("rocm", "7.1")])
    assert (entry.project, entry.version, entry.metadata_sha256, entry.depends) == (
        "rocm",
        "7.1",
        None,
        ("rocm-sdk-core",),
    )


def test_describe_refuses_what_is_no_distribution(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidInput, match="neither a wheel nor an sdist"):
        describe_files([tmp_path / "notes.txt"])
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(bytes(200_000))
    with pytest.raises(InvalidWheel, match="cannot be read"):
        describe_files([tmp_path / "a-1-py3-none-any.whl"])
    good = make_wheel("a", "1")
    renamed = good.rename(good.with_name("a-2-py3-none-any.whl"))
    with pytest.raises(InvalidWheel, match="calls itself 'a' '1'"):
        describe_files([renamed])
    with pytest.raises(InvalidInput, match="twice"):
        describe_files([make_wheel("b", "1"), make_wheel("b", "1", folder=tmp_path / "other")])
    with pytest.raises(InvalidWheel, match="requires"):
        describe_files([make_wheel("c", "1", requires=["rocm[libraries]=={7.1}"])])


def test_upload_of_a_run(
    tmp_path: Path, make_wheel: Callable[..., Path], make_sdist: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    wheel, sdist = make_wheel("a", "1+r"), make_sdist("rocm", "7.1")
    uploaded = upload_run(store, [wheel, sdist], "42", "linux", "fam", "python")
    prefix = "42-linux/python/fam/"
    assert uploaded.prefix == prefix
    assert uploaded.url == (tmp_path / "store" / prefix / "index.html").as_uri()
    assert store.list(prefix) == (
        prefix + "a-1+r-py3-none-any.whl",
        prefix + "a-1+r-py3-none-any.whl.metadata",
        prefix + "index.html",
        prefix + "records/a-1+r-py3-none-any.whl.json",
        prefix + "records/rocm-7.1.tar.gz.json",
        prefix + "rocm-7.1.tar.gz",
    )
    before = store.read(prefix + "index.html")
    assert before.count(b"<a ") == 2
    upload_run(store, [sdist, wheel], "42", "linux", "fam", "python")
    assert store.read(prefix + "index.html") == before


def test_a_second_job_of_a_run_adds_to_the_page(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    upload_run(store, [make_wheel("a", "1")], "42", "linux", "fam", "pytorch")
    upload_run(store, [make_wheel("b", "1")], "42", "linux", "fam", "pytorch")
    page = store.read("42-linux/pytorch/fam/index.html").decode()
    assert "a-1-py3-none-any.whl" in page
    assert "b-1-py3-none-any.whl" in page


def test_an_upload_without_files_or_with_changed_ones_is_an_error(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    with pytest.raises(InvalidInput, match="no wheels"):
        upload_run(store, [], "42", "linux", "fam", "python")
    upload_run(store, [make_wheel("a", "1")], "42", "linux", "fam", "python")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        upload_run(
            store,
            [make_wheel("a", "1", body="changed", folder=tmp_path / "second")],
            "42",
            "linux",
            "fam",
            "python",
        )


def test_a_set_is_staged_and_recorded(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1", requires=["rocm"]), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    staged = stage_set(store, manifest, paths, passed(manifest), TODAY)
    assert staged.set_id == set_id(manifest)
    assert staged.index_url == (tmp_path / "store/v2-staging/fam").as_uri() + "/"
    assert set(store.list("v2-staging/")) == {
        "v2-staging/fam/" + name
        for name in (
            "channel.json",
            "index.html",
            "rocm/index.html",
            "torch/index.html",
            "rocm-1-py3-none-any.whl",
            "rocm-1-py3-none-any.whl.metadata",
            "torch-1-py3-none-any.whl",
            "torch-1-py3-none-any.whl.metadata",
        )
    }
    assert read_set(store, staged.set_id) == manifest
    assert read_statements(store, staged.set_id) == tuple(passed(manifest))


def test_a_second_set_keeps_the_first_listed(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    for version in ("1", "2"):
        paths = [make_wheel("torch", version)]
        manifest = manifest_of(paths)
        stage_set(store, manifest, paths, passed(manifest), TODAY)
    page = store.read("v2-staging/fam/torch/index.html").decode()
    assert "torch-1-py3-none-any.whl" in page
    assert "torch-2-py3-none-any.whl" in page


def test_an_unchecked_set_is_not_staged(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1")]
    manifest = manifest_of(paths)
    other = manifest_of([make_wheel("torch", "2")])
    failed = about_set(
        manifest, FINDINGS, {"passed": False, "files": [entry.name for entry in manifest.files]}
    )
    for statements in ([], [failed], passed(other)):
        with pytest.raises(ContractBroken, match="no passing check"):
            stage_set(store, manifest, paths, statements, TODAY)
    assert store.list("") == ()


def test_files_that_are_not_the_sets_are_not_staged(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1"), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    with pytest.raises(InvalidInput, match="rocm-1"):
        stage_set(store, manifest, paths[:1], passed(manifest), TODAY)
    with pytest.raises(InvalidInput, match="extra-1"):
        stage_set(store, manifest, [*paths, make_wheel("extra", "1")], passed(manifest), TODAY)
    changed = make_wheel("rocm", "1", body="changed after the check", folder=tmp_path / "second")
    with pytest.raises(IntegrityError, match="not the file that was checked"):
        stage_set(store, manifest, [paths[0], changed], passed(manifest), TODAY)
    assert store.list("") == ()


def test_a_name_staged_before_with_other_bytes_is_refused_before_any_change(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    first = [make_wheel("torch", "1")]
    manifest = manifest_of(first)
    stage_set(store, manifest, first, passed(manifest), TODAY)
    before = {key: store.digest(key) for key in store.list("")}
    second = [make_wheel("torch", "1", body="rebuilt", folder=tmp_path / "second"), make_wheel("rocm", "1")]
    manifest = manifest_of(second)
    with pytest.raises(IntegrityError, match="other content"):
        stage_set(store, manifest, second, passed(manifest), TODAY)
    assert {key: store.digest(key) for key in store.list("")} == before
