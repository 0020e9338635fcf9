"""Archives that claim far more than they hold are refused before anything of it is written."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from rocwright.cli import main
from rocwright.errors import InvalidArchive
from rocwright.pipeline.cells.outputs import unpack_tree
from rocwright.sdk.intake.archives import unpack_artifacts, unpack_installation
from rocwright.system import tarballs

Fill = Callable[[tarfile.TarFile], object]


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", *, claims: int | None = None) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data) if claims is None else claims
    tar.fileobj.write(info.tobuf(tarfile.PAX_FORMAT))  # type: ignore[union-attr]
    tar.fileobj.write(data.ljust(-len(data) // 512 * -512, b"\0"))  # type: ignore[union-attr]


def sparse(tar: tarfile.TarFile, size: int) -> None:
    """A file of `size` bytes of which the archive holds one: the last."""
    text = f"1\n{size - 1}\n1\n".encode().ljust(512, b"\0") + b"a".ljust(512, b"\0")
    info = tarfile.TarInfo("x/stage/GNUSparseFile.0/hole")
    info.size = len(text)
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x/stage/hole",
        "GNU.sparse.realsize": str(size),
    }
    tar.addfile(info, io.BytesIO(text))


def header_of(kind: bytes, size: int) -> Fill:
    """An extended header that claims to have so many bytes of its own."""

    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("x")
        info.type, info.size = kind, size
        tar.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr]

    return fill


def many(tar: tarfile.TarFile) -> None:
    for number in range(60):
        add(tar, f"x/stage/{number}")


def zeros(tar: tarfile.TarFile) -> None:
    for _ in range(7000):
        tar.fileobj.write(bytes(10_240))  # type: ignore[union-attr]


HOSTILE: dict[str, tuple[Fill, str]] = {
    "sparse": (lambda tar: sparse(tar, 16 << 40), "unpacks to more than 1,073,741,824"),
    "declared": (lambda tar: add(tar, "x/stage/a", claims=8 << 30), "unpacks to more than 1,073,741,824"),
    "deep": (lambda tar: add(tar, "/".join(["d"] * 1000) + "/f"), "is more than 200 folders deep"),
    "deeper": (lambda tar: add(tar, "/".join(["d"] * 10_000) + "/f"), "has more than 4,096 letters"),
    "long name": (lambda tar: add(tar, "x/stage/" + "n" * (64 << 10)), "has more than 4,096 letters"),
    "long part": (lambda tar: add(tar, "x/stage/" + "n" * 300), "has a part of more than 255 bytes"),
    "many": (many, "has more than 50 members"),
    "pax header": (header_of(tarfile.XHDTYPE, 4 << 30), "headers claims to have 4,294,967,296 bytes"),
    "global header": (header_of(tarfile.XGLTYPE, 4 << 30), "headers claims to have 4,294,967,296 bytes"),
    "GNU name": (header_of(tarfile.GNUTYPE_LONGNAME, 4 << 30), "headers claims to have 4,294,967,296"),
    "no end": (zeros, "has no end"),
}


@pytest.fixture(params=sorted(HOSTILE))
def hostile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Fill, str]:
    monkeypatch.setattr(tarballs, "BOUNDS", tarballs.TarBounds(members=50))
    return HOSTILE[request.param]


def packed(path: Path, *fills: Fill) -> Path:
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor().stream_writer(file) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        add(tar, "artifact_manifest.txt", b"x/stage\n")
        for fill in fills:
            fill(tar)
    return path


def test_an_artifact_that_claims_too_much_leaves_nothing(tmp_path: Path, hostile: tuple[Fill, str]) -> None:
    fill, said = hostile
    path = packed(tmp_path / "base_lib_generic.tar.zst", fill)
    with pytest.raises(InvalidArchive) as caught:
        unpack_artifacts([path], tmp_path / "out")
    assert f"the archive {path.name} is not unpacked: " in caught.value.what
    assert said in caught.value.what
    assert caught.value.where == str(path)
    assert [*tmp_path.iterdir()] == [path]


def test_a_tarball_of_rocm_that_claims_too_much_leaves_nothing(
    tmp_path: Path, hostile: tuple[Fill, str]
) -> None:
    path = packed(tmp_path / "rocm.tar.zst", hostile[0])
    with pytest.raises(InvalidArchive, match="is not unpacked"):
        unpack_installation(path, tmp_path / "out")
    assert [*tmp_path.iterdir()] == [path]


# What follows the last member of a packed tree is never read.
@pytest.mark.parametrize("hostile", sorted({*HOSTILE} - {"no end"}), indirect=True)
def test_a_tree_between_cells_that_claims_too_much_leaves_nothing(
    tmp_path: Path, hostile: tuple[Fill, str]
) -> None:
    fill, _ = hostile
    path = packed(tmp_path / "tree.tar.zst", fill)
    with pytest.raises(InvalidArchive, match="is not a packed tree"):
        unpack_tree(path, tmp_path / "out")
    assert [*tmp_path.iterdir()] == [path]


def test_a_sparse_file_of_an_honest_size_is_unpacked(tmp_path: Path) -> None:
    size = 50 << 20
    path = packed(tmp_path / "base_lib_generic.tar.zst", lambda tar: sparse(tar, size))
    unpack_artifacts([path], tmp_path / "out")
    hole = tmp_path / "out/base_lib_generic/x/stage/hole"
    assert hole.stat().st_size == size
    with hole.open("rb") as stream:
        stream.seek(size - 2)
        assert stream.read() == b"\0a"


def test_the_command_says_which_archive_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = packed(tmp_path / "base_lib_generic.tar.zst", lambda tar: sparse(tar, 16 << 40))
    before = [*tmp_path.iterdir()]
    with pytest.raises(SystemExit) as ended:
        main(["sdk", "build", "--artifact-dir", str(tmp_path), "--dest-dir", str(tmp_path / "packages")])
    said = capsys.readouterr().err
    assert ended.value.code == InvalidArchive.exit_code, said
    assert f"{path.name} is not unpacked" in said
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == before
    assert "Traceback" not in said
