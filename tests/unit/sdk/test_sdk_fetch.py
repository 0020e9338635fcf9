"""Fetching with stand-ins for apt-get and dpkg-deb: what is asked, kept, refused and left behind."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import msgspec
import pytest

from rocwright.errors import IntegrityError, InvalidData, InvalidInput, MissingTool, Unreachable
from rocwright.sdk.intake.distribution import Distribution
from rocwright.sdk.intake.fetch import Fetched, Package, fetch, unpack, unpack_packages

# Speaks the part of apt-get's command line that is used. What it serves lies beside it: index.txt is what
# --print-uris prints, pool/ holds the files, and calls.txt records every call.
APT_GET = """#!{python} -I
import os, pathlib, shutil, sys
# Its words are read, so they must not be translated.
assert os.environ.get("LC_ALL") == "C" and "LANGUAGE" not in os.environ
here = pathlib.Path(__file__).resolve().parent
words = sys.argv[1:]
while words and words[0] == "-o":
    del words[:2]
with open(here / "calls.txt", "a") as calls:
    print(*words, file=calls)
fail = here / ("fail-" + words[0].lstrip("-"))
if fail.exists() and words[0] != "download":
    sys.exit(print(fail.read_text(), file=sys.stderr) or 100)
if words[0] == "--print-uris":
    print("WARNING: a stand-in")
    print((here / "index.txt").read_text(), end="")
elif words[0] == "download":
    for number, word in enumerate(words[1:]):
        name, _, version = word.partition("=")
        file = name + "_" + version.replace(":", "%3a") + "_amd64.deb"
        data = (here / "pool" / file).read_bytes()
        if fail.exists() and number == 1:
            pathlib.Path(file).write_bytes(data[: len(data) // 2])
            sys.exit(print(fail.read_text(), file=sys.stderr) or 100)
        pathlib.Path(file).write_bytes(data)
"""

# A "package" of these tests is a text: each word a path to create, or `fail`.
DPKG_DEB = """#!{python} -I
import pathlib, sys
assert sys.argv[1] in ("--extract", "--raw-extract"), sys.argv
here = pathlib.Path(__file__).resolve().parent
deb, target = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
with open(here / "order.txt", "a") as order:
    print(deb.name, file=order)
words = deb.read_text().split()
if sys.argv[1] == "--raw-extract":
    words.append("DEBIAN/control")
for line in words:
    if line == "fail":
        print("dpkg-deb: error: '" + deb.name + "' is not a Debian format archive", file=sys.stderr)
        sys.exit(2)
    path = target / line
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(deb.name)
"""

PACKAGES = {
    "hipcc_5.2.3-8_amd64.deb": b"usr/bin/hipcc",
    "libdrm2_1%3a2.4.114-1+b1_amd64.deb": b"usr/lib/libdrm.so.2 usr/share/doc/libdrm2/copyright",
    "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb": b"lib/libz.so.1",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Mirror:
    """The stand-ins on PATH, and what they serve."""

    def __init__(self, root: Path) -> None:
        self.bin = root
        (root / "pool").mkdir(parents=True)
        for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
            (root / name).write_text(text.format(python=sys.executable))
            (root / name).chmod(0o755)
        for file, data in PACKAGES.items():
            (root / "pool" / file).write_bytes(data)
        self.index({file: f"SHA256:{sha256(data)}" for file, data in PACKAGES.items()})

    def index(self, digests: dict[str, str]) -> None:
        lines = [
            f"'http://mirror.test/pool/{file}' {file} {len(PACKAGES[file])} {digest}\n"
            for file, digest in digests.items()
        ]
        (self.bin / "index.txt").write_text("".join(lines))

    def fail(self, call: str, text: str) -> None:
        (self.bin / f"fail-{call}").write_text(text)

    def recover(self, call: str) -> None:
        (self.bin / f"fail-{call}").unlink()

    @property
    def calls(self) -> list[str]:
        record = self.bin / "calls.txt"
        lines = record.read_text().splitlines() if record.exists() else []
        record.unlink(missing_ok=True)
        return lines


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    mirror = Mirror(tmp_path / "stand-ins")
    monkeypatch.setenv("PATH", f"{mirror.bin}")
    return mirror


DISTRIBUTION = Distribution(
    id="test",
    version_id="1",
    rocm_version="5.2.3",
    triplet="x86_64-linux-gnu",
    family="test1",
    packages=("zlib1g", "hipcc", "libdrm2"),
    map=(),
    links={},
)


def get(tmp_path: Path, **options: bool) -> Fetched:
    return fetch(DISTRIBUTION, tmp_path / "cache", log=tmp_path / "log", **options)


def debs(tmp_path: Path) -> dict[str, bytes]:
    directory = tmp_path / "cache/test-1/debs"
    return {file.name: file.read_bytes() for file in directory.iterdir()} if directory.exists() else {}


def test_every_package_arrives_with_the_digest_of_the_index(tmp_path: Path, mirror: Mirror) -> None:
    fetched = get(tmp_path)
    assert debs(tmp_path) == PACKAGES
    assert fetched.packages == tuple(
        Package(file, len(data), sha256(data)) for file, data in sorted(PACKAGES.items())
    )
    assert fetched.size == sum(map(len, PACKAGES.values()))
    assert (fetched.distribution, fetched.rocm_version) == ("test 1", "5.2.3")
    assert Path(fetched.directory) == tmp_path / "cache/test-1/debs"
    assert mirror.calls == [
        "update",
        # First what they depend on, by apt's own metadata; of what it would download it knows the sha256.
        "--print-uris --no-install-recommends install zlib1g hipcc libdrm2",
        "--print-uris --no-install-recommends download hipcc=5.2.3-8 libdrm2=1:2.4.114-1+b1 "
        "zlib1g=1:1.2.13.dfsg-1",
        # The very versions that the index named, an epoch with its colon.
        "download hipcc=5.2.3-8 libdrm2=1:2.4.114-1+b1 zlib1g=1:1.2.13.dfsg-1",
    ]
    assert not (tmp_path / "cache/test-1/debs.partial").exists()


def test_a_complete_cache_asks_nobody(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = get(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert get(tmp_path) == first


def test_only_what_is_missing_is_downloaded(tmp_path: Path, mirror: Mirror) -> None:
    get(tmp_path)
    (tmp_path / "cache/test-1/debs/hipcc_5.2.3-8_amd64.deb").unlink()
    mirror.calls  # noqa: B018 - forgets the calls so far
    get(tmp_path)
    assert mirror.calls == ["download hipcc=5.2.3-8"]
    assert debs(tmp_path) == PACKAGES


def test_refresh_asks_again(tmp_path: Path, mirror: Mirror) -> None:
    get(tmp_path)
    mirror.calls  # noqa: B018
    get(tmp_path, refresh=True)
    assert [call.split()[0] for call in mirror.calls] == ["update", "--print-uris", "--print-uris"]


def test_a_corrupt_download_is_refused_and_not_kept(tmp_path: Path, mirror: Mirror) -> None:
    (mirror.bin / "pool/hipcc_5.2.3-8_amd64.deb").write_bytes(b"usr/bin/evilc")
    with pytest.raises(IntegrityError, match=r"hipcc_5\.2\.3-8_amd64\.deb"):
        get(tmp_path)
    assert "hipcc_5.2.3-8_amd64.deb" not in debs(tmp_path)
    # Nor does the next run take it for good.
    with pytest.raises(IntegrityError):
        get(tmp_path)
    (mirror.bin / "pool/hipcc_5.2.3-8_amd64.deb").write_bytes(PACKAGES["hipcc_5.2.3-8_amd64.deb"])
    get(tmp_path)
    assert debs(tmp_path) == PACKAGES


def test_a_cached_package_that_changed_is_refused(tmp_path: Path, mirror: Mirror) -> None:
    get(tmp_path)
    broken = tmp_path / "cache/test-1/debs/hipcc_5.2.3-8_amd64.deb"
    broken.write_bytes(b"usr/bin/evilc")
    with pytest.raises(IntegrityError) as caught:
        get(tmp_path)
    assert caught.value.where == str(broken)
    assert sha256(b"usr/bin/hipcc") in caught.value.what
    assert "delete the file" in (caught.value.next_step or "")


def test_an_interrupted_download_leaves_nothing_that_is_taken_for_whole(
    tmp_path: Path, mirror: Mirror
) -> None:
    mirror.fail("download", "E: Connection reset by peer")
    with pytest.raises(Unreachable, match="Connection reset by peer"):
        get(tmp_path)
    assert debs(tmp_path) == {}
    mirror.recover("download")
    get(tmp_path)
    assert debs(tmp_path) == PACKAGES


@pytest.mark.parametrize(
    ("call", "verb"), [("update", "update"), ("print-uris", "--print-uris"), ("download", "download")]
)
def test_the_reason_apt_gives_is_the_reason_shown(
    tmp_path: Path, mirror: Mirror, call: str, verb: str
) -> None:
    mirror.fail(call, "W: something else\nE: Unable to locate package hipcc\nW: the last line")
    with pytest.raises(Unreachable) as caught:
        get(tmp_path)
    assert caught.value.what == f"apt-get {verb} failed: E: Unable to locate package hipcc"
    assert caught.value.where == str(tmp_path / "log")
    assert "--rocm-prefix" in (caught.value.next_step or "")
    assert "E: Unable to locate package hipcc" in (tmp_path / "log").read_text()


def test_without_apt_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(MissingTool, match="apt-get") as caught:
        get(tmp_path)
    assert "--rocm-prefix" in (caught.value.next_step or "")


def test_an_index_with_only_a_weak_digest_is_refused(tmp_path: Path, mirror: Mirror) -> None:
    digests = {file: f"SHA256:{sha256(data)}" for file, data in PACKAGES.items()}
    digests["hipcc_5.2.3-8_amd64.deb"] = "MD5Sum:" + "0" * 32
    mirror.index(digests)
    with pytest.raises(IntegrityError, match=r"no sha256 for hipcc_5\.2\.3-8_amd64\.deb"):
        get(tmp_path)
    assert debs(tmp_path) == {}


def test_an_index_without_any_digest_is_refused(tmp_path: Path, mirror: Mirror) -> None:
    mirror.index(dict.fromkeys(PACKAGES, ""))
    with pytest.raises(IntegrityError, match="no sha256"):
        get(tmp_path)


def test_a_package_that_the_index_lacks_is_noticed(tmp_path: Path, mirror: Mirror) -> None:
    mirror.index({"hipcc_5.2.3-8_amd64.deb": "SHA256:" + sha256(b"usr/bin/hipcc")})
    with pytest.raises(Unreachable, match="no file for libdrm2, zlib1g"):
        get(tmp_path)


def test_apt_works_in_a_world_of_its_own(tmp_path: Path, mirror: Mirror) -> None:
    get(tmp_path)
    state = tmp_path / "cache/test-1/apt"
    log = (tmp_path / "log").read_text()
    for setting in (
        f"Dir::State={state}/state",
        f"Dir::Cache={state}/cache",
        f"Dir::State::status={state}/status",
    ):
        assert setting in log
    assert (state / "state/lists/partial").is_dir()


def test_a_damaged_list_is_named(tmp_path: Path, mirror: Mirror) -> None:
    get(tmp_path)
    kept = tmp_path / "cache/test-1/resolved.json"
    assert [row["file"] for row in json.loads(kept.read_text())["packages"]] == sorted(PACKAGES)
    kept.write_text('{"asked": [], "packages": [{"file": "hipcc')
    with pytest.raises(InvalidData) as caught:
        get(tmp_path)
    assert caught.value.where == str(kept)
    assert str(kept) in (caught.value.next_step or "")


@pytest.mark.parametrize(
    "change", [{"packages": ("zlib1g", "hipcc")}, {"system": ("libc6",)}], ids=["packages", "system"]
)
def test_a_cache_of_another_table_is_not_complete(
    tmp_path: Path, mirror: Mirror, change: dict[str, tuple[str, ...]]
) -> None:
    get(tmp_path)
    mirror.calls  # noqa: B018
    other = msgspec.structs.replace(DISTRIBUTION, **change)
    fetch(other, tmp_path / "cache", log=tmp_path / "log")
    assert [call.split()[0] for call in mirror.calls] == ["update", "--print-uris", "--print-uris"]


def test_what_a_machine_has_itself_is_installed_in_the_world_of_apt(tmp_path: Path, mirror: Mirror) -> None:
    row = msgspec.structs.replace(DISTRIBUTION, system=("libc6", "perl"))
    fetch(row, tmp_path / "cache", log=tmp_path / "log")
    state = tmp_path / "cache/test-1/apt"
    stanzas = (state / "status").read_text().strip().split("\n\n")
    assert [stanza.splitlines()[:2] for stanza in stanzas] == [
        ["Package: libc6", "Status: install ok installed"],
        ["Package: perl", "Status: install ok installed"],
    ]
    # This ROCm comes before others that the sources have.
    assert "Pin: version 5.2.3*" in (state / "preferences").read_text()
    assert f"Dir::Etc::preferences={state}/preferences" in (tmp_path / "log").read_text()


def test_another_distribution_than_the_machines_has_sources_of_its_own(
    tmp_path: Path, mirror: Mirror
) -> None:
    key = tmp_path / "keys.gpg"
    line = f"deb [signed-by={key}] http://mirror.test stable main"
    row = msgspec.structs.replace(DISTRIBUTION, apt_sources=(line,))
    with pytest.raises(MissingTool, match=r"keys\.gpg is not there") as caught:
        fetch(row, tmp_path / "cache", log=tmp_path / "log")
    assert "debian-archive-keyring" in (caught.value.next_step or "")
    key.touch()
    fetch(row, tmp_path / "cache", log=tmp_path / "log")
    sources = tmp_path / "cache/test-1/apt/sources.list"
    assert sources.read_text() == line + "\n"
    assert f"Dir::Etc::sourcelist={sources}" in (tmp_path / "log").read_text()


def test_the_machines_own_list_is_read_for_its_own_distribution(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocwright.sdk.intake.fetch.this_machine", lambda: ("test-1", "Test 1"))
    row = msgspec.structs.replace(DISTRIBUTION, apt_sources=("deb http://mirror.test stable main",))
    fetch(row, tmp_path / "cache", log=tmp_path / "log")
    assert "sourcelist" not in (tmp_path / "log").read_text()
    # A suite beside that of the release, such as experimental, has to be named.
    row = msgspec.structs.replace(
        row, apt_sources=(*row.apt_sources, "deb http://mirror.test experimental main")
    )
    fetch(row, tmp_path / "cache", log=tmp_path / "log")
    assert "sourcelist" in (tmp_path / "log").read_text()


def test_a_mirror_that_has_another_rocm_by_now(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packages of a suite that moves are replaced."""
    file = "libamdhip64-dev_6.4.3-5_amd64.deb"
    monkeypatch.setitem(PACKAGES, file, b"usr/include/hip")
    mirror.index({file: f"SHA256:{sha256(PACKAGES[file])}"})
    row = msgspec.structs.replace(DISTRIBUTION, packages=("libamdhip64-dev",))
    with pytest.raises(
        Unreachable, match=r"no longer has ROCm 5\.2\.3: its libamdhip64-dev is 6\.4\.3-5"
    ) as caught:
        fetch(row, tmp_path / "cache", log=tmp_path / "log")
    assert "distributions.distribution" in (caught.value.next_step or "")
    assert debs(tmp_path) == {}


def tree(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


ORDER = [
    # 51, 13 and 13 bytes: the largest first, equal ones in the order of the list.
    "libdrm2_1%3a2.4.114-1+b1_amd64.deb",
    "hipcc_5.2.3-8_amd64.deb",
    "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb",
]


def test_every_package_is_unpacked_into_a_directory_of_its_own(tmp_path: Path, mirror: Mirror) -> None:
    unpack(get(tmp_path), tmp_path / "root", log=tmp_path / "log", threads=1)
    assert tree(tmp_path / "root") == {
        "hipcc_5.2.3-8_amd64/DEBIAN/control",
        "hipcc_5.2.3-8_amd64/usr/bin/hipcc",
        "libdrm2_1%3a2.4.114-1+b1_amd64/DEBIAN/control",
        "libdrm2_1%3a2.4.114-1+b1_amd64/usr/lib/libdrm.so.2",
        "libdrm2_1%3a2.4.114-1+b1_amd64/usr/share/doc/libdrm2/copyright",
        "zlib1g_1%3a1.2.13.dfsg-1_amd64/DEBIAN/control",
        "zlib1g_1%3a1.2.13.dfsg-1_amd64/lib/libz.so.1",
    }
    assert (mirror.bin / "order.txt").read_text().splitlines() == ORDER


def test_other_packages_are_unpacked_over_each_other(tmp_path: Path, mirror: Mirror) -> None:
    fetched = get(tmp_path)
    debs = Path(fetched.directory)
    unpack_packages(fetched.packages, debs, tmp_path / "root", log=tmp_path / "log", threads=1)
    assert tree(tmp_path / "root") == {
        "usr/bin/hipcc",
        "usr/lib/libdrm.so.2",
        "usr/share/doc/libdrm2/copyright",
        "lib/libz.so.1",
    }
    assert (mirror.bin / "order.txt").read_text().splitlines() == ORDER


def test_a_package_that_cannot_be_unpacked_leaves_the_old_tree(tmp_path: Path, mirror: Mirror) -> None:
    fetched = get(tmp_path)
    broken = Path(fetched.directory, "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb")
    broken.write_bytes(b"lib/half fail")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/old").write_text("old")
    with pytest.raises(
        InvalidInput, match=r"zlib1g_.*\.deb cannot be unpacked: .* not a Debian format"
    ) as caught:
        unpack(fetched, tmp_path / "root", log=tmp_path / "log")
    assert caught.value.where == str(broken)
    assert [file.name for file in (tmp_path / "root").rglob("*")] == ["old"]
    assert not list(tmp_path.glob("root.*"))


def test_unpacking_without_dpkg_names_the_package(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = get(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(MissingTool, match="dpkg-deb") as caught:
        unpack(fetched, tmp_path / "root", log=tmp_path / "log")
    assert "dpkg" in (caught.value.next_step or "")
    assert not (tmp_path / "root").exists()
