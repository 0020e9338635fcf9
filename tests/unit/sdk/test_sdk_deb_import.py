"""Directories of Debian packages, real ones made here by dpkg-deb: AMD's and a distribution's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from needs import needs
from rocwright.cli.parse import app
from rocwright.data.overlay import Overlay, parse_overlay
from rocwright.errors import InvalidInput, InvalidPrefix, MissingTool, RocwrightError
from rocwright.sdk.intake.deb_import import PrefixOfPackages, holds_packages, unpack_packages
from trees import link, write

pytestmark = needs("dpkg-deb")


class Debs:
    """A directory of packages, and the prefix made of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "debs"
        self.directory.mkdir()

    def add(
        self,
        name: str,
        *files: str,
        version: str = "6.2.0",
        machine: str = "amd64",
        file: str = "",
        more: str = "",
    ) -> Path:
        """A package; a file is `path`, whose content is its package, or a link `path -> text`."""
        tree = self.root / "tree"
        write(
            tree / "DEBIAN/control",
            f"Package: {name}\nVersion: {version}\nArchitecture: {machine}\n"
            f"Maintainer: a <a@b>\nDescription: x\n{more}",
        )
        for entry in files:
            path, _, text = entry.partition(" -> ")
            if text:
                link(tree / path, text)
            else:
                write(tree / path, name)
        deb = self.directory / (file or f"{name}_{version}_{machine}.deb")
        command = ["dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, deb]
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(tree)
        return deb

    def unpack(self, overlay: Overlay | None = None) -> PrefixOfPackages:
        return unpack_packages(self.directory, self.root / "rocm", log=self.root / "log", overlay=overlay)

    def refused(self, kind: type[RocwrightError]) -> RocwrightError:
        """What is said; checks that nothing is left but the log."""
        with pytest.raises(kind) as caught:
            self.unpack()
        assert {path.name for path in self.root.iterdir()} <= {"debs", "log"}
        assert type(caught.value) is kind
        return caught.value


@pytest.fixture
def debs(tmp_path: Path) -> Debs:
    return Debs(tmp_path)


def tree(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_amds_packages_are_one_prefix(debs: Debs) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version", "etc/ld.so.conf.d/rocm.conf")
    debs.add(
        "hip-runtime-amd",
        "opt/rocm-6.2.0/lib/libamdhip64.so.6.2",
        "opt/rocm-6.2.0/lib/libamdhip64.so.6 -> libamdhip64.so.6.2",
        "opt/rocm-6.2.0/llvm -> /opt/rocm-6.2.0/lib/llvm",
        "opt/rocm-6.2.0/bin/sh -> /bin/sh",
    )
    debs.add("rocm-llvm", "opt/rocm-6.2.0/lib/llvm/bin/clang")
    debs.add("rocm-hip-libraries", "usr/share/doc/rocm-hip-libraries/copyright", machine="all")
    done = debs.unpack()
    prefix = debs.root / "rocm"
    listing = tree(prefix).pop(".info/packages.json")
    assert {path: text for path, text in tree(prefix).items() if path != ".info/packages.json"} == {
        ".info/version": "rocm-core",
        "bin/sh": "-> /bin/sh",
        "lib/libamdhip64.so.6": "-> libamdhip64.so.6.2",
        "lib/libamdhip64.so.6.2": "hip-runtime-amd",
        "lib/llvm/bin/clang": "rocm-llvm",
        # Right wherever the prefix lies, as it was below /opt.
        "llvm": "-> lib/llvm",
    }
    assert (done.origin, done.packages, done.missing) == ("rocm-6.2.0", 4, ())
    assert done.left_out == ("rocm-hip-libraries",)
    found = json.loads(listing)
    assert found["distribution"] == "rocm-6.2.0"
    assert [(row["name"], row["version"], row["files"]) for row in found["packages"]] == [
        (
            "hip-runtime-amd",
            "6.2.0",
            ["bin/sh", "lib/libamdhip64.so.6", "lib/libamdhip64.so.6.2", "llvm"],
        ),
        ("rocm-core", "6.2.0", [".info/version"]),
        ("rocm-llvm", "6.2.0", ["lib/llvm/bin/clang"]),
    ]
    assert sorted(path.name for path in debs.root.iterdir()) == ["debs", "log", "rocm"]


def test_a_distributions_packages_are_laid_out_by_its_table(debs: Debs) -> None:
    lib = "usr/lib/x86_64-linux-gnu"
    debs.add("libamdhip64-5", f"{lib}/libamdhip64.so.5.2", version="5.2.3-8")
    debs.add("librocsparse0", f"{lib}/librocsparse.so.0.1", version="5.3.0+dfsg-2")
    debs.add("zlib1g", "lib/x86_64-linux-gnu/libz.so.1.2.13", version="1:1.2.13.dfsg-1")
    debs.add("libc6", "lib/x86_64-linux-gnu/libc.so.6", version="2.36-9")
    done = debs.unpack()
    assert set(tree(debs.root / "rocm")) >= {
        ".info/version",
        "lib/libamdhip64.so.5.2",
        "lib/librocsparse.so.0.1",
        "lib/rocm_sysdeps/lib/libz.so.1.2.13",
    }
    assert (debs.root / "rocm/.info/version").read_text() == "5.2.3\n"
    assert (done.origin, done.packages) == ("debian-12", 4)
    # Not of the distribution's ROCm; the C library least of all.
    assert done.left_out == ("libc6",)
    assert not list((debs.root / "rocm").rglob("libc.so*"))
    assert "hipcc" in done.missing
    assert "zlib1g" not in done.missing


def test_what_only_the_machines_own_packages_need_is_left_out(debs: Debs) -> None:
    lib = "usr/lib/x86_64-linux-gnu"
    depends = "Depends: libllvm15 (>= 15), perl:any, libelf1 | libelf1t64, virtual-thing (= 1), libnuma1\n"
    debs.add("hipcc", "usr/bin/hipcc", version="5.2.3-8", more=depends)
    debs.add(
        "libllvm15", f"{lib}/libLLVM-15.so.1", version="1:15.0.6-4", more="Provides: virtual-thing (= 1)\n"
    )
    debs.add("libelf1t64", f"{lib}/libelf.so.1", version="0.1-1")
    debs.add("perl", "usr/bin/perl", version="5.36-1", more="Depends: libgdbm6\n")
    debs.add("libgdbm6", f"{lib}/libgdbm.so.6", version="1.23-3")
    done = debs.unpack()
    assert done.left_out == ("libgdbm6", "perl")
    assert (debs.root / "rocm/lib/rocm_sysdeps/lib/libelf.so.1").is_file()
    assert not list((debs.root / "rocm").rglob("libgdbm*"))
    # Neither perl, which the machine has, nor what another package provides or stands in for.
    assert {"libnuma1", "libamdhip64-dev"} <= set(done.missing)
    assert {"perl", "libelf1", "virtual-thing", "hipcc"}.isdisjoint(done.missing)


SID = """
[[distributions.distribution]]
id = "debian"
version_id = "sid"
rocm_version = "6.4.3"
triplet = "x86_64-linux-gnu"
family = "debian-sid"
packages = ["libamdhip64-6", "zlib1g"]
links = { "lib/libhip.so" = "libamdhip64.so.6.4" }
files = { "include/rocm-core/rocm_version.h" = "#pragma once\\n" }
[[distributions.distribution.map]]
from = "lib/x86_64-linux-gnu/lib*"
to = "lib/"
[[distributions.distribution.map]]
from = "**"
to = ""
"""


def test_packages_of_another_distribution_are_laid_out_by_the_users_row(debs: Debs) -> None:
    debs.add("libamdhip64-6", "usr/lib/x86_64-linux-gnu/libamdhip64.so.6.4", version="6.4.3-5")
    overlay = parse_overlay(SID, where="rocwright.toml")
    done = debs.unpack(overlay)
    assert (done.origin, done.missing) == ("debian-sid", ("zlib1g",))
    assert {
        path: text for path, text in tree(debs.root / "rocm").items() if path != ".info/packages.json"
    } == {
        ".info/version": "6.4.3\n",
        "include/rocm-core/rocm_version.h": "#pragma once\n",
        "lib/libamdhip64.so.6.4": "libamdhip64-6",
        "lib/libhip.so": "-> libamdhip64.so.6.4",
    }
    # Without the row they are no packages that are known here.
    shutil.rmtree(debs.root / "rocm")
    assert "distributions.distribution" in str(debs.refused(InvalidInput).next_step)


def test_sdk_unpack_reads_the_overlay_of_the_current_directory(
    debs: Debs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    debs.add("libamdhip64-6", "usr/lib/x86_64-linux-gnu/libamdhip64.so.6.4", version="6.4.3-5")
    debs.add("libc6", "lib/x86_64-linux-gnu/libc.so.6", version="2.43-7")
    (debs.root / "rocwright.toml").write_text(SID)
    monkeypatch.chdir(debs.root)
    app(["sdk", "unpack", "debs", "rocm"], result_action="return_value")
    said = capsys.readouterr()
    assert said.out == f"debian-sid in {debs.root.resolve()}/rocm: 2 packages\n"
    assert said.err.splitlines() == [
        "left out: libc6 (not a package of ROCm)",
        "missing: zlib1g, a package of debian-sid's ROCm",
    ]
    assert (debs.root / "rocm/lib/libamdhip64.so.6.4").is_file()


def test_an_old_prefix_stays_until_the_new_one_is_whole(debs: Debs) -> None:
    write(debs.root / "rocm/old", "old")
    broken = debs.add("rocm-core", "opt/rocm-6.2.0/.info/version")
    data = broken.read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInput):
        debs.unpack()
    assert tree(debs.root / "rocm") == {"old": "old"}
    broken.write_bytes(data)
    debs.unpack()
    assert "old" not in tree(debs.root / "rocm")


@pytest.mark.parametrize("text", [b"", b"no package", b"!<arch>\n"], ids=["empty", "text", "no-members"])
def test_a_damaged_package_is_named_with_what_dpkg_says(debs: Debs, text: bytes) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version")
    broken = debs.directory / "rocm-llvm_1_amd64.deb"
    broken.write_bytes(text)
    error = debs.refused(InvalidInput)
    assert error.what.startswith("rocm-llvm_1_amd64.deb cannot be unpacked: dpkg-deb: error: ")
    assert error.where == str(broken)


def test_a_directory_without_packages(debs: Debs) -> None:
    assert "there is no *.deb" in debs.refused(InvalidInput).what
    assert not holds_packages(debs.directory)
    (debs.directory / "rocm-core.rpm").write_bytes(b"")
    assert holds_packages(debs.directory)
    error = debs.refused(InvalidInput)
    assert "rocm-core.rpm is an RPM package; only Debian packages" in error.what


def test_packages_of_two_rocms(debs: Debs) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version")
    debs.add("rocm-core6.1.0", "opt/rocm-6.1.0/.info/version")
    what = debs.refused(InvalidPrefix).what
    assert "more than one ROCm: opt/rocm-6.1.0 (rocm-core6.1.0), opt/rocm-6.2.0 (rocm-core)" in what


def test_amds_packages_among_a_distributions(debs: Debs) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version")
    debs.add("libamdhip64-5", "usr/lib/x86_64-linux-gnu/libamdhip64.so.5", version="5.2.3-8")
    what = debs.refused(InvalidPrefix).what
    assert "opt/rocm-6.2.0 (rocm-core), usr/lib/x86_64-linux-gnu/libamdhip64.so.5 (libamdhip64-5)" in what


def test_one_file_in_two_packages(debs: Debs) -> None:
    debs.add("one", "opt/rocm/bin/hipcc")
    debs.add("two", "opt/rocm/bin/hipcc")
    assert debs.refused(InvalidPrefix).what == "opt/rocm/bin/hipcc is in two packages: one and two"


def test_a_package_in_two_versions(debs: Debs) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version", version="6.2.0")
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version", version="6.2.1")
    assert debs.refused(InvalidInput).what == "rocm-core is there twice: 6.2.0 and 6.2.1"


def test_packages_for_two_machines(debs: Debs) -> None:
    debs.add("one", "opt/rocm/bin/one")
    debs.add("two", "opt/rocm/bin/two", machine="arm64")
    assert "several machines: amd64, arm64" in debs.refused(InvalidInput).what


def test_packages_that_are_no_rocm(debs: Debs) -> None:
    debs.add("zlib1g", "lib/x86_64-linux-gnu/libz.so.1", version="1:1.3.1-1")
    error = debs.refused(InvalidInput)
    assert "debian 12 with ROCm 5.2.3" in error.what
    assert "install them" in (error.next_step or "")


def test_without_dpkg_the_package_is_named(debs: Debs, monkeypatch: pytest.MonkeyPatch) -> None:
    debs.add("rocm-core", "opt/rocm-6.2.0/.info/version")
    monkeypatch.setenv("PATH", str(debs.root / "empty"))
    assert "dpkg-deb" in debs.refused(MissingTool).what
