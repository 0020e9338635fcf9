"""The bill of materials of a wheel, and where a tree says that its files come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocwright import __version__
from rocwright.errors import InvalidData
from rocwright.sdk.licences import licence_table, licences_of
from rocwright.sdk.sbom import (
    MANIFEST,
    PACKAGES,
    Bundled,
    Origin,
    bundled,
    package_purl,
    read_provenance,
    repository_purl,
    sbom,
)

SHA = "0123456789abcdef0123456789abcdef01234567"
ROCSPARSE = Bundled(
    "rocSPARSE",
    "5.2.3-1",
    "MIT",
    "pkg:deb/debian/librocsparse0@5.2.3-1?arch=amd64&distro=debian-12",
    ("_rocm_sdk_libraries/lib/librocsparse.so.0",),
)


def document(*parts: Bundled, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom("rocm-sdk-libraries", "5.2.3", parts, **options))
    return found


def test_what_a_bill_says() -> None:
    found = document(ROCSPARSE, Bundled("libelf"), licence="MIT AND (GPL-2.0-or-later OR LGPL-3.0-or-later)")
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    main = found["metadata"]["component"]
    assert main == {
        "type": "library",
        "bom-ref": "pkg:pypi/rocm-sdk-libraries@5.2.3",
        "name": "rocm-sdk-libraries",
        "version": "5.2.3",
        "purl": "pkg:pypi/rocm-sdk-libraries@5.2.3",
        "licenses": [{"expression": "MIT AND (GPL-2.0-or-later OR LGPL-3.0-or-later)"}],
    }
    assert found["metadata"]["tools"]["components"] == [
        {"type": "application", "name": "rocwright", "version": __version__}
    ]
    assert found["components"][0] == {"type": "library", "bom-ref": "bundled-1", "name": "libelf"}
    sparse = found["components"][1]
    assert (sparse["name"], sparse["version"], sparse["purl"]) == ("rocSPARSE", "5.2.3-1", ROCSPARSE.purl)
    assert sparse["licenses"] == [{"expression": "MIT"}]
    assert sparse["components"] == [{"type": "file", "name": "_rocm_sdk_libraries/lib/librocsparse.so.0"}]
    assert found["dependencies"] == [
        {"ref": "pkg:pypi/rocm-sdk-libraries@5.2.3", "dependsOn": ["bundled-1", "bundled-2"]},
        {"ref": "bundled-1"},
        {"ref": "bundled-2"},
    ]


def test_the_same_contents_give_the_same_bytes_in_any_order() -> None:
    parts = [ROCSPARSE, Bundled("libelf"), Bundled("libelf", "0.188")]
    assert sbom("a", "1", parts) == sbom("a", "1", parts[::-1])
    one, other = document(*parts), document(*parts[:1])
    assert one["serialNumber"].startswith("urn:uuid:") and one["serialNumber"] != other["serialNumber"]
    assert "timestamp" not in one["metadata"]


def test_digests_where_they_are_known() -> None:
    found = document(ROCSPARSE, digests={ROCSPARSE.files[0]: "ab" * 32})
    (file,) = found["components"][0]["components"]
    assert file["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]


def test_names_and_versions_as_an_index_spells_them() -> None:
    found = json.loads(sbom("Rocm_SDK.Core", "7.10.0.dev0+ab", []))
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/rocm-sdk-core@7.10.0.dev0%2Bab"
    assert found["components"] == []


@pytest.mark.parametrize(
    ("facts", "purl"),
    [
        (
            ("debian-12", "libdrm2", "2.4.114-1+b1", "amd64"),
            "pkg:deb/debian/libdrm2@2.4.114-1%2Bb1?arch=amd64&distro=debian-12",
        ),
        (
            ("ubuntu-24.04", "libstdc++6", "1:2.0~rc1", None),
            "pkg:deb/ubuntu/libstdc%2B%2B6@1:2.0~rc1?distro=ubuntu-24.04",
        ),
        (("gentoo-2", "dev-libs", "1", None), None),
    ],
)
def test_the_purl_of_a_distribution_package(
    facts: tuple[str, str, str, str | None], purl: str | None
) -> None:
    assert package_purl(*facts) == purl


@pytest.mark.parametrize(
    ("url", "purl"),
    [
        ("https://github.com/ROCm/rocm-libraries", f"pkg:github/rocm/rocm-libraries@{SHA}"),
        ("git@github.com:ROCm/HIPIFY.git", f"pkg:github/rocm/hipify@{SHA}"),
        ("https://example.org/ROCm/HIPIFY.git", None),
    ],
)
def test_the_purl_of_a_commit(url: str, purl: str | None) -> None:
    assert repository_purl(url, SHA) == purl


def tree(tmp_path: Path, name: str, value: object) -> dict[str, Path]:
    place = tmp_path / "facts.json"
    place.write_text(value if isinstance(value, str) else json.dumps(value))
    return {name: place}


LISTING = {
    "distribution": "debian-12",
    "packages": [
        {
            "name": "librocsparse0",
            "version": "5.2.3-1",
            "source": "rocsparse",
            "architecture": "amd64",
            "files": ["lib/librocsparse.so.0.1"],
        },
        {"name": "libdrm2", "version": "2.4.114-1+b1", "files": []},
    ],
}


def test_packages_of_a_distribution(tmp_path: Path) -> None:
    found = read_provenance(tree(tmp_path, PACKAGES, LISTING), {})
    assert found.package_of("lib/librocsparse.so.0.1") == "librocsparse0"
    assert found.package_of("lib/libother.so") is None
    assert found.origins["librocsparse0"] == Origin("librocsparse0", "5.2.3-1", ROCSPARSE.purl)


def submodules(sha: object = SHA) -> dict[str, object]:
    row = {
        "submodule_name": "rocm-libraries",
        "submodule_path": "rocm-libraries",
        "submodule_url": "https://github.com/ROCm/rocm-libraries.git",
        "pin_sha": sha,
    }
    return {"flags": {"KPACK_SPLIT_ARTIFACTS": True}, "the_rock_commit": SHA, "submodules": [row]}


def test_commits_of_artifacts(tmp_path: Path) -> None:
    found = read_provenance(tree(tmp_path, MANIFEST, submodules()), licence_table().repositories)
    assert found.package_of("lib/librocblas.so", "blas_lib_gfx94X-dcgpu") == "blas"
    assert found.package_of("lib/libelf.so", "sysdeps-amd-mesa_lib_generic") == "sysdeps-amd-mesa"
    assert found.origins["blas"] == Origin("blas", SHA, f"pkg:github/rocm/rocm-libraries@{SHA}")
    assert "core-hip" not in found.origins


def test_a_tree_that_says_nothing(tmp_path: Path) -> None:
    assert read_provenance({}, {"blas": "rocm-libraries"}).origins == {}
    flags = {"flags": {"KPACK_SPLIT_ARTIFACTS": False}}
    assert read_provenance(tree(tmp_path, MANIFEST, flags), {"blas": "rocm-libraries"}).origins == {}
    unpinned = read_provenance(tree(tmp_path, MANIFEST, submodules(None)), {"blas": "rocm-libraries"})
    assert unpinned.origins == {"blas": Origin("blas")}


BAD = {
    "no-json": (PACKAGES, "{", "facts.json does not fit its schema"),
    "truncated-text": (PACKAGES, '{"distribution": "debian-12"', "does not fit its schema"),
    "packages-without-list": (PACKAGES, {"distribution": "debian-12"}, "missing required field `packages`"),
    "package-without-version": (
        PACKAGES,
        {"distribution": "debian-12", "packages": [{"name": "a", "files": []}]},
        "missing required field `version`",
    ),
    "a-file-in-two-packages": (
        PACKAGES,
        {
            "distribution": "debian-12",
            "packages": [{"name": n, "version": "1", "files": ["lib/x"]} for n in "ab"],
        },
        "lib/x is in two packages, a and b",
    ),
    "submodules-that-are-no-list": (MANIFEST, {"submodules": "none"}, "Expected `array`, got `str`"),
    "a-commit-that-is-none": (MANIFEST, submodules("main"), "'main', is not a commit id"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_lists_are_named(tmp_path: Path, name: str) -> None:
    place, value, message = BAD[name]
    files = tree(tmp_path, place, value)
    with pytest.raises(InvalidData) as caught:
        read_provenance(files, licence_table().repositories)
    assert message in caught.value.what
    assert caught.value.where == str(files[place])


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="cannot read none: No such file"):
        read_provenance({PACKAGES: tmp_path / "none"}, {})


def test_a_bill_of_what_the_licences_were_decided_for(tmp_path: Path) -> None:
    provenance = read_provenance(tree(tmp_path, PACKAGES, LISTING), {})
    paths = ["lib/librocsparse.so.0.1", "lib/cmake/rocsparse/rocsparse-config.cmake"]
    shipped = {path: provenance.package_of(path) for path in paths}
    found = licences_of(shipped, (), licence_table())
    members = {
        paths[0]: "_rocm_sdk_libraries/lib/librocsparse.so.0",
        paths[1]: "_rocm_sdk_libraries/" + paths[1],
    }
    parts = bundled(found.parts, members, provenance)
    assert ROCSPARSE in parts
    assert Bundled("rocSPARSE", licence="MIT") in parts  # the file that no package is known for
    assert len(parts) == 2
