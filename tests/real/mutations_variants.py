"""Ways to break wheel variants: selectors of a split torch, and what is stated beside them."""

from __future__ import annotations

import json
from pathlib import Path

from real.mutations_base import KPACK, Workbench, breaks_set
from wheels import AMD, variants, write_variant, write_wheel

SELECTOR, TAG = "amd-torch-device", "py3-none-linux_x86_64"
_FOREIGN = {"requires": ["lynx-provider"]}


def gpu(*targets: str) -> dict[str, object]:
    return {"amd": {"gfx_arch": list(targets)}}


class Selectors:
    """Good selectors on a workbench: one for each target, a plain one, and what states them."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.version = bench.paths["torch"].name.split("-")[1]
        self.targets = tuple(bench.request["targets"])
        for target in self.targets:
            self.write(target, gpu(target), target)
        self.plain()
        self.state({target: gpu(target) for target in self.targets})

    def write(self, label: str, properties: dict[str, object], *required: str, **options: object) -> None:
        """A variant that requires the device packages of these targets."""
        needs = [f"amd-torch-device-{target}=={self.version}" for target in required]
        folder = self.bench.scratch / "selectors"
        path = write_variant(
            folder, SELECTOR, self.version, label, properties, tag=TAG, requires=needs, **options
        )
        self.bench.paths[f"selector {label}"] = path

    def plain(self, **files: str) -> None:
        folder = self.bench.scratch / "selectors"
        self.bench.paths["selector"] = write_wheel(folder, SELECTOR, self.version, files, tag=TAG)

    def state(self, stated: dict[str, object], **providers: object) -> None:
        self.put(json.dumps(variants(stated, **providers)))

    def put(self, text: str) -> None:
        """What lies beside the wheels."""
        path: Path = self.bench.scratch / f"amd_torch_device-{self.version}-variants.json"
        path.write_text(text)
        if path not in self.bench.places:
            self.bench.places.append(path)


@breaks_set("variant-label", KPACK, "a wheel has the label of a variant in its name, and states none")
def label_without_statement(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("gfx906", gpu("gfx906"), "gfx906", stated=None)


@breaks_set("variant-label", KPACK, "a variant states another label than its name")
def statement_of_another_label(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("gfx906", {}, "gfx906", stated=variants({"gfx90a": gpu("gfx906")}))


@breaks_set("variant-label", KPACK, "what a variant states of itself is cut off")
def statement_cut_off(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("gfx906", {}, "gfx906", stated='{"variants": {"gfx906"')


@breaks_set("variant-hash", KPACK, "the computed label of a variant is that of other properties")
def label_of_other_properties(bench: Workbench) -> None:
    chosen = Selectors(bench)
    bench.drop("selector gfx906")
    chosen.write("0badc0de", gpu("gfx906"), "gfx906")
    chosen.state({**{one: gpu(one) for one in chosen.targets if one != "gfx906"}, "0badc0de": gpu("gfx906")})


@breaks_set(
    "variant-namespace", KPACK, "nobody can tell of a machine what a variant asks for", severity="warning"
)
def unknown_namespace(bench: Workbench) -> None:
    chosen = Selectors(bench)
    both = {**gpu("gfx906"), "lynx": {"claws": ["sharp"]}}
    by = {"amd": AMD, "lynx": _FOREIGN}
    chosen.write("sharp", both, "gfx906", providers=by)
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "sharp": both}, **by)


@breaks_set("variant-content", KPACK, "a selector requires the device package of another GPU, too")
def selector_of_another_gpu(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("gfx906", gpu("gfx906"), "gfx906", "gfx1030")


@breaks_set("variant-content", KPACK, "the null variant brings every machine a device package")
def null_with_device_package(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("null", {}, "gfx906")
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "null": {}})


@breaks_set("variant-static", KPACK, "a variant says of every machine that it has a GPU of another variant")
def vouched_for_another(bench: Workbench) -> None:
    chosen = Selectors(bench)
    told = {"static-properties": {"gfx_arch": ["gfx906", "gfx1030"]}}
    chosen.write("gfx906", gpu("gfx906"), "gfx906", providers={"amd": told})


@breaks_set("variant-ranks", KPACK, "two variants are for the same GPU")
def two_of_one_rank(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("old", gpu("gfx906"), "gfx906")
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "old": gpu("gfx906")})


@breaks_set("variant-order", KPACK, "the variants of a version put namespaces in different orders")
def other_priorities(bench: Workbench) -> None:
    chosen = Selectors(bench)
    both = {**gpu("gfx906"), "x86_64": {"level": ["v3"]}}
    level = {"requires": ["x86-provider"]}
    chosen.write("fast", both, "gfx906", providers={"x86_64": level, "amd": AMD})
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "fast": both}, x86_64=level, amd=AMD)


@breaks_set("variant-order", KPACK, "the variants of a version name different providers")
def other_provider(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.write("gfx906", gpu("gfx906"), "gfx906", providers={"amd": _FOREIGN})


@breaks_set("variant-fallback", KPACK, "beside variants there is no wheel that pip would take")
def variants_alone(bench: Workbench) -> None:
    Selectors(bench)
    bench.drop("selector")


@breaks_set("variants-json", KPACK, "what states the variants of a version is damaged")
def statements_damaged(bench: Workbench) -> None:
    Selectors(bench).put('{"variants": ')


@breaks_set("variants-json", KPACK, "what states the variants of a version names another GPU than the wheel")
def statement_of_another_gpu(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "gfx906": gpu("gfx908")})


@breaks_set("variants-json", KPACK, "what states the variants of a version leaves one out")
def variant_not_stated(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.state({one: gpu(one) for one in chosen.targets if one != "gfx906"})


@breaks_set("variants-vain", KPACK, "a variant is stated of which there is no wheel")
def stated_in_vain(bench: Workbench) -> None:
    chosen = Selectors(bench)
    chosen.state({**{one: gpu(one) for one in chosen.targets}, "gfx908": gpu("gfx908")})


@breaks_set("variants-static", KPACK, "an index says of every machine which GPU it has")
def static_properties_published(bench: Workbench) -> None:
    chosen = Selectors(bench)
    stated = {one: gpu(one) for one in chosen.targets}
    chosen.state(stated, amd={"static-properties": {"gfx_arch": ["gfx906"]}})
