"""pip, uv and variantlib meet variants in an index that `set create --variants` fills.

A machine is what a view of the index says of it: the same pages, with that machine's properties in them.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from real.store.clients import PIPS, Client, Shop, versions_in, wheel
from rocwright.model.variants import split_label
from rocwright.pipeline.variants import with_selectors
from rocwright.store.objects.serve import serving
from rocwright.system.venv import uv_command
from wheels import ANY, write_wheel

VERSION, NEWER = "2.9.0+rocm7.1", "2.10.0+rocm7.2"
TARGETS = ("gfx942", "gfx1151", "gfx1250")
PREVIEW = ("--preview-features", "wheel-variants")
PUBLISHED = "v2/fam/"


def torch(folder: Path, version: str = VERSION) -> tuple[Path, ...]:
    """A host of several megabytes, which nobody wants twice, and its device wheels, with selectors."""
    pins = [f'amd-torch-device-{one}=={version} ; extra == "device-{one}"' for one in TARGETS]
    extras = [f"device-{one}" for one in TARGETS]
    files = {"torch/__init__.py": "", "torch/lib.bin": bytes(1 << 20)}
    write_wheel(folder, "torch", version, files, tag=ANY, extras=extras, requires=pins)
    for one in TARGETS:
        device = {f"torch/{one}.txt": one}
        needs = [f"torch=={version}"]
        write_wheel(folder, f"amd-torch-device-{one}", version, device, tag=ANY, requires=needs)
    made = with_selectors([folder], folder / "made", lambda _: None)
    assert len(made) == 1 + len(TARGETS) + 2 + len(TARGETS)
    return made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.record(*torch(tmp_path_factory.mktemp("wheels")), targets=TARGETS)
    shop.publish(PUBLISHED)
    return shop


@pytest.fixture
def served(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []
    with serving(shop.root, requests=requests) as url:
        yield url, requests


def chosen(target: Path) -> str | None:
    """The label of the selector that was installed, None for the plain wheel."""
    [info] = target.glob("amd_torch_device-*.dist-info")
    stated = info / "variant.json"
    return next(iter(json.loads(stated.read_bytes())["variants"])) if stated.exists() else None


HOST = {"torch": VERSION, "amd-torch-device": VERSION}


@pytest.mark.parametrize("place", ["", "_flat/index.html"])
def test_who_does_not_ask_for_variants_gets_the_plain_wheel(
    client: Client, place: str, served: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, requests = served
    words = ["--no-index", "--find-links"] if "_flat" in place else ["--index-url"]
    assert client.install(tmp_path / "t", *words, f"{url}{PUBLISHED}{place}", "torch") == HOST
    assert chosen(tmp_path / "t") is None
    assert not [path for path in requests if path.endswith("-variants.json")]
    assert not [path for path in requests if split_label(path.rpartition("/")[2])[1] is not None]


def test_an_extra_chooses_as_ever(client: Client, served: tuple[str, list[str]], tmp_path: Path) -> None:
    asked = ["--index-url", served[0] + PUBLISHED, "torch[device-gfx1151]"]
    found = client.install(tmp_path / "t", *asked)
    assert found == {**HOST, "amd-torch-device-gfx1151": VERSION}
    assert (tmp_path / "t/torch/gfx1151.txt").read_text() == "gfx1151"


def test_uv_asks_no_foreign_provider_so_the_published_index_gives_the_null_variant(
    clients: dict[str, Client], served: tuple[str, list[str]], tmp_path: Path
) -> None:
    asked = ["--index-url", served[0] + PUBLISHED, *PREVIEW, "torch"]
    assert clients["uv"].install(tmp_path / "t", *asked) == HOST
    assert chosen(tmp_path / "t") == "null"


MACHINES = {
    ("gfx942",): "gfx942",
    ("gfx1151",): "gfx1151",
    # Of several GPUs the first decides; a target that the index has nothing for is passed over.
    ("gfx1151", "gfx942"): "gfx1151",
    ("gfx900", "gfx942"): "gfx942",
    ("gfx900",): None,
}


@pytest.mark.parametrize("machine", MACHINES, ids="+".join)
@pytest.mark.parametrize("place", ["", "_json/"])
def test_each_machine_gets_its_device_from_one_published_index(
    clients: dict[str, Client],
    shop: Shop,
    served: tuple[str, list[str]],
    machine: tuple[str, ...],
    place: str,
    tmp_path: Path,
) -> None:
    prefix = shop.view(f"view/{'-'.join(machine)}/", *machine)
    target = MACHINES[machine]
    device = {f"amd-torch-device-{target}": VERSION} if target else {}
    asked = ["--index-url", f"{served[0]}{prefix}{place}", "torch"]
    assert clients["uv"].install(tmp_path / "t", *asked, *PREVIEW) == {**HOST, **device}
    assert chosen(tmp_path / "t") == (target or "null")
    assert [path.name for path in (tmp_path / "t/torch").glob("gfx*")] == (
        [f"{target}.txt"] if target else []
    )
    # The same line without the preview: as ever.
    assert clients["uv"].install(tmp_path / "u", *asked) == HOST


def test_the_choice_costs_two_requests_and_few_bytes(
    clients: dict[str, Client], shop: Shop, served: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Against an extra that somebody has to name: the page is read all the same, as the host requires it."""
    url, requests = served
    prefix = shop.view("view/cost/", "gfx942")
    uv = clients["uv"]
    uv.install(tmp_path / "t", "--no-cache", "--index-url", url + prefix, *PREVIEW, "torch")
    by_variant = list(requests)
    requests.clear()
    uv.install(tmp_path / "u", "--no-cache", "--index-url", url + PUBLISHED, "torch[device-gfx942]")

    def told(paths: Iterable[str]) -> list[str]:
        return sorted(path.rpartition("/")[2] or path.rstrip("/").rpartition("/")[2] for path in paths)

    more = [name for name in told(by_variant) if name not in told(requests)]
    stem = f"amd_torch_device-{VERSION.replace('+', '%2B')}"
    selector = f"{stem}-py3-none-any-gfx942.whl"
    assert more == [selector, f"{selector}.metadata", f"{stem}-variants.json"]
    # The selector comes in place of the plain wheel, whose METADATA uv may have asked for already.
    assert len(by_variant) <= len(requests) + 2
    sizes = [
        stored.size
        for stored in shop.store.list("")
        if stored.key.startswith((prefix, "files/"))
        and stored.key.rpartition("/")[2].replace("+", "%2B") in more
    ]
    assert len(sizes) == 3 and sum(sizes) < 4096


PICK = """
import json, sys
from variantlib.api import get_variants_by_priority
said = json.load(open(sys.argv[1]))
print(json.dumps([one.label for one in get_variants_by_priority(variants_json=said)]))
"""
WITNESS = """
import pathlib, sys, zipfile
from variantlib.variant_dist_info import VariantDistInfo
for name in sys.argv[1:]:
    label = pathlib.Path(name).stem.rpartition("-")[2]
    with zipfile.ZipFile(name) as archive:
        [stated] = [one for one in archive.namelist() if one.endswith(".dist-info/variant.json")]
        VariantDistInfo(archive.read(stated), label)
"""


@pytest.fixture(scope="module")
def variantlib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with variantlib and AMD's own provider in it."""
    place = tmp_path_factory.mktemp("variantlib") / "venv"
    subprocess.run([uv_command(), "venv", "-q", "--python", sys.executable, place], check=True)
    python = place / "bin/python"
    wanted = ["variantlib==0.2.2", "rocm-bootstrap==0.3.0"]
    subprocess.run([uv_command(), "pip", "install", "-q", "--python", python, *wanted], check=True)
    return python


def asked_of(python: Path, script: str, *words: str | Path, **env: str) -> str:
    done = subprocess.run(
        [python, "-c", script, *words], env={"LC_ALL": "C.UTF-8", **env}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("machine", "order"),
    [
        ("gfx942", ["gfx942", "null"]),
        ("gfx1151,gfx942", ["gfx1151", "gfx942", "null"]),
        # What the target of another one owns.
        ("gfx1250-strict", ["gfx1250", "null"]),
        ("gfx900", ["null"]),
        ("", ["null"]),
    ],
)
def test_variantlib_and_amds_provider_choose_from_what_is_published(
    variantlib: Path, shop: Shop, machine: str, order: list[str]
) -> None:
    [stated] = (shop.root / PUBLISHED / "_variants").rglob("*-variants.json")
    seen = (
        {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": machine} if machine else {"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}
    )
    assert json.loads(asked_of(variantlib, PICK, stated, **seen)) == order


def test_variantlib_reads_every_selector(variantlib: Path, shop: Shop) -> None:
    wheels = [path for path in (shop.root / "files").rglob("*.whl") if split_label(path.name)[1] is not None]
    assert len(wheels) == 1 + len(TARGETS)
    asked_of(variantlib, WITNESS, *wheels)


# -- what goes wrong


def broken(shop: Shop, prefix: str, data: bytes) -> str:
    """A view whose file about variants holds something else, and whose pages say so."""
    written = shop.view(prefix, "gfx942")
    [stated] = (shop.root / written / "_variants").rglob("*-variants.json")
    old = stated.parent.name
    stated.write_bytes(data)
    for page in (shop.root / written).rglob("index.html"):
        text = page.read_text()
        page.write_text(
            text.replace(f"#sha256={old}", f"#sha256={sha256(data).hexdigest()}").replace(
                f'"hashes":{{"sha256":"{old}"}}', f'"hashes":{{"sha256":"{sha256(data).hexdigest()}"}}'
            )
        )
    return written


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"$schema": "https://example.org/9.json", "variants": 7}'],
    ids=["cut", "list", "9"],
)
def test_what_is_stated_wrongly_stops_only_who_asks_for_variants(
    clients: dict[str, Client], shop: Shop, served: tuple[str, list[str]], data: bytes, tmp_path: Path
) -> None:
    prefix = broken(shop, f"view/broken-{len(data)}/", data)
    asked = ["--index-url", served[0] + prefix, "torch"]
    assert clients["uv"].install(tmp_path / "t", *asked) == HOST
    assert clients[f"pip-{PIPS[-1]}"].install(tmp_path / "p", *asked) == HOST
    done = clients["uv"].try_install(tmp_path / "u", *asked, *PREVIEW)
    assert done.returncode != 0
    assert f"amd_torch_device-{VERSION}-variants.json" in done.stderr
    assert versions_in(tmp_path / "u") == {}


@pytest.fixture(scope="module")
def intruder(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Another index with higher versions of what chooses and of what is chosen."""
    folder = tmp_path_factory.mktemp("intruder")
    shop = Shop(folder / "shop")
    names = ("amd-torch-device", *(f"amd-torch-device-{one}" for one in TARGETS))
    shop.record(*(wheel(folder, name, "99.0") for name in names))
    shop.publish("simple/all/")
    return shop


def test_no_other_index_is_asked_what_to_choose(
    clients: dict[str, Client], shop: Shop, intruder: Shop, tmp_path: Path
) -> None:
    """All is pinned to versions that only ours has, so even who glues indexes gets ours."""
    prefix = shop.view("view/glued/", "gfx942")
    with serving(shop.root) as ours, serving(intruder.root) as other:
        glued = ["--index-url", ours + prefix, "--extra-index-url", f"{other}simple/all/"]
        unsafe = ["--index-strategy", "unsafe-best-match", *PREVIEW]
        found = clients["uv"].install(tmp_path / "uv", *glued, *unsafe, "torch")
        assert found == {**HOST, "amd-torch-device-gfx942": VERSION}
        for version in PIPS:
            assert clients[f"pip-{version}"].install(tmp_path / version, *glued, "torch") == HOST


MIXED = ("torch", "amd-torch-device", "amd-torch-device-gfx942")


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Two sets, one after the other: the pages of a view before and after the second came."""
    shop = Shop(tmp_path_factory.mktemp("changing"))
    shop.record(*torch(tmp_path_factory.mktemp("first")), targets=TARGETS)
    shop.view("old/x/", "gfx942")
    shop.record(*torch(tmp_path_factory.mktemp("second"), NEWER), targets=TARGETS)
    shop.view("new/x/", "gfx942")
    return shop


@pytest.mark.parametrize("ages", list(itertools.product(("old", "new"), repeat=len(MIXED))), ids="-".join)
def test_any_mixture_of_pages_holds_a_whole_set(
    clients: dict[str, Client], changing: Shop, ages: tuple[str, ...], tmp_path: Path
) -> None:
    """A client may have each page from before or from after, and finds what each of them promises."""
    mixed = f"{'-'.join(ages)}/x/"
    for name, age in zip(MIXED, ages, strict=True):
        changing.store.put_bytes(
            f"{mixed}{name}/index.html", changing.store.read(f"{age}/x/{name}/index.html"), overwrite=True
        )
    with serving(changing.root) as url:
        found = clients["uv"].install(tmp_path / "t", "--index-url", url + mixed, *PREVIEW, "torch")
    assert set(found) == set(MIXED) and len(set(found.values())) == 1
    assert set(found.values()) == ({NEWER} if set(ages) == {"new"} else {VERSION})
