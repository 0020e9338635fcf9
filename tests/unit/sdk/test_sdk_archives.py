"""Artifact archives: what comes out, and what is refused with nothing left behind."""

from __future__ import annotations

import hashlib
import io
import lzma
import random
import re
import stat
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.errors import IntegrityError, InvalidArchive, InvalidInput, NoSpace, RocwrightError
from rocwright.sdk.intake.archives import unpack_artifacts

MANIFEST = ("artifact_manifest.txt", b"math/stage\n")


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def tar(*entries: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = member(entry[0])
                info.size = len(entry[1])
                archive.addfile(info, io.BytesIO(entry[1]))
    return stream.getvalue()


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {".tar.zst": zst, ".tar.xz": lzma.compress}


def put(path: Path, *entries: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    suffix = "".join(path.suffixes[-2:])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PACKERS[suffix](tar(*entries)))
    return path


def tree(root: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(root).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def refused(tmp_path: Path, *entries: tuple[str, bytes] | tarfile.TarInfo) -> InvalidArchive:
    """What is said of an archive with these members; checks that nothing is left anywhere."""
    archive = put(tmp_path / "in/blas_lib_generic.tar.zst", *entries)
    (tmp_path / "work").mkdir()
    with pytest.raises(InvalidArchive) as caught:
        unpack_artifacts([archive], tmp_path / "work/out")
    assert list((tmp_path / "work").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "work"]
    assert "blas_lib_generic.tar.zst" in caught.value.what
    assert caught.value.where == str(archive)
    return caught.value


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_becomes_the_directory_it_was_made_of(tmp_path: Path, suffix: str) -> None:
    put(
        tmp_path / f"in/amd-llvm_run_generic{suffix}",
        MANIFEST,
        member("math/stage/bin", tarfile.DIRTYPE, mode=0o555),
        ("math/stage/bin/clang-19", b"\x7fELF"),
        member("math/stage/bin/clang", tarfile.SYMTYPE, target="clang-19"),
        member("math/stage/llvm", tarfile.SYMTYPE, target="lib/llvm"),
        member("./math/stage/bin/again", tarfile.LNKTYPE, target="math/stage/bin/clang-19"),
        member("math/stage/bin/run-me", mode=0o4711),
        ("math/stage/share/with space/ü", b"text"),
        member("math/stage/empty/deep", tarfile.DIRTYPE),
    )
    done = unpack_artifacts([tmp_path / "in"], tmp_path / "out")
    assert done.artifacts == ("amd-llvm_run_generic",)
    assert done.directory == str(tmp_path / "out")
    assert (done.files, done.size, done.ignored) == (5, 19, ())
    root = tmp_path / "out/amd-llvm_run_generic"
    assert tree(root) == {
        "artifact_manifest.txt": b"math/stage\n",
        "math/stage/bin/clang-19": b"\x7fELF",
        # A link whose end lies in another artifact stays.
        "math/stage/bin/clang": "clang-19",
        "math/stage/llvm": "lib/llvm",
        "math/stage/bin/again": b"\x7fELF",
        "math/stage/bin/run-me": b"",
        "math/stage/share/with space/ü": b"text",
    }
    assert (root / "math/stage/empty/deep").is_dir()
    assert (root / "math/stage/bin/again").samefile(root / "math/stage/bin/clang-19")
    # No setuid, whatever the archive says; what could be run still can.
    assert stat.S_IMODE((root / "math/stage/bin/run-me").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "math/stage/bin/clang-19").stat().st_mode) == 0o644


@pytest.mark.parametrize("threads", [1, 4])
def test_archives_of_both_kinds_in_one_directory(tmp_path: Path, threads: int) -> None:
    put(tmp_path / "in/blas_lib_generic.tar.xz", MANIFEST, ("math/stage/lib/libblas.so", b"host"))
    put(tmp_path / "in/blas_lib_gfx942:xnack+.tar.zst", MANIFEST, ("math/stage/lib/blas.kpack", b"device"))
    put(tmp_path / "in/fft_lib_gfx110X-all.tar.zst", MANIFEST)
    (tmp_path / "in/README").write_text("x")
    (tmp_path / "in/blas_lib_.tar.xz").write_bytes(b"")
    (tmp_path / "in/logs").mkdir()
    done = unpack_artifacts([tmp_path / "in"], tmp_path / "out", threads=threads)
    assert done.artifacts == ("blas_lib_generic", "blas_lib_gfx942:xnack+", "fft_lib_gfx110X-all")
    assert done.ignored == ("README", "blas_lib_.tar.xz", "logs")
    assert (tmp_path / "out/blas_lib_gfx942:xnack+/math/stage/lib/blas.kpack").read_bytes() == b"device"


def test_a_hard_link_to_a_link_is_the_same_link(tmp_path: Path) -> None:
    put(
        tmp_path / "blas_lib_generic.tar.zst",
        MANIFEST,
        member("a/one", tarfile.SYMTYPE, target="file"),
        member("a/two", tarfile.LNKTYPE, target="a/one"),
    )
    unpack_artifacts([tmp_path / "blas_lib_generic.tar.zst"], tmp_path / "out")
    assert (tmp_path / "out/blas_lib_generic/a/two").readlink() == Path("file")


def test_a_stream_of_several_frames_is_one_archive(tmp_path: Path) -> None:
    data = tar(MANIFEST, ("a/file", b"x" * 5000))
    (tmp_path / "blas_lib_generic.tar.zst").write_bytes(
        b"".join(zst(data[i : i + 700]) for i in range(0, len(data), 700))
    )
    unpack_artifacts([tmp_path / "blas_lib_generic.tar.zst"], tmp_path / "out")
    assert (tmp_path / "out/blas_lib_generic/a/file").read_bytes() == b"x" * 5000


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([("/etc/passwd", b"")], "'/etc/passwd' .* leads out"),
        ([("../up", b"")], "'../up' .* leads out"),
        ([("a/../../up", b"")], "leads out"),
        ([member("a/..", tarfile.DIRTYPE)], "leads out"),
        ([member("a", tarfile.SYMTYPE, target="/etc")], "link 'a' .* leads out .*'/etc'"),
        ([member("a/b", tarfile.SYMTYPE, target="../../x")], "link 'a/b' .* leads out"),
        # Each step stays inside; together they do not.
        (
            [member("d/e", tarfile.SYMTYPE, target=".."), member("y", tarfile.SYMTYPE, target="d/e/../..")],
            "link 'y' .* leads out",
        ),
        ([member("a", tarfile.SYMTYPE, target="b"), member("b", tarfile.SYMTYPE, target="a")], "in a circle"),
        ([member("a", tarfile.SYMTYPE, target="sub"), ("a/file", b"x")], "'a/file' .* needs 'a' to be a dir"),
        ([("a", b"x"), ("a/file", b"x")], "'a/file' .* needs 'a' to be a dir"),
        ([("a", b"x"), member("a", tarfile.DIRTYPE)], "'a' .* needs 'a' to be a dir"),
        ([("a/b", b"x"), ("a", b"x")], "'a' .* twice"),
        ([("a", b"x"), ("./a", b"y")], "'./a' .* twice"),
        ([member("h", tarfile.LNKTYPE, target="/etc/passwd")], "'h' .* leads out"),
        ([member("h", tarfile.LNKTYPE, target="../x")], "'h' .* leads out"),
        ([member("h", tarfile.LNKTYPE, target="later"), ("later", b"x")], "'h' .* not an earlier file"),
        ([member("null", tarfile.CHRTYPE)], "'null' .* neither file"),
        ([member("disk", tarfile.BLKTYPE)], "'disk' .* neither file"),
        ([member("pipe", tarfile.FIFOTYPE)], "'pipe' .* neither file"),
        ([(".", b"x")], "'.' .* twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_leads_out_or_is_no_plain_file_is_refused(
    tmp_path: Path, entries: Iterable[tuple[str, bytes] | tarfile.TarInfo], says: str
) -> None:
    assert re.search(says, refused(tmp_path, MANIFEST, *entries).what)


def test_an_archive_without_its_manifest_is_no_artifact(tmp_path: Path) -> None:
    assert "lacks artifact_manifest.txt" in refused(tmp_path, ("lib/liba.so", b"x")).what


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    archive = put(
        tmp_path / "blas_lib_generic.tar.zst",
        MANIFEST,
        member("a", tarfile.SYMTYPE, target="../../victim"),
        ("a/evil", b"x"),
    )
    with pytest.raises(InvalidArchive):
        unpack_artifacts([archive], tmp_path / "out")
    assert list((tmp_path / "victim").iterdir()) == []


WHOLE = tar(
    MANIFEST, ("a/one", random.Random(4).randbytes(3000)), ("a/two", bytes(2048)), ("a/three", b"end")
)


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_cut_anywhere_is_named_and_nothing_stays(tmp_path: Path, suffix: str) -> None:
    data = PACKERS[suffix](WHOLE)
    archive = tmp_path / f"blas_lib_generic{suffix}"
    for length in [*range(0, len(data), 97), len(data) - 5, len(data) - 4, len(data) - 1]:
        archive.write_bytes(data[:length])
        with pytest.raises(InvalidArchive, match=f"blas_lib_generic{suffix} (ends|is damaged)"):
            unpack_artifacts([archive], tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("length", range(512, len(WHOLE.rstrip(b"\0")) + 512, 512))
def test_a_tar_cut_between_members_and_packed_whole_is_not_taken_for_whole(
    tmp_path: Path, suffix: str, length: int
) -> None:
    archive = tmp_path / f"blas_lib_generic{suffix}"
    archive.write_bytes(PACKERS[suffix](WHOLE[:length]))
    with pytest.raises(InvalidArchive, match=r"ends in the middle|is damaged"):
        unpack_artifacts([archive], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255), packed=st.booleans())
def test_any_damage_is_a_named_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    data = bytearray(zst(WHOLE) if packed else WHOLE)
    data[position % len(data)] = value
    (folder / "blas_lib_generic.tar.zst").write_bytes(bytes(data) if packed else zst(bytes(data)))
    try:
        unpack_artifacts([folder], folder.parent / f"{folder.name}-out")
    except RocwrightError:
        assert not (folder.parent / f"{folder.name}-out").exists()


def test_one_bad_archive_among_good_ones_leaves_nothing(tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path / f"in/a{number}_lib_generic.tar.zst", MANIFEST, ("f", b"x" * 1000))
    bad = tmp_path / "in/a3_lib_generic.tar.zst"
    bad.write_bytes(bad.read_bytes()[:-9])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("old")
    with pytest.raises(InvalidArchive, match="a3_lib_generic"):
        unpack_artifacts([tmp_path / "in"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["old"]


def test_a_sidecar_is_believed(tmp_path: Path) -> None:
    archive = put(tmp_path / "blas_lib_generic.tar.xz", MANIFEST)
    sidecar = tmp_path / "blas_lib_generic.tar.xz.sha256sum"
    sidecar.write_text(f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n")
    assert unpack_artifacts([tmp_path], tmp_path / "out").ignored == ()
    sidecar.write_text("0" * 64 + f"  {archive.name}\n")
    with pytest.raises(IntegrityError, match=r"blas_lib_generic\.tar\.xz"):
        unpack_artifacts([archive], tmp_path / "out2")
    sidecar.write_text("<html>not found</html>")
    with pytest.raises(IntegrityError, match="holds no sha256"):
        unpack_artifacts([archive], tmp_path / "out2")
    assert not (tmp_path / "out2").exists()


def test_a_name_that_is_no_artifacts_is_refused_when_given(tmp_path: Path) -> None:
    wrong = tmp_path / "rocm.tar.xz"
    wrong.write_bytes(lzma.compress(WHOLE))
    with pytest.raises(InvalidInput, match=r"rocm\.tar\.xz is not an artifact archive"):
        unpack_artifacts([wrong], tmp_path / "out")
    with pytest.raises(InvalidInput, match="does not exist"):
        unpack_artifacts([tmp_path / "blas_lib_generic.tar.xz"], tmp_path / "out")
    with pytest.raises(InvalidInput, match="not an artifact archive"):
        unpack_artifacts([tmp_path], tmp_path / "out")


def test_one_artifact_in_two_forms_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "in/blas_lib_generic.tar.xz", MANIFEST)
    put(tmp_path / "in/blas_lib_generic.tar.zst", MANIFEST)
    with pytest.raises(InvalidInput, match="blas_lib_generic is there twice"):
        unpack_artifacts([tmp_path / "in"], tmp_path / "out")
    (tmp_path / "in/blas_lib_generic.tar.zst").unlink()
    (tmp_path / "in/fft_lib_generic").mkdir()
    (tmp_path / "in/fft_lib_generic/artifact_manifest.txt").write_text("")
    with pytest.raises(InvalidInput, match="fft_lib_generic is an unpacked artifact among archives"):
        unpack_artifacts([tmp_path / "in"], tmp_path / "out")


def test_room_is_asked_for_before_anything_is_written(tmp_path: Path) -> None:
    # A frame that says it holds an exabyte: single segment, 8 bytes of size.
    head = bytes.fromhex("28b52ffd") + bytes([0b11100000]) + (1 << 60).to_bytes(8, "little")
    (tmp_path / "blas_lib_generic.tar.zst").write_bytes(head + bytes(10))
    with pytest.raises(NoSpace, match="unpacking 1 artifacts needs"):
        unpack_artifacts([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_that_does_not_say_its_size_is_taken_to_be_twice_as_large_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = put(tmp_path / "blas_lib_generic.tar.xz", MANIFEST)
    need = 2 * archive.stat().st_size
    free = SimpleNamespace(free=need - 1)
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    with pytest.raises(NoSpace):
        unpack_artifacts([archive], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    free.free = need
    assert unpack_artifacts([archive], tmp_path / "out").artifacts == ("blas_lib_generic",)
