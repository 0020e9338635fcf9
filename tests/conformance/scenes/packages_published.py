"""ROCm's packages where people find them: the layout of CI, staging and release indexes, the dev channel."""

from __future__ import annotations

import json
import re
from pathlib import Path

from conformance.scenes.packages_installed import environment, installed
from conformance.scenes.packages_local import OLDER, local_packages
from conformance.scenes.packages_split import LEAVE
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from contract.test_store_scripts import served
from rocwright.cli.store.options import RunOptions
from wheels import write_wheel

NIGHTLIES = ("7.12.0a20260101", "7.12.0a20260102")
DEV = "7.10.0.dev0+efed3c"
FAMILY = "gfx110X-all"
# Names of PyTorch's wheels as the document of the run lists them.
PYTORCH = ("torch-2.9.0", "torchvision-0.24.0", "torchaudio-2.9.0", "triton-3.5.0")


def published(world: World) -> Transcript:
    """Two nightlies and a dev build are published; people install from the addresses that are printed."""

    def play(shell: Shell) -> dict[str, object]:
        plain = dict(shell.variables)
        shell.world.activate(shell)
        artifacts = local_packages(world).home / ".therock" / OLDER / "artifacts"
        for version in (*NIGHTLIES, DEV):
            shell(
                f"python build_tools/build_python_packages.py --artifact-dir={artifacts} "
                f"--dest-dir=$HOME/{version} --version={version}"
            )
        _uploads(shell)
        for version in NIGHTLIES:
            _publish(shell, version, "nightlies")
        _publish(shell, DEV, "devreleases")
        shell("rocwright set gc --store ~/nightlies --json", "UR-01")
        shell.variables = plain | {"PIP_NO_CACHE_DIR": "1"}
        # An index of one family has all that a family needs: pip asks nobody else.
        for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL"):
            shell.variables.pop(name, None)
        _install(shell)
        return {}

    return world.scene("published", play)


def _uploads(shell: Shell) -> None:
    """The layout of a run of CI, into a folder: ROCm's packages, and wheels of PyTorch beside them."""
    shell.variables["GITHUB_REPOSITORY"] = "ROCm/TheRock"
    script = "python build_tools/github_actions/upload_python_packages.py"
    where = f"--run-id 21440027240 --artifact-group {FAMILY} --platform linux --output-dir ~/ci"
    shell(
        f"{script} --input-packages-dir ~/{NIGHTLIES[0]} {where}",
        *("CL-71", "FD-47", "UR-06", "UR-08"),
    )
    for name in PYTORCH:
        project, version = name.split("-")
        write_wheel(shell.home / "pytorch", project, version, {f"{project}/__init__.py": ""})
    shell(f"{script} --kind pytorch --input-packages-dir ~/pytorch {where}", "UR-07")


def _publish(shell: Shell, version: str, store: str) -> None:
    """Staged after it was checked; released when the tests of the policy have passed."""
    at = f"--store ~/{store}"
    made = shell(
        f"rocwright set create ~/{version}/dist --family {FAMILY} --stage --no-install {at}", "UR-03"
    )
    digest = made.out.split()[-1]
    shell(f"rocwright set promote newest --family {FAMILY} {at}", "UR-02", code=10)
    for suite in ("rocm-sdk", "smoke-host"):
        shell(f"rocwright set state {digest} --suite {suite} --result passed {at}")
    shell(f"rocwright set state {digest} --suite smoke-gpu --target gfx1100 --result passed {at}")
    shell(f"rocwright set promote newest --family {FAMILY} {at}", "UR-02")


def _install(shell: Shell) -> None:
    home = shell.home
    with served(home / "nightlies") as nightlies, served(home / "devreleases") as devreleases:
        shell.local = {
            "https://rocm.nightlies.amd.com/": nightlies,
            "https://rocm.devreleases.amd.com/": devreleases,
        }
        environment(shell, "project")
        index = f"https://rocm.nightlies.amd.com/v2/{FAMILY}/"
        shell(
            f"python -m pip install --index-url {index} rocm[libraries,devel]",
            *("CL-23", "UR-04", "UR-02", "NM-04"),
        )
        shell("pip list --format=json", "CL-23", "UR-04", "UR-02")
        shell(LEAVE)
        # The night before is still there for who asks for it; untested packages are one folder further.
        older = f"python -m pip install --index-url {index} rocm[libraries]=={NIGHTLIES[0]}"
        shell(older, "UR-01", more="--dry-run")
        staging = f"https://rocm.nightlies.amd.com/v2-staging/{FAMILY}/"
        shell(f"python -m pip install --index-url {staging} rocm[libraries,devel]", "UR-03", more="--dry-run")
        shell(
            f"python -m pip install --index-url https://rocm.devreleases.amd.com/v2/{FAMILY}/ "
            "rocm[libraries,devel]",
            *("CL-24", "UR-05"),
        )
        shell("pip list --format=json", "CL-24", "UR-05")
        shell("rocm-sdk test", "CL-24")


@row("CL-71", "FD-47", "UR-06", "UR-08", "AU-075")
def the_layout_of_ci_lies_in_a_folder(world: World, row: Row) -> None:
    scene = published(world)
    scene.of("CL-71")
    place = scene.home / f"ci/21440027240-linux/python/{FAMILY}"
    names = {path.name for path in place.iterdir() if path.name.endswith((".whl", ".tar.gz", ".html"))}
    version = NIGHTLIES[0]
    wheel = f"{version}-py3-none-linux_x86_64.whl"
    assert names == {
        f"rocm-{version}.tar.gz",
        "index.html",
        *(f"rocm_{name}-{wheel}" for name in ("sdk_core", "sdk_devel", "profiler")),
        f"rocm_sdk_libraries_gfx110x_all-{wheel}",
    }
    page = (place / "index.html").read_text()
    assert set(re.findall(r'href="([^"#]+)', page)) == names - {"index.html"}
    assert f"package_find_links_url={(place / 'index.html').as_uri()}" in scene.of("CL-71").out.split()
    # Without a folder the same goes to the bucket of the documents.
    assert RunOptions().address() == "s3://therock-ci-artifacts"


@row("UR-07")
def wheels_of_pytorch_lie_beside_with_a_page_of_their_own(world: World, row: Row) -> None:
    scene = published(world)
    scene.of(row.id)
    place = scene.home / f"ci/21440027240-linux/pytorch/{FAMILY}"
    wheels = {path.name for path in place.glob("*.whl")}
    assert {"-".join(name.split("-")[:2]) for name in wheels} == set(PYTORCH)
    assert set(re.findall(r'href="([^"#]+)', (place / "index.html").read_text())) == wheels


@row("UR-09")
def the_bucket_follows_from_what_is_uploaded(world: World, row: Row) -> None:
    assert RunOptions().address() == "s3://therock-ci-artifacts"
    assert RunOptions(repository="me/fork").address() == "s3://therock-ci-artifacts-external"
    for kind in ("dev", "nightly", "prerelease", "release"):
        assert RunOptions(release_type=kind).address() == f"s3://therock-{kind}-python"


@row("UR-01", "AU-071")
def an_older_nightly_stays_as_long_as_the_policy_says(world: World, row: Row) -> None:
    scene = published(world)
    policy, older = scene.all_of("UR-01")
    assert f"rocm-{NIGHTLIES[0]}" in older.out.splitlines()[-1]
    # Both are within the last 90 of the channel: a collection would take neither.
    assert json.loads(policy.out) == {"withdrawals": [], "sets": [], "objects": [], "bytes": 0, "damaged": []}


@row("UR-02", "AU-073")
def promoted_packages_are_an_index_for_each_family(world: World, row: Row) -> None:
    scene = published(world)
    asked = scene.all_of("UR-02")
    # Before the tests had passed there was nothing to promote.
    assert [done.code for done in asked] == [10, 0] * 3 + [0, 0]
    _is_index(scene.home / "nightlies/v2" / FAMILY, NIGHTLIES)


@row("UR-03", "AU-072")
def staged_packages_have_the_same_layout(world: World, row: Row) -> None:
    scene = published(world)
    *_, install = scene.all_of("UR-03")
    assert f"rocm-{NIGHTLIES[1]}" in install.out.splitlines()[-1]
    _is_index(scene.home / "nightlies/v2-staging" / FAMILY, NIGHTLIES)


def _is_index(place: Path, versions: tuple[str, ...]) -> None:
    """PEP 503: a root that links the projects, and a page of each with its files and their digests."""
    projects = ["rocm", "rocm-profiler", "rocm-sdk-core", "rocm-sdk-devel", f"rocm-sdk-libraries-{FAMILY}"]
    assert re.findall(r'href="([^"]+)"', (place / "index.html").read_text()) == [
        f"{name.lower()}/" for name in projects
    ]
    links = re.findall(r'href="([^"]+)"', (place / "rocm/index.html").read_text())
    assert [re.sub(r".*/|#sha256=[0-9a-f]{64}$", "", link) for link in links] == [
        f"rocm-{version}.tar.gz" for version in versions
    ]
    for link in links:
        assert (place / "rocm" / link.partition("#")[0]).resolve().is_file()


@row("CL-23", "UR-04", "AU-074")
def the_newest_nightly_is_installed(world: World, row: Row) -> None:
    scene = published(world)
    install, listed = scene.all_of("CL-23")
    assert install.line.startswith("python -m pip install --index-url http://127.0.0.1")
    assert installed(listed) == everything(NIGHTLIES[1])


@row("CL-24", "UR-05", "AU-069")
def the_dev_channel_has_dev_builds(world: World, row: Row) -> None:
    scene = published(world)
    listed, test = scene.all_of("CL-24")[1:]
    assert installed(listed) == everything(DEV)
    assert " 0 failed" in test.out


def everything(version: str) -> dict[str, str]:
    """What `rocm[libraries,devel]` installs of a family."""
    names = ("rocm", "rocm-sdk-core", "rocm-sdk-devel", "rocm-sdk-libraries-gfx110x-all")
    return dict.fromkeys(names, version)
