"""`rocwright-detect view`: what it writes for which machine, and that it writes nothing where it cannot."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import fake_machine
import pytest
from fake_machine import Machine, row

from index_server import IndexServer, metadata_of, serving
from variant_index import EDITION, PROVIDER, TARGETS, VERSION, stated, variants_of, write_index

EIGHT = sorted((Path.home() / ".pyenv/versions").glob("3.8*/bin/python"))
PYTHONS = [sys.executable, *map(str, EIGHT[:1])]
VARIANTS = f"amd_torch_device-{VERSION}-variants.json"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_machine.package(tmp_path_factory.mktemp("site"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexServer]:
    with serving(write_index(tmp_path / "files")) as server:
        yield server


@pytest.fixture
def view(site: Path, machine: Machine, tmp_path: Path) -> Run:
    """Runs the command on the machine, without site-packages, in a directory of its own."""
    here = tmp_path / "here"
    here.mkdir()

    def run(
        *words: object, python: str = sys.executable, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [
                *(python, "-S", "-W", "error", "-m", "rocwright_detect", "view"),
                *("--root", str(machine.root), *map(str, words)),
            ],
            env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **(environ or {})},
            capture_output=True,
            text=True,
            timeout=60,
            cwd=here,
        )
        assert "Traceback" not in done.stderr
        assert not [one for one in here.iterdir() if one.name != "rocwright-view"], "something is left"
        return done

    run.place = here / "rocwright-view"
    return run


def line(place: Path, word: str = "torch") -> str:
    return f"uv pip install --preview-features wheel-variants --index {place.as_uri()} {word}"


def said_of(place: Path) -> dict:
    return json.loads((place / "amd-torch-device" / VARIANTS).read_text())


def files_of(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- what it writes


@pytest.mark.parametrize("form", ["html", "json"])
@pytest.mark.parametrize("python", PYTHONS)
def test_pages_lead_to_the_files_at_their_origin_and_the_gpu_is_stated(
    view: Run, machine: Machine, index: IndexServer, python: str, form: str
) -> None:
    index.manner.json = form == "json"
    index.manner.yanked = {f"amd_torch_device_gfx942-{VERSION}-py3-none-any.whl"}
    machine.gpu(row("1586"))
    done = view(index.url(), python=python)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "0  gfx1151  AMD Radeon 8060S Graphics  0000:03:00.0",
        "",
        line(view.place),
    ]
    assert done.stderr == (
        f"{view.place} is written, for gfx1151: 5 projects of {index.url()}, 1 variants.json (7 requests)\n"
    )
    names = ["amd-torch-device", *(f"amd-torch-device-{one}" for one in TARGETS), "torch"]
    written = files_of(view.place)
    assert sorted(written) == sorted(
        [
            *(f"{one}/index.html" for one in names),
            f"amd-torch-device/{VARIANTS}",
            "index.html",
            "rocwright-view.json",
        ]
    )
    wheel = index.folder / f"torch-{VERSION}-py3-none-any.whl"
    about = hashlib.sha256(metadata_of(wheel)).hexdigest()
    address = f"{index.url('files/')}{wheel.name.replace('+', '%2B')}#sha256={sha256(wheel)}"
    page = written["torch/index.html"].decode()
    assert f'<a href="{address}" data-core-metadata="sha256={about}">{wheel.name}</a><br>\n' in page
    assert 'data-yanked="broken"' in written["amd-torch-device-gfx942/index.html"].decode()
    stated_here = (view.place / "amd-torch-device" / VARIANTS).read_bytes()
    relative = f"{VARIANTS.replace('+', '%2B')}#sha256={hashlib.sha256(stated_here).hexdigest()}"
    assert f'<a href="{relative}">{VARIANTS}</a>' in written["amd-torch-device/index.html"].decode()
    assert json.loads(stated_here) == {
        "$schema": EDITION,
        "default-priorities": {"namespace": ["amd"]},
        "providers": {"amd": {"static-properties": {"gfx_arch": ["gfx1151"]}}},
        "variants": variants_of(TARGETS),
    }


def test_again_changes_nothing_and_another_machine_replaces_it(view: Run, index: IndexServer) -> None:
    view(index.url(), "--target", "gfx942")
    before = {path: path.stat().st_mtime_ns for path in view.place.rglob("*")}
    done = view(index.url(), "--target", "gfx942")
    assert "is there already, and current, for gfx942" in done.stderr
    assert done.stdout.splitlines()[-1] == line(view.place)
    assert {path: path.stat().st_mtime_ns for path in view.place.rglob("*")} == before
    (index.folder / f"amd_torch_device_gfx942-{VERSION}-py3-none-any.whl").unlink()
    assert "is written, for gfx1100" in view(index.url(), "--target", "gfx1100").stderr
    assert not (view.place / "amd-torch-device-gfx942").exists()
    assert said_of(view.place)["providers"]["amd"] == {"static-properties": {"gfx_arch": ["gfx1100"]}}


def test_as_json_and_where_it_is_told_to(view: Run, index: IndexServer, tmp_path: Path) -> None:
    place = tmp_path / "some where" / "view"
    done = view(index.url(), "--target", "gfx942", "--directory", place, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["exit_status"], report["targets"]) == (0, 0, ["gfx942"])
    assert report["view"] == {
        "directory": str(place),
        "index": index.url(),
        "problem": None,
        "requests": 7,
        "projects": 5,
        "variants": 1,
        "properties": {"amd": {"gfx_arch": ["gfx942"]}},
        "changed": True,
        "uv": line(place),
    }
    assert "some%20where" in report["view"]["uv"]


def test_an_index_in_a_directory(view: Run, tmp_path: Path) -> None:
    folder = write_index(tmp_path / "index" / "torch")
    links = "".join(f'<a href="{one.name}">{one.name}</a>\n' for one in folder.glob("torch*.whl"))
    (folder / "index.html").write_text(links)
    (tmp_path / "index/amd-torch-device").mkdir()
    links = f'<a href="../torch/{VARIANTS}">{VARIANTS}</a>'
    (tmp_path / "index/amd-torch-device/index.html").write_text(links)
    (tmp_path / "index/index.html").write_text('<a href="torch/">t</a><a href="amd-torch-device/">a</a>')
    done = view(tmp_path / "index", "--target", "gfx942")
    assert done.returncode == 0, done.stderr
    assert f'href="{folder.as_uri()}/torch-' in (view.place / "torch/index.html").read_text()


def test_a_login_stays_out_of_what_is_written(view: Run, index: IndexServer) -> None:
    index.manner.login = "me:secret"
    done = view(index.url(login="me:secret@"), "--target", "gfx942", "--json")
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout + done.stderr + str(files_of(view.place))
    assert index.url("files/") in (view.place / "torch/index.html").read_text()
    index.manner.login = "me:other"
    assert view(index.url(login="me:secret@"), "--target", "gfx942").returncode == 5


def test_what_others_state_stays_as_it_is(view: Run, index: IndexServer) -> None:
    """Another project's variants by CPU level stay at their origin; beside AMD's they keep their provider."""
    builtin = {"builtin": "x86_64"}
    both = stated({"v3": {"amd": {"gfx_arch": ["gfx942"]}, "x86_64": {"level": ["v3"]}}}, PROVIDER)
    both["providers"]["x86_64"], both["default-priorities"]["namespace"] = builtin, ["amd", "x86_64"]
    (index.folder / VARIANTS).write_text(json.dumps(both))
    alone = dict(both, providers={"x86_64": builtin}, variants={"v3": {"x86_64": {"level": ["v3"]}}})
    alone["default-priorities"] = {"namespace": ["x86_64"]}
    (index.folder / "other-1.0-variants.json").write_text(json.dumps(alone))
    assert view(index.url(), "--target", "gfx942").returncode == 0
    assert said_of(view.place)["providers"] == {
        "amd": {"static-properties": {"gfx_arch": ["gfx942"]}},
        "x86_64": builtin,
    }
    assert index.url("files/other-1.0-variants.json#") in (view.place / "other/index.html").read_text()


def test_what_an_index_says_of_everybodys_gpus_is_replaced_and_told(view: Run, index: IndexServer) -> None:
    static = {"static-properties": {"gfx_arch": ["gfx1100"]}}
    (index.folder / VARIANTS).write_text(json.dumps(stated(variants_of(TARGETS), static)))
    done = view(index.url(), "--target", "gfx942")
    assert done.returncode == 0
    assert f"replaced what {index.url()} itself says of everybody's GPUs: amd-torch-device\n" in done.stderr
    assert said_of(view.place)["providers"]["amd"]["static-properties"] == {"gfx_arch": ["gfx942"]}


def test_a_project_without_files_keeps_its_page(view: Run, tmp_path: Path) -> None:
    """So installers know that it is this index's, and do not take it from another one."""
    folder = write_index(tmp_path / "index" / "torch")
    links = "".join(f'<a href="{one.name}">{one.name}</a>\n' for one in folder.iterdir())
    (folder / "index.html").write_text(links)
    for name in ("amd-torch-device", "rocm"):
        (tmp_path / "index" / name).mkdir()
    (tmp_path / "index/rocm/index.html").write_text("<!DOCTYPE html>")
    page = f'<a href="../torch/{VARIANTS}">{VARIANTS}</a>'
    (tmp_path / "index/amd-torch-device/index.html").write_text(page)
    names = ("torch", "rocm", "amd-torch-device", "gone")
    (tmp_path / "index/index.html").write_text("".join(f'<a href="{one}/">{one}</a>' for one in names))
    assert view(tmp_path / "index", "--target", "gfx942").returncode == 0
    assert (view.place / "rocm/index.html").is_file()
    assert not (view.place / "gone").exists()


# -- which GPUs


def test_a_card_is_taken_before_the_gpu_of_the_processor(
    view: Run, machine: Machine, index: IndexServer
) -> None:
    machine.gpu(row("1586"))
    machine.gpu(row("744c"))
    done = view(index.url())
    assert done.returncode == 0
    assert said_of(view.place)["providers"]["amd"]["static-properties"] == {"gfx_arch": ["gfx1100"]}
    assert done.stdout.splitlines()[-1] == line(view.place)
    assert (
        "gfx1151 (AMD Radeon 8060S Graphics) is part of the processor, and there is a card: left out; "
        "--target gfx1151 takes it\n"
    ) in done.stderr


def test_of_two_cards_one_comes_by_its_variant_and_the_other_by_its_extra(
    view: Run, machine: Machine, index: IndexServer
) -> None:
    machine.gpu(row("744c"))
    machine.gpu(row("74a1"))
    machine.gpu(row("744c"))
    done = view(index.url())
    assert done.returncode == 0
    assert said_of(view.place)["providers"]["amd"]["static-properties"] == {"gfx_arch": ["gfx1100", "gfx942"]}
    assert done.stdout.splitlines()[-1] == line(view.place, '"torch[device-gfx942]"')


def test_without_a_gpu_nothing_is_asked_or_written(view: Run, index: IndexServer) -> None:
    done = view(index.url())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no view is written:\nno AMD GPU is visible here\n"
    assert not index.asked
    assert not view.place.exists()


def test_a_card_that_is_not_known_is_3_and_the_other_gets_its_view(
    view: Run, machine: Machine, index: IndexServer
) -> None:
    machine.pci("744c", "c8")
    machine.pci("759f", "c0")
    done = view(index.url())
    assert done.returncode == 3
    assert "PCI id 1002:759f is not in the table" in done.stderr
    assert done.stdout.splitlines()[-1] == line(view.place)


def test_a_card_that_is_not_known_is_not_passed_over_for_the_processor(
    view: Run, machine: Machine, index: IndexServer
) -> None:
    machine.pci("1586", "c1")
    machine.pci("759f", "c0")
    done = view(index.url())
    assert (done.returncode, view.place.exists()) == (3, False)


def test_a_target_that_no_variant_is_for_is_3_and_nothing_is_written(view: Run, index: IndexServer) -> None:
    done = view(index.url(), "--target", "gfx1201")
    assert (done.returncode, view.place.exists()) == (3, False)
    assert f"no variant on {index.url()} is for gfx1201; it has: gfx942 gfx1100 gfx1151\n" in done.stderr
    done = view(index.url(), "--target", "gfx1201,gfx942")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == line(view.place)
    # A later variant for it would be taken.
    assert said_of(view.place)["providers"]["amd"]["static-properties"]["gfx_arch"] == ["gfx1201", "gfx942"]


def test_an_index_without_variants_is_3(view: Run, index: IndexServer) -> None:
    (index.folder / VARIANTS).unlink()
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (3, False)
    assert f"no variant on {index.url()} is for gfx942; it has none for AMD GPUs\n" in done.stderr


def test_a_target_that_only_an_earlier_torch_has_variants_for(view: Run, index: IndexServer) -> None:
    write_index(index.folder, version="2.14.0+rocm7.14.0", targets=("gfx1100",))
    done = view(index.url(), "--target", "gfx942")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == line(view.place, f"torch=={VERSION}")
    assert "torch 2.14.0+rocm7.14.0 has no variant for gfx942\n" in done.stderr
    assert view(index.url(), "--target", "gfx1100").stdout.splitlines()[-1] == line(view.place)


def test_pre_releases_are_asked_for_where_there_is_nothing_else(view: Run, tmp_path: Path) -> None:
    with serving(write_index(tmp_path / "nightly", version="2.14.0a0+rocm7.14.0a20261120")) as index:
        done = view(index.url(), "--target", "gfx942")
    assert done.stdout.splitlines()[-1].endswith(f"{view.place.as_uri()} --prerelease allow torch")


# -- as AMD's own detector


def test_the_variables_of_rocm_bootstrap_are_obeyed(view: Run, machine: Machine, index: IndexServer) -> None:
    machine.gpu(row("744c"))
    forced = {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "gfx942, gfx1151,gfx942"}
    done = view(index.url(), environ=forced)
    assert done.returncode == 0
    assert said_of(view.place)["providers"]["amd"]["static-properties"]["gfx_arch"] == ["gfx942", "gfx1151"]
    assert "ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx942, gfx1151,gfx942 is set: this machine was not" in done.stderr
    # What somebody names here goes before.
    done = view(index.url(), "--target", "gfx1100", environ=forced)
    assert said_of(view.place)["providers"]["amd"]["static-properties"]["gfx_arch"] == ["gfx1100"]
    done = view(index.url(), environ={**forced, "ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    done = view(index.url(), environ={"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "gfx1109"})
    assert done.returncode == 3
    assert "gfx1109 is no known target; near it are: gfx1100 gfx1101 gfx1102 gfx1103\n" in done.stderr


@pytest.fixture
def inside(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, from a directory laid out as the wheel is."""
    monkeypatch.syspath_prepend(str(site))
    yield importlib.import_module("rocwright_detect._view")
    for name in [name for name in sys.modules if name.startswith("rocwright_detect")]:
        del sys.modules[name]


def properties(provider: ModuleType) -> list[str]:
    """What AMD's plugin says of the machine."""
    return [one for config in provider.AMDVariantPlugin.get_supported_configs() for one in config.values]


def test_amds_plugin_states_the_same_for_every_target(
    inside: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone by the variable that forces it, and all of them together, in their order."""
    provider = pytest.importorskip("rocm_bootstrap.variant_provider", reason="needs rocm-bootstrap (pip)")
    known = importlib.import_module("rocwright_detect._known")
    # AMD's own registry knows targets as well that nothing is published for; those are not in the table.
    targets = [*known.published("linux"), *known.OWNERS]
    assert len(targets) >= 25
    assert {"gfx1151", "gfx942", "gfx1250-strict"} <= set(targets)
    for words in (*targets, ",".join(targets), "gfx1100,gfx942,gfx1100"):
        monkeypatch.setenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", words)
        assert inside.wanted(inside.seen()) == properties(provider), words
    monkeypatch.setenv("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1")
    assert inside.wanted(inside.seen()) == properties(provider) == []


def test_amds_plugin_states_the_same_for_what_the_driver_lists(
    inside: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    provider = pytest.importorskip("rocm_bootstrap.variant_provider", reason="needs rocm-bootstrap (pip)")
    platform = importlib.import_module("rocm_bootstrap._platform")
    known = {target.name for target in importlib.import_module("rocm_bootstrap.targets").ALL_TARGETS}
    compared = 0
    for number, one in enumerate(one for one in fake_machine.rows() if one.target in known):
        machine = Machine(tmp_path / str(number))
        machine.gpu(one)
        monkeypatch.setattr(platform, "KFD_TOPOLOGY", machine.nodes)
        assert inside.wanted(inside.seen(str(machine.root))) == properties(provider) == [one.target]
        compared += 1
    assert compared >= 25
    machine = Machine(tmp_path / "two")
    for device in ("74a1", "744c"):
        machine.gpu(row(device))
    monkeypatch.setattr(platform, "KFD_TOPOLOGY", machine.nodes)
    assert inside.wanted(inside.seen(str(machine.root))) == properties(provider) == ["gfx942", "gfx1100"]


# -- bad input


def changed(**keys: object) -> str:
    said = {**stated(variants_of(TARGETS), PROVIDER), **keys}
    return json.dumps({name: value for name, value in said.items() if value is not None})


DAMAGES = {
    "empty": ("", "it is no JSON"),
    "cut": (changed()[:-40], "it is no JSON"),
    "deep": ("[" * 100_000, "it is no JSON"),
    "latin": ("{\udcff", "it is no JSON"),
    "list": ("[]", "it names no edition"),
    "no-edition": (changed(**{"$schema": None}), "it names no edition"),
    "more-keys": (changed(extra={}), "its keys are $schema default-priorities extra providers variants"),
    "no-variants": (changed(variants=None), "its keys are"),
    "variants-list": (changed(variants=[]), "variants is no table"),
    "no-order": (changed(**{"default-priorities": {"namespace": []}}), "does not name each provider"),
    "other-order": (changed(**{"default-priorities": {"namespace": ["x"]}}), "does not name each provider"),
    "order-text": (changed(**{"default-priorities": {"namespace": "amd"}}), "does not name each provider"),
    "provider-text": (changed(providers={"amd": "rocm-bootstrap"}), "providers is no table of tables"),
    "label": (changed(variants={"GFX 942": {}}), "'GFX 942' is no label of a variant"),
    "value-text": (
        changed(variants={"a": {"amd": {"gfx_arch": "gfx942"}}}),
        "the properties of variant a cannot be read",
    ),
    "feature-list": (changed(variants={"a": {"amd": []}}), "the properties of variant a cannot be read"),
    "no-provider": (changed(variants={"a": {"nvidia": {}}}), "properties that there is no provider for"),
    "two-without-providers": (
        changed(providers=None, **{"default-priorities": {"namespace": ["amd", "x86_64"]}}),
        "it names no providers",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_a_damaged_variants_json_lacks_is_said(
    inside: ModuleType, index: IndexServer, tmp_path: Path, name: str
) -> None:
    text, why = DAMAGES[name]
    (index.folder / VARIANTS).write_bytes(text.encode("utf-8", "surrogateescape"))
    found = inside.answer(index.url(), str(tmp_path / "view"), targets=["gfx942"])
    assert (found["exit_status"], found["view"]["uv"]) == (5, None)
    assert f"/files/{VARIANTS.replace('+', '%2B')} is damaged: " in found["view"]["problem"]
    assert why in found["view"]["problem"]
    assert not (tmp_path / "view").exists()


def test_a_damaged_variants_json_is_5_and_leaves_the_view_of_before(view: Run, index: IndexServer) -> None:
    assert view(index.url(), "--target", "gfx942").returncode == 0
    before = files_of(view.place)
    # Another file, as digests of files are kept by the server.
    (index.folder / "amd_torch_device-9-variants.json").write_text(changed()[:-40])
    done = view(index.url(), "--target", "gfx1100")
    assert (done.returncode, done.stdout) == (5, "0  gfx1100\n"), done.stderr
    assert f"{index.url('files/amd_torch_device-9-variants.json')} is damaged: it is no JSON" in done.stderr
    assert done.stderr.startswith("no view is written:\n")
    assert files_of(view.place) == before


def test_another_edition_is_told_by_its_name_where_it_says_other_things(
    view: Run, index: IndexServer
) -> None:
    place = index.folder / "amd_torch_device-9-variants.json"
    edition = {"$schema": "https://variants-schema.wheelnext.dev/v9.json"}
    place.write_text(changed(**edition, variants={"gfx942": ["amd :: gfx_arch :: gfx942"]}))
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert f"edition of wheel variants that is not known here ({edition['$schema']})" in done.stderr
    assert "without variants the index installs as it is" in done.stderr
    # uv takes one, too, that says what it expects.
    with serving(write_index(index.folder.with_name("again"))) as again:
        (again.folder / "amd_torch_device-9-variants.json").write_text(changed(**edition))
        assert view(again.url(), "--target", "gfx942").returncode == 0


def test_the_edition_without_providers_gets_this_machines(view: Run, index: IndexServer) -> None:
    """PEP 825 alone: who provides is left to the installer."""
    (index.folder / VARIANTS).write_text(changed(providers=None))
    assert view(index.url(), "--target", "gfx942").returncode == 0
    assert said_of(view.place)["providers"] == {"amd": {"static-properties": {"gfx_arch": ["gfx942"]}}}


def test_a_variants_json_that_is_not_the_one_of_the_page_is_5(view: Run, index: IndexServer) -> None:
    index.manner.cut = {VARIANTS}
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert "is not the file that its page names: its sha256 is another" in done.stderr
    index.manner.cut, index.manner.absent = set(), {VARIANTS}
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert "is not there, and a page of the index leads to it" in done.stderr


def page(folder: Path, *links: str) -> Path:
    (folder / "torch").mkdir(parents=True)
    (folder / "index.html").write_text('<a href="torch/">torch</a>')
    (folder / "torch/index.html").write_text("".join(f'<a href="{one}">x</a>' for one in links))
    return folder


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("ftp://x.example/torch-1-py3-none-any.whl", "which is no address of a file for everybody"),
        ("javascript:x/torch-1-py3-none-any.whl", "which is no address of a file for everybody"),
    ],
)
def test_addresses_that_no_page_may_have_are_5(view: Run, tmp_path: Path, link: str, why: str) -> None:
    done = view(page(tmp_path / "index", link), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert why in done.stderr


def test_a_server_must_not_lead_to_files_of_this_machine(view: Run, index: IndexServer) -> None:
    index.manner.more = '<a href="file:///etc/torch-1-py3-none-any.whl">torch-1-py3-none-any.whl</a>'
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert "leads to 'file:///etc/torch-1-py3-none-any.whl'" in done.stderr


def test_an_index_that_cannot_be_asked_or_is_none_is_5(view: Run, index: IndexServer, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for address, why in (
        ("http://127.0.0.1:1/", "cannot be reached: Connection refused (1 request)"),
        (index.url("nothing/"), "is no index: it does not list its projects (1 request)"),
        (index.url("simple/torch/"), "is no index: it leads to no page with files (1 request)"),
        (tmp_path / "empty", "is no index: it does not list its projects (0 requests)"),
    ):
        done = view(address, "--target", "gfx942")
        assert (done.returncode, view.place.exists()) == (5, False), done.stderr
        assert why in done.stderr
    index.manner.fails = {"amd-torch-device-gfx1100": 1}
    done = view(index.url(), "--target", "gfx942")
    assert (done.returncode, view.place.exists()) == (5, False)
    assert f"{index.url('simple/amd-torch-device-gfx1100/')} answers 503" in done.stderr


def test_an_index_of_everything_is_5_and_not_copied(view: Run, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    names = "".join(f'<a href="p{one}/">p{one}</a>' for one in range(1001))
    (tmp_path / "index/index.html").write_text(names)
    done = view(tmp_path / "index", "--target", "gfx942")
    assert done.returncode == 5
    assert "lists 1001 projects, and a view is of an index with at most 1000: " in done.stderr


@pytest.mark.parametrize("what", ["file", "full", "view-and-more", "below-a-file"])
def test_a_place_that_holds_something_else_is_2_and_keeps_it(
    view: Run, index: IndexServer, tmp_path: Path, what: str
) -> None:
    place = tmp_path / "mine"
    if what == "view-and-more":
        assert view(index.url(), "--target", "gfx1100", "--directory", place).returncode == 0
    if what in ("full", "view-and-more"):
        place.mkdir(exist_ok=True)
        (place / "letter.txt").write_text("dear")
    else:
        place.write_text("dear")
    named = place / "below" if what == "below-a-file" else place
    done = view(index.url(), "--target", "gfx942", "--directory", named)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: rocwright-detect view" in done.stderr
    assert str(place) in done.stderr
    assert (place / "letter.txt" if place.is_dir() else place).read_text() == "dear"


def test_an_empty_place_and_a_link_to_one_will_do(view: Run, index: IndexServer, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    done = view(index.url(), "--target", "gfx942", "--directory", tmp_path / "link")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/rocwright-view.json").is_file()


def test_what_breaks_off_leaves_the_view_of_before(
    inside: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "view"
    assert inside.write(str(place), {"a/index.html": b"one", "rocwright-view.json": b"{}"})
    with pytest.raises(TypeError):
        inside.write(str(place), {"a/index.html": b"two", "b": "the disk is full"})
    assert files_of(place) == {"a/index.html": b"one", "rocwright-view.json": b"{}"}
    renamed = os.rename

    def refused(old: str, new: str) -> None:
        if new == str(place) and ".partial-" in old:
            raise OSError(5, "no")
        renamed(old, new)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(OSError, match="no"):
        inside.write(str(place), {"b": b"two"})
    assert files_of(place) == {"a/index.html": b"one", "rocwright-view.json": b"{}"}
    assert [one.name for one in tmp_path.iterdir()] == ["view"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: INDEX"),
        (("nonsense",), "is no address of an index"),
        (("https://x.example/", "--offline"), "unrecognized arguments"),
        (("https://x.example/", "--target", ","), "--target names none"),
        (("https://x.example/", "--from-windows", "/no/such/file"), "No such file"),
    ],
)
def test_options_that_make_no_sense_are_2(view: Run, words: tuple[str, ...], said: str) -> None:
    done = view(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
