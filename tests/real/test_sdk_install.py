"""ROCm's packages come and go over HTTP: every combination, both orders, with pip and with uv."""

from __future__ import annotations

import hashlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from real import sdk_index
from real.sdk_sets import Environment
from real.store.clients import Shop
from rocwright.pipeline.variants import with_selectors
from rocwright.store.objects.serve import serving
from wheels import ANY, write_wheel

DEVICES = ("rocm-sdk-device-gfx1100", "rocm-sdk-device-gfx942")
# Everything, each after what it needs.
ALL = ("rocm-sdk-core", "rocm", "rocm-sdk-libraries", *DEVICES, "rocm-sdk-devel", "rocm-profiler")
# An extra of rocm, and the packages that come with it besides core.
EXTRAS = {
    "libraries": {"rocm-sdk-libraries"},
    "device-gfx1100": {"rocm-sdk-libraries", "rocm-sdk-device-gfx1100"},
    "device-gfx942": {"rocm-sdk-libraries", "rocm-sdk-device-gfx942"},
    "devel": {"rocm-sdk-libraries", "rocm-sdk-devel"},
    "profiler": {"rocm-profiler"},
}
COMBINATIONS = [
    chosen for count in range(len(EXTRAS) + 1) for chosen in itertools.combinations(EXTRAS, count)
]
both_installers = pytest.mark.parametrize("installer", ["pip", "uv"])


@pytest.fixture
def environment(newcomer, small_index, request, tmp_path_factory):
    """Makes environments for the small ROCm, below one directory with the installers' caches."""
    root = newcomer.home / request.node.name.replace("[", "-").replace("]", "")
    newcomer.run("mkdir", root)

    def make(installer, name="venv", index=None):
        return Environment(
            newcomer, root / name, installer, index or small_index, root / f"cache-{installer}"
        )

    yield make
    newcomer.run("rm", "-rf", root)


def names(environment):
    """Normalized names of what is installed."""
    return {sdk_index.project_of(name) for name in environment.records()}


def two_at_once(work, items):
    with ThreadPoolExecutor(max_workers=2) as pool:
        return [result for results in pool.map(work, items) for result in results]


@both_installers
def test_every_combination_of_extras_comes_and_goes(environment, installer):
    """Nothing is lost, changed, shared or left behind, and what there is passes its own test."""

    def work(number):
        here = environment(installer, f"venv-{number}")
        bad = []
        for chosen in COMBINATIONS[number::2]:
            said = bad_after(chosen, here)
            bad += [f"{','.join(chosen) or 'no extra'}: {what}" for what in said]
        return bad

    assert two_at_once(work, [0, 1]) == []


def bad_after(chosen, here):
    here.install(f"rocm[{','.join(chosen)}]==1.0" if chosen else "rocm==1.0")
    expected = {"rocm", "rocm-sdk-core"}.union(*(EXTRAS[extra] for extra in chosen))
    bad = [] if names(here) == expected else [f"installed {sorted(names(here))}"]
    bad += here.problems()
    bad += [f"{name}: {cause}" for name, cause in here.failed().items()]
    # The test expanded the development files.
    bad += here.problems()
    here.uninstall(*sorted(expected))
    return bad + [f"left: {path}" for path in sorted(here.present() - here.baseline)]


@pytest.mark.parametrize("order", ["forth", "back"])
@both_installers
def test_one_after_the_other(environment, installer, order):
    """A package at a time: all others stay whole, and rocm-sdk works or says what is missing."""
    here = environment(installer)
    packages = ALL if order == "forth" else ALL[::-1]
    bad = []

    def look(step):
        bad.extend(f"{step}: {what}" for what in [*here.problems(), *state_problems(here)])

    for name in packages:
        here.install("--no-deps", f"{name}==1.0")
        look(f"installed {name}")
    assert here.failed() == {}
    look("expanded")
    for name in packages:
        here.install("--no-deps", f"{name}==1.1")
        look(f"upgraded {name}")
    assert {name.rpartition("-")[2] for name in here.records()} == {"1.1"}
    assert here.failed() == {}
    look("expanded again")
    for name in packages:
        here.uninstall(name)
        look(f"uninstalled {name}")
    assert bad == []
    assert here.present() == here.baseline


def state_problems(here):
    """What commands do wrong with what is installed now; to say that a package is missing is right."""
    installed = {sdk_index.project_of(name): name.rpartition("-")[2] for name in here.records()}
    bad = []
    for command in (["rocm-sdk", "path", "--root"], ["rocm-sdk", "targets"], ["hipcc"]):
        program = here.root / "bin" / command[0]
        owner = "rocm" if command[0] == "rocm-sdk" else "rocm-sdk-core"
        if program.exists() != (owner in installed):
            bad.append(f"{command[0]} is {'there' if program.exists() else 'gone'}")
        if not program.exists():
            continue
        done = here.call(program, *command[1:])
        said = done.stderr.strip()
        helps = "install" in said or "rocm-sdk targets --detect" in said
        if "Traceback" in said or (done.returncode != 0 and not helps):
            bad.append(f"{' '.join(command)}: {done.returncode}: {said}")
    return bad


@both_installers
def test_versions_that_do_not_fit_are_named(environment, installer):
    here = environment(installer)
    here.install("rocm[libraries,device-gfx942,devel]==1.0")
    here.install("--no-deps", "rocm-sdk-libraries==1.1", "rocm-sdk-device-gfx942==1.1")
    failed = here.failed()
    assert failed["package:libraries"] == "it is version 1.1, rocm is 1.0"
    assert failed["package:device-gfx942"] == "it is version 1.1, rocm is 1.0"


@both_installers
def test_another_device_package_needs_no_new_development_files(environment, installer):
    """They are links into the libraries package: what a device package brings shows, and goes with it."""
    here = environment(installer)
    here.install("rocm[devel,device-gfx942]==1.0")
    tree = Path(here.run("rocm-sdk", "path", "--root").strip())
    made = tree.stat().st_ino

    def kernels():
        places = (tree / "lib/rocblas/library", tree / ".kpack")
        # What the host says of its build belongs to the libraries package, and stays.
        return {path.name for place in places for path in place.glob("*")} - {"rocm-1.0.json"}

    one = kernels()
    assert [name for name in one if "gfx942" in name] and not [name for name in one if "gfx1100" in name]
    here.install("rocm[device-gfx1100]==1.0")
    assert here.run("rocm-sdk", "path", "--root").strip() == str(tree)
    two = kernels()
    assert one < two
    assert [name for name in two if "gfx1100" in name]
    here.uninstall("rocm-sdk-device-gfx942")
    assert here.run("rocm-sdk", "path", "--root").strip() == str(tree)
    assert kernels() == two - one
    here.uninstall("rocm-sdk-device-gfx1100")
    assert kernels() == set()
    assert tree.stat().st_ino == made
    assert here.problems() == []
    assert here.failed() == {}


# -- selection, refusal, caches ----------------------------------------------------------------------------


@both_installers
def test_with_a_warm_cache_another_gpu_gets_its_own_device_package(environment, installer):
    for target in ("gfx942", "gfx1100", "gfx942"):
        here = environment(installer, f"venv-{target}-{os.urandom(2).hex()}")
        here.install(f"rocm[device-{target}]==1.0")
        assert here.run("rocm-sdk", "targets").split() == [target]


@pytest.fixture(scope="module")
def chosen_by_variant(small_sets, tmp_path_factory):
    """A package that stands on the small ROCm, as torch does, with variants: views for each of two GPUs."""
    place = tmp_path_factory.mktemp("variants")
    targets = [name.rpartition("-")[2] for name in DEVICES]
    pins = [f'amd-upon-device-{one}==1.0+rocm1.0 ; extra == "device-{one}"' for one in targets]
    host = {"upon/__init__.py": "import rocm_sdk\n"}
    needs = ["rocm[libraries]==1.0", *pins]
    extras = [f"device-{one}" for one in targets]
    write_wheel(place / "dist", "upon", "1.0+rocm1.0", host, tag=ANY, requires=needs, extras=extras)
    for one in targets:
        needs = ["upon==1.0+rocm1.0", f"rocm-sdk-device-{one}==1.0"]
        files = {f"upon/{one}.txt": one}
        write_wheel(place / "dist", f"amd-upon-device-{one}", "1.0+rocm1.0", files, tag=ANY, requires=needs)
    made = with_selectors([place / "dist"], place / "made", lambda _: None)
    shop = Shop(place / "shop")
    shop.record(*made, *small_sets.static.glob("*.whl"), targets=targets)
    for one in targets:
        shop.view(f"view/{one}/", one)
    with serving(shop.root) as url:
        yield url


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_a_selector_keeps_its_promise(environment, chosen_by_variant, target):
    """Nobody names a GPU, and what is installed works for the one that the view states, and no other."""
    here = environment("uv", index=sdk_index.Index({}, f"{chosen_by_variant}view/{target}/"))
    here.install("--preview-features", "wheel-variants", "upon")
    assert {name for name in names(here) if "gfx" in name} == {
        f"amd-upon-device-{target}",
        f"rocm-sdk-device-{target}",
    }
    assert here.run("rocm-sdk", "targets").split() == [target]
    here.run("python", "-c", "import upon")
    assert here.failed() == {} and here.problems() == []


@both_installers
def test_the_extra_device_refuses_and_names_the_choices(environment, installer):
    here = environment(installer)
    done = here.installing("rocm[device]==1.0")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for words in ("device-gfx1100", "device-gfx942", "device-all", "rocm-sdk targets --detect"):
        assert words in said
    assert here.present() == here.baseline


@both_installers
def test_the_static_set_installs_without_any_sdist(environment, small_sets, installer):
    with sdk_index.serving(small_sets.static) as index:
        here = environment(installer, index=index)
        here.install("--only-binary", ":all:", "rocm[libraries,devel,device-all,profiler]")
        assert names(here) == set(ALL)
        assert here.failed() == {}
        assert [path for path in index.asked if ".tar.gz" in path] == []


@both_installers
def test_nothing_but_rocm_is_ever_asked_for(environment, small_sets, installer):
    """No build dependency: the index may be closed, and no name is left for somebody else to take."""
    with sdk_index.serving(small_sets.old) as index:
        here = environment(installer, index=index)
        here.install("rocm[libraries,devel,device-all,profiler]")
        assert index.projects() == set(ALL)


# The detector with a made-up driver: a machine with one GPU of the second family.
ON_A_MACHINE = """
import sys, warnings
import rocm_sdk._detect as detect
detect.NODES = sys.argv[1]
import rocm_sdk
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rocm_sdk.initialize_process()
print("\\n".join(str(warning.message) for warning in caught))
"""


@both_installers
def test_a_cached_choice_of_a_family_is_noticed_and_mended(environment, small_sets, installer, newcomer):
    """Installers keep the wheel that they built from the sdist: a second machine gets the first one's."""
    node = newcomer.home / "driver/1"
    newcomer.run("mkdir", "-p", node)
    (node / "properties").write_text("simd_count 304\ngfx_target_version 110000\n")
    with sdk_index.serving(small_sets.legacy) as index:
        first = environment(installer, "first", index)
        first.install("rocm[libraries]", ROCM_SDK_TARGET_FAMILY="gfx94X-dcgpu")
        assert first.run("rocm-sdk", "targets").split() == ["gfx942"]
        second = environment(installer, "second", index)
        second.install("rocm[libraries]", ROCM_SDK_TARGET_FAMILY="gfx110X-all")
        # What the user asked for was not looked at: rocm's wheel came from the cache.
        assert second.run("rocm-sdk", "targets").split() == ["gfx942"]
        said = second.run("python", "-c", ON_A_MACHINE, str(node.parent))
        assert "no device code for GPU 0 (gfx1100)" in said
        line = said.partition("Install it with: ")[2].partition(" (ROCM_SDK")[0]
        assert "ROCM_SDK_TARGET_FAMILY=gfx110X-all" in line
        mend(second, line)
        assert second.run("python", "-c", ON_A_MACHINE, str(node.parent)).strip() == ""
        assert "gfx1100" in second.run("rocm-sdk", "targets").strip().split(";")
        assert second.problems() == []


def mend(here, line):
    """Run the printed line in the environment as a user does who has activated it, with pip."""
    tools = here._tool("python").parent
    script = f'pip() {{ "{tools}/python" -m pip --python "{here.root}/bin/python" "$@"; }}; {line}'
    more = {"PIP_INDEX_URL": here.index.url, "PIP_CACHE_DIR": str(here.cache), "PIP_CONFIG_FILE": os.devnull}
    done = here.call("sh", "-c", script, **more)
    assert done.returncode == 0, done.stderr


def test_an_unknown_family_names_the_right_ones(environment, small_sets):
    with sdk_index.serving(small_sets.legacy) as index:
        here = environment("uv", index=index)
        done = here.installing("rocm[libraries]", ROCM_SDK_TARGET_FAMILY="gfx9999")
        assert done.returncode != 0
        assert "gfx110X-all (gfx1100" in done.stderr
        assert "gfx94X-dcgpu (gfx942)" in done.stderr


def test_what_uv_shares_between_environments_is_never_written_to(environment):
    """Its environments are hard links to its cache: expanding and uninstalling leave that as it is."""
    here = environment("uv")
    here.install("rocm[libraries,devel,device-all,profiler]==1.0")

    def contents():
        found = {}
        for path in (here.cache / "archive-v0").rglob("*"):
            if path.is_file() and not path.is_symlink():
                found[path] = (hashlib.sha256(path.read_bytes()).hexdigest(), oct(path.stat().st_mode))
        return found

    before = contents()
    linked = next(path for path in before if path.name == "libamdhip64.so.6")
    assert linked.stat().st_ino == (here.site / "_rocm_sdk_core/lib/libamdhip64.so.6").stat().st_ino
    assert here.failed() == {}
    here.run("hipcc", "hello.hip")
    here.run("python", "-c", "import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames=['rocblas'])")
    assert contents() == before
    here.uninstall(*ALL)
    assert contents() == before
    again = environment("uv", "second")
    again.install("rocm[libraries,devel,device-all,profiler]==1.0")
    assert again.failed() == {}
    assert contents() == before
