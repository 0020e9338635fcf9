"""The landing page: what is offered, the lines, the HTML. Expected values by hand."""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode

import msgspec
import pytest
from watched_store import WatchedStore

from command_line import status
from rocwright.cli import main
from rocwright.data import load_table
from rocwright.errors import InvalidInput
from rocwright.model.channels import Channel, Channels, LandingTable
from rocwright.model.sets import BYPASS, PROMOTION, TEST, FileEntry, SetManifest, about_set, new_set, set_id
from rocwright.model.variants import VariantTable
from rocwright.store.index.landing import landing_pages, write_landing
from rocwright.store.index.listed import ListedSet
from rocwright.store.index.offers import Offer, fits, offers_of, pip_line, platform_of, pythons_of, uv_line
from rocwright.store.objects.local import LocalStore
from rocwright.store.publish import list_set
from rocwright.store.sets.records import save_receipt, save_set, save_statement

TABLE = load_table("landing", LandingTable)
RELEASE = load_table("channels", Channels).named("release")
BASE = "https://packages.example.org/rocm/"


def entry(name: str, *, depends: tuple[str, ...] = (), requires_python: str | None = None) -> FileEntry:
    project, version = name.removesuffix(".tar.gz").split("-")[:2]
    digest = hashlib.sha256(name.encode()).hexdigest()
    project = project.replace("_", "-")
    return FileEntry(name, digest, 1, project, version, requires_python, None, tuple(sorted(depends)))


def listed(*files: FileEntry, targets: tuple[str, ...] = ("gfx1100",), **options: str) -> ListedSet:
    manifest = new_set(family="fam", targets=targets, platform="linux", files=files, sources={})
    return ListedSet(manifest, **options)


def torch(version: str, *pythons: str, platform: str = "linux_x86_64", **options: object) -> list[FileEntry]:
    return [entry(f"torch-{version}-{tag}-{platform}.whl", **options) for tag in pythons]


def offered(*sets: ListedSet) -> tuple[Offer, ...]:
    return offers_of("fam", sets, TABLE)


def brief(offers: tuple[Offer, ...]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(offer.platform, offer.pythons, offer.requirements) for offer in offers]


def test_what_people_are_offered_first_is_what_installers_take() -> None:
    """Whatever was listed last: a fix of an old line, or a candidate."""
    sets = [listed(*torch(version, "cp312-cp312")) for version in ("2.10.0", "2.9.1", "2.11.0rc1")]
    assert [(one.version, one.current) for one in offered(*sets)] == [
        ("2.10.0", True),
        ("2.9.1", False),
        ("2.11.0rc1", False),
    ]


@pytest.mark.parametrize(
    ("name", "python", "expected"),
    [
        ("torch-1-cp312-cp312-linux_x86_64.whl", "3.12", True),
        ("torch-1-cp312-cp312-linux_x86_64.whl", "3.13", False),
        ("torch-1-cp313-cp313t-linux_x86_64.whl", "3.13", False),
        ("torch-1-cp313-cp313t-linux_x86_64.whl", "3.13t", True),
        # Free-threaded Pythons have a stable ABI of their own (PEP 803).
        ("torch-1-cp310-abi3-linux_x86_64.whl", "3.13", True),
        ("torch-1-cp310-abi3-linux_x86_64.whl", "3.9", False),
        ("torch-1-cp310-abi3-linux_x86_64.whl", "3.13t", False),
        ("torch-1-cp315-abi3t-linux_x86_64.whl", "3.15t", True),
        ("torch-1-cp315-abi3t-linux_x86_64.whl", "3.15", False),
        ("torch-1-cp315-abi3.abi3t-linux_x86_64.whl", "3.16", True),
        ("torch-1-cp315-cp315-linux_x86_64.whl", "3.15", True),
        ("torch-1-cp312-none-linux_x86_64.whl", "3.13", False),
        ("torch-1-py3-none-any.whl", "3.13t", True),
        ("torch-1-py311-none-any.whl", "3.10", False),
        ("torch-1-py2.py3-none-any.whl", "3.10", True),
        ("torch-1-pp310-pypy310_pp73-linux_x86_64.whl", "3.10", False),
        ("torch-1.tar.gz", "3.10", True),
        ("torch-1-py3-none.whl", "3.10", False),
    ],
)
def test_which_python_a_file_is_for(name: str, python: str, expected: bool) -> None:
    assert fits(entry(name), python, None) is expected


def test_requires_python_counts_too() -> None:
    one = entry("torch-1-py3-none-any.whl", requires_python=">=3.11.4,<3.14")
    assert pythons_of(one, ["3.10", "3.11", "3.12", "3.14"]) == {"3.11", "3.12"}
    assert pythons_of(entry("torch-1-py3-none-any.whl", requires_python="nonsense"), ["3.10"]) == {"3.10"}


def test_platforms_without_the_versions_in_their_tags() -> None:
    tags = ["manylinux_2_28_x86_64", "manylinux2014_aarch64", "musllinux_1_2_x86_64", "win_amd64"]
    assert [platform_of(tag) for tag in tags] == [
        "linux-x86_64",
        "linux-aarch64",
        "musllinux-x86_64",
        "windows-x86_64",
    ]


def test_what_comes_with_torch_is_there_only_for_pythons_that_it_is_built_for() -> None:
    vision = entry("torchvision-0.24+r-cp312-cp312-linux_x86_64.whl", depends=("torch",))
    audio = entry("torchaudio-2.9+r-cp312-cp312-manylinux_2_28_x86_64.whl", depends=("torch",))
    found = offered(listed(*torch("2.9+r", "cp312-cp312", "cp313-cp313"), vision, audio))
    assert brief(found) == [
        ("linux-x86_64", ("3.12",), ("torch==2.9+r", "torchvision==0.24+r", "torchaudio==2.9+r")),
        ("linux-x86_64", ("3.13",), ("torch==2.9+r",)),
    ]


def test_a_python_for_which_a_dependency_of_the_set_is_missing_is_not_offered() -> None:
    triton = entry("triton-3-cp312-cp312-linux_x86_64.whl")
    both = torch("2.9", "cp312-cp312", "cp313-cp313", depends=("triton",))
    assert brief(offered(listed(*both, triton))) == [("linux-x86_64", ("3.12",), ("torch==2.9",))]


def test_a_dependency_of_a_dependency_counts() -> None:
    files = [
        *torch("2.9", "cp312-cp312", depends=("rocm",)),
        entry("rocm-7.tar.gz", depends=("rocm-sdk-core",)),
    ]
    assert offered(listed(*files, entry("rocm_sdk_core-7-py3-none-win_amd64.whl"))) == ()


def test_vision_that_needs_what_is_not_there_is_left_out_and_torch_stays() -> None:
    vision = entry("torchvision-1-cp312-cp312-linux_x86_64.whl", depends=("torch", "pillow"))
    pillow = entry("pillow-1-cp311-cp311-linux_x86_64.whl")
    found = offered(listed(*torch("2.9", "cp312-cp312"), vision, pillow))
    assert brief(found) == [("linux-x86_64", ("3.12",), ("torch==2.9",))]


def test_device_packages_give_an_extra_for_each_target_that_has_one() -> None:
    devices = ("amd-torch-device-gfx1100", "amd-torch-device-gfx1201")
    wheel = torch("2.9+r", "cp312-cp312", depends=(*devices, "amd-torch-device-gfx906"))
    files = [entry(f"{name.replace('-', '_')}-2.9+r-py3-none-linux_x86_64.whl") for name in devices]
    [one] = offered(listed(*wheel, *files, targets=("gfx1100", "gfx1201", "gfx906", "gfx90a:xnack+")))
    assert one.targets == ("gfx1100", "gfx1201")
    index = f"{BASE}v2/fam/"
    assert pip_line(one, index, "gfx1201") == (
        'pip install --index-url https://packages.example.org/rocm/v2/fam/ "torch[device-gfx1201]==2.9+r"'
    )
    # Named by the host, but in no file of the set.
    assert one.outside == ("amd-torch-device-gfx906",)


def test_a_target_whose_code_is_in_anothers_package_is_offered_under_that_name() -> None:
    device = "amd-torch-device-gfx1250"
    file = entry("amd_torch_device_gfx1250-2.9-py3-none-linux_x86_64.whl")
    wheel = torch("2.9", "cp312-cp312", depends=(device,))
    for targets in (("gfx1250", "gfx1250-strict"), ("gfx1250-strict",)):
        [one] = offered(listed(*wheel, file, targets=targets))
        assert (one.targets, one.per_target) == (("gfx1250",), True)
        assert pip_line(one, f"{BASE}v2/fam/", "gfx1250").endswith('"torch[device-gfx1250]==2.9"')


def test_a_set_with_variants_is_installed_without_a_choice_too() -> None:
    """The lines that name a target stay what they are."""
    device, selector = "amd-torch-device-gfx1100", "amd-torch-device"
    said = load_table("variants", VariantTable).selector("gfx1100")
    name = "amd_torch_device-2.9-py3-none-linux_x86_64"
    variant = msgspec.structs.replace(entry(f"{name}-gfx1100.whl", depends=(device,)), variant=said)
    files = [
        *torch("2.9", "cp312-cp312", depends=(device, selector)),
        *(entry(f"{device.replace('-', '_')}-2.9-py3-none-linux_x86_64.whl"), entry(f"{name}.whl")),
    ]
    texts = []
    for more in ([], [variant]):
        one = listed(*files, *more)
        [offer] = offered(one)
        assert (offer.targets, offer.per_target, offer.outside) == (("gfx1100",), True, ())
        assert offer.requirements == ("torch[device-TARGET]==2.9",)
        texts.append(page_of({"fam": [one]}))
    line = f"rocwright-detect view {BASE}v2/fam/"
    assert [line in text for text in texts] == [False, True]


def test_lines_say_when_installers_must_take_prereleases() -> None:
    nightly = entry("rocm-7.11.0a20261120.tar.gz")
    [one] = offered(listed(*torch("2.9+r", "cp312-cp312", depends=("rocm",)), nightly))
    assert pip_line(one, "https://h/i/") == "pip install --index-url https://h/i/ --pre torch==2.9+r"
    assert uv_line(one, "https://h/i/") == (
        "uv pip install --default-index https://h/i/ --prerelease allow torch==2.9+r"
    )


def test_a_set_of_rocm_alone() -> None:
    [one] = offered(
        listed(
            entry("rocm-7.1.tar.gz", depends=("rocm-sdk-core",)), entry("rocm_sdk_core-7.1-py3-none-any.whl")
        )
    )
    assert (one.product, one.version, one.platform) == ("rocm", "7.1", "linux-x86_64")
    assert pip_line(one, "https://h/") == 'pip install --index-url https://h/ "rocm[libraries]==7.1"'


def test_newest_first_and_yanked_ones_not_at_all() -> None:
    old = listed(*torch("1", "cp310-cp310", "cp312-cp312"))
    middle = listed(*torch("2", "cp312-cp312"))
    new = listed(*torch("3", "cp312-cp312"))
    gone = listed(*torch("4", "cp312-cp312"), yanked="<b>broken</b>")
    # The oldest is the only one for 3.10, so it is no thing of the past.
    assert [(one.version, one.current) for one in offered(old, middle, new, gone)] == [
        ("3", True),
        ("2", False),
        ("1", True),
    ]


def test_of_sets_that_name_no_target_the_newest_is_on_the_page_not_among_earlier_ones() -> None:
    sets = [listed(*torch(version, "cp312-cp312"), targets=()) for version in ("2.9.0", "2.10.0")]
    assert [(one.version, one.current) for one in offered(*sets)] == [("2.10.0", True), ("2.9.0", False)]


def test_targets_in_the_order_of_the_hardware_and_features_left_out() -> None:
    [one] = offered(
        listed(*torch("1", "cp312-cp312"), targets=("gfx1030", "gfx906", "gfx90a:xnack+", "gfx90a:xnack-"))
    )
    assert one.targets == ("gfx906", "gfx90a", "gfx1030")


def page_of(families: dict[str, list[ListedSet]], channel: Channel = RELEASE) -> str:
    return landing_pages(channel, families, BASE)[f"{channel.prefix}/index.html"].decode()


def test_the_page_holds_nothing_from_elsewhere_and_its_policy_admits_exactly_its_own_parts() -> None:
    text = page_of({"fam": [listed(*torch("2.9+r", "cp312-cp312"))]})
    assert re.findall(r"(?:src=|@import|url\()", text) == []
    assert set(re.findall(r'href="([^"]+)"', text)) >= {"data:,"}
    assert all(one.startswith(("data:,", "../sets/")) for one in re.findall(r'href="([^"]+)"', text))
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    for kind, pattern in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
        [part] = re.findall(pattern, text, re.DOTALL)
        digest = b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in html.unescape(policy)


def test_names_are_escaped_wherever_they_come_from() -> None:
    evil = "</script><script>alert(1)</script>"
    one = listed(
        FileEntry("torch-1-cp312-cp312-linux_x86_64.whl", "0" * 64, 1, "torch", "1", None, None, (evil,)),
        uploaded=evil,
    )
    text = page_of({"fam": [one]})
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    with pytest.raises(InvalidInput):
        page_of({evil: [one]})


def test_the_same_sets_give_the_same_bytes_in_whatever_order_families_come() -> None:
    one, two = listed(*torch("1", "cp312-cp312")), listed(*torch("2", "cp312-cp312"))
    assert landing_pages(RELEASE, {"a": [one], "b": [two]}, BASE) == landing_pages(
        RELEASE, {"b": [two], "a": [one]}, BASE
    )


@pytest.mark.parametrize("base", ["https://h/a b/", "https://h", "https://h/$(x)/", 'https://h/"/', "h/"])
def test_an_address_that_would_spoil_a_command_line_is_refused(base: str) -> None:
    with pytest.raises(InvalidInput, match="address of the store"):
        landing_pages(RELEASE, {}, base)


def test_a_channel_without_tests_says_so() -> None:
    staging = load_table("channels", Channels).named("staging")
    one = {"fam": [listed(*torch("1", "cp312-cp312"))]}
    assert "has not been" in page_of(one, staging)
    assert "has not been" not in page_of(one)
    assert "Nothing is listed" in page_of({})


def record(store: LocalStore, family: str, version: str) -> SetManifest:
    """A set whose files are in the store, as bytes that nobody installs."""
    files = []
    for name in (f"torch-{version}-cp312-cp312-linux_x86_64.whl",):
        data = f"{family} {name}".encode()
        digest = hashlib.sha256(data).hexdigest()
        store.put_bytes(f"files/{digest}/{name}", data)
        files.append(FileEntry(name, digest, len(data), "torch", version))
    manifest = new_set(family=family, targets=["gfx1100"], platform="linux", files=files, sources={})
    save_set(store, manifest)
    save_receipt(store, manifest, "2026-11-20T00:00:00Z")
    return manifest


def test_a_change_of_one_family_reads_no_set_of_the_others(tmp_path) -> None:
    store = WatchedStore(tmp_path)
    first, second = record(store, "a", "1"), record(store, "b", "1")
    for manifest in (first, second):
        list_set(store, f"v2/{manifest.family}/", manifest, at="2026-11-20T00:00:00Z")
    assert write_landing(store, RELEASE, base=BASE) == ("v2/_landing.json", "v2/index.html")
    assert write_landing(store, RELEASE, base=BASE) == ()
    third = record(store, "b", "2")
    list_set(store, "v2/b/", third, at="2026-11-21T00:00:00Z")
    store.asked.clear()
    assert write_landing(store, RELEASE, base=BASE) == ("v2/_landing.json", "v2/index.html")
    assert not any(f"sets/{set_id(first)}" in key for _, key in store.asked)
    data = json.loads(store.read("v2/_landing.json"))
    assert {name: [one["version"] for one in row["offers"]] for name, row in data["families"].items()} == {
        "a": ["1"],
        "b": ["2", "1"],
    }
    assert data["families"]["a"]["offers"][0]["pip"] == f"pip install --index-url {BASE}v2/a/ torch==1"


def test_a_spoiled_or_foreign_json_is_no_source_of_facts(tmp_path) -> None:
    store = LocalStore(tmp_path)
    list_set(store, "v2/a/", record(store, "a", "1"), at="2026-11-20T00:00:00Z")
    write_landing(store, RELEASE, base=BASE)
    good = store.read("v2/_landing.json")
    for bad in (b"{", b"[]", good.replace(b"rocwright.landing/1", b"rocwright.landing/9")):
        store.put_bytes("v2/_landing.json", bad, overwrite=True)
        write_landing(store, RELEASE, base=BASE)
        assert store.read("v2/_landing.json") == good


def test_a_family_that_changes_while_the_page_is_written_is_on_it(tmp_path) -> None:
    class Busy(LocalStore):
        """A test double: another publisher lists a set when this one has just written the page."""

        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            super().put_bytes(key, data, overwrite=overwrite)
            if key == "v2/index.html" and waiting:
                manifest = waiting.pop()
                list_set(self, "v2/b/", manifest, at="2026-11-20T00:00:00Z")

    store = Busy(tmp_path)
    list_set(store, "v2/a/", record(store, "a", "1"), at="2026-11-20T00:00:00Z")
    waiting = [record(store, "b", "1")]
    write_landing(store, RELEASE, base=BASE)
    assert set(json.loads(store.read("v2/_landing.json"))["families"]) == {"a", "b"}


def test_the_command_writes_every_channel_and_names_what_it_wrote(tmp_path, monkeypatch, capsys) -> None:
    store = LocalStore(tmp_path / "store")
    list_set(store, "v2/a/", record(store, "a", "1"), at="2026-11-20T00:00:00Z")
    monkeypatch.setenv("ROCWRIGHT_PUBLIC_URL", "https://packages.example.org/rocm")

    def landing(*words: str) -> int:
        return status("store", "landing", *words, "--store", tmp_path / "store")

    assert landing("release", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"written": ["v2/_landing.json", "v2/index.html"]}
    assert f"{BASE}v2/a/ torch==1" in store.read("v2/index.html").decode()
    assert landing() == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{BASE}v2-staging/_landing.json",
        f"{BASE}v2-staging/index.html",
    ]
    assert landing("nightly") == 3
    assert "there is no channel 'nightly'" in capsys.readouterr().err


def test_a_set_that_was_rolled_back_is_off_the_page(tmp_path) -> None:
    store = LocalStore(tmp_path / "store")
    for version in ("1", "2"):
        list_set(store, "v2/a/", record(store, "a", version), at="2026-11-20T00:00:00Z")
    command = ["set", "rollback", "release:a", "--reason", "broken", "--no-wait"]
    main_of([*command, "--store", str(tmp_path / "store")])
    page = store.read("v2/index.html").decode()
    assert "torch==1<" in page
    assert "torch==2<" not in page
    assert len(json.loads(store.read("v2/_landing.json"))["families"]["a"]["offers"]) == 1


def promoted(store: LocalStore, manifest: SetManifest, said: dict[str, object]) -> None:
    save_statement(store, set_id(manifest), about_set(manifest, PROMOTION, {"to": "release", **said}))


def bypass(target: str, expires: str = "2026-12-31") -> dict[str, object]:
    required = {"suite": "smoke-gpu", "family": "a", "target": target}
    return {"required": required, "reason": "no machine", "expires": expires, "by": "ada"}


def without(store: LocalStore, channel: Channel = RELEASE) -> list[tuple[str, str]]:
    write_landing(store, channel)
    data = json.loads(store.read(f"{channel.prefix}/_landing.json"))
    return [(one["set"], one["target"]) for one in data["families"]["a"]["bypasses"]]


def test_what_a_set_was_promoted_without_stands_on_the_page(tmp_path) -> None:
    store = LocalStore(tmp_path / "store")
    old, new = (record(store, "a", version) for version in ("1", "2"))
    # An older edition only said that there were bypasses; of another channel they are not this one's.
    promoted(store, old, {"rule": "bypassed"})
    save_statement(store, set_id(old), about_set(old, BYPASS, bypass("gfx942")))
    promoted(store, new, {"rule": "bypassed", "bypasses": [bypass("gfx90a"), bypass("gfx1100")]})
    promoted(store, new, {"to": "other", "rule": "bypassed", "bypasses": [bypass("gfx950")]})
    # What passed since is tested.
    passed = {"suite": "smoke-gpu", "family": "a", "target": "gfx1100", "result": "passed", "runner": True}
    save_statement(store, set_id(new), about_set(new, TEST, passed))
    for number, one in enumerate((old, new)):
        list_set(store, "v2/a/", one, at=f"2026-11-2{number}T00:00:00Z")
    assert without(store) == [(set_id(new), "gfx90a"), (set_id(old), "gfx942")]
    page = store.read("v2/index.html").decode()
    assert page.count("(until 2026-12-31, by ada)</li>") == 2
    assert '<h2 id="bypassed">Not tested</h2>' in page
    # A page of an older edition says nothing of them: they are read again, though the log is the same.
    data = json.loads(store.read("v2/_landing.json"))
    del data["families"]["a"]["bypasses"]
    store.put_bytes("v2/_landing.json", json.dumps(data).encode(), overwrite=True)
    assert len(without(store)) == 2


def test_of_a_set_that_was_tested_nothing_is_said_and_no_spoiled_statement_stops_the_page(tmp_path) -> None:
    store = LocalStore(tmp_path / "store")
    one, other = (record(store, "a", version) for version in ("1", "2"))
    promoted(store, one, {"rule": "passed"})
    promoted(store, other, {"rule": "bypassed", "bypasses": ["?"]})
    for number, each in enumerate((one, other)):
        list_set(store, "v2/a/", each, at=f"2026-11-2{number}T00:00:00Z")
    assert without(store) == []
    assert "Not tested" not in store.read("v2/index.html").decode()


def main_of(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0


def test_a_channel_of_emulated_gpus_says_so_and_a_set_that_passed_on_one_alone_is_not_tested(
    tmp_path,
) -> None:
    own = Channel("ci", "ci", "tested", 5, device="emulated")
    one = {"fam": [listed(*torch("1", "cp312-cp312"))]}
    assert "were tested on emulated GPUs" in page_of(one, own)
    assert "emulated" not in page_of(one)
    store = LocalStore(tmp_path / "store")
    new = record(store, "a", "1")
    promoted(store, new, {"rule": "bypassed", "bypasses": [bypass("gfx90a"), bypass("gfx1100")]})
    passed = {"suite": "smoke-gpu", "family": "a", "target": "gfx1100", "result": "passed", "runner": True}
    save_statement(store, set_id(new), about_set(new, TEST, passed | {"device": "emulated"}))
    list_set(store, "v2/a/", new, at="2026-11-20T00:00:00Z")
    assert without(store) == [(set_id(new), "gfx1100"), (set_id(new), "gfx90a")]
    page = store.read("v2/index.html").decode()
    assert "without smoke-gpu on gfx1100, which passed on an emulated GPU alone: no machine" in page
    assert "without smoke-gpu on gfx90a: no machine" in page
