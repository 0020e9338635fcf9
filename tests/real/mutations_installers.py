"""Ways to break what installers read: METADATA, WHEEL, requirements, sdists, and the choice among files."""

from __future__ import annotations

import io
import json
import tarfile

from real.mutations_base import LEGACY, Workbench, breaks, breaks_set
from real.wheel_edit import WheelEdit, open_wheel, rewritten

METADATA, WHEEL = "{info}/METADATA", "{info}/WHEEL"


@breaks("metadata-hidden", LEGACY, "triton", "an empty line ends the headers before Requires-Python")
def hidden_behind_an_empty_line(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Python: >=3.10", "\nRequires-Python: >=3.10")


@breaks("metadata-identity", LEGACY, "triton", "METADATA gives two versions")
def two_versions_in_metadata(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Version: 3.5.1+rocm5.2.3")


@breaks("metadata-fields", LEGACY, "triton", "METADATA is written in Latin-1")
def latin_1(wheel: WheelEdit) -> None:
    wheel.put(METADATA, wheel.read(METADATA).replace(b"Name: ", b"Maintainer: Andr\xe9\nName: ", 1))


@breaks("wheel-file", LEGACY, "triton", "WHEEL says a format that no installer knows")
def wheel_of_the_future(wheel: WheelEdit) -> None:
    wheel.substitute(WHEEL, "Wheel-Version: 1.0", "Wheel-Version: 2.0")


@breaks("wheel-purelib", LEGACY, "torch", "a wheel with libraries says that it is pure", severity="warning")
def pure_with_libraries(wheel: WheelEdit) -> None:
    wheel.substitute(WHEEL, "Root-Is-Purelib: false", "Root-Is-Purelib: true")


@breaks("installer-files", LEGACY, "triton", "a wheel was packed out of an environment")
def packed_out_of_an_environment(wheel: WheelEdit) -> None:
    wheel.put("{info}/direct_url.json", '{"url": "file:///build/triton", "dir_info": {}}')


@breaks("top-level", LEGACY, "triton", "top_level.txt names a module that is not there")
def top_level_of_nothing(wheel: WheelEdit) -> None:
    wheel.put("{info}/top_level.txt", "pytorch_triton_rocm\n")


@breaks("requirement-address", LEGACY, "torch", "a requirement takes what lies at an address")
def requirement_at_an_address(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Requires-Dist: sympy @ https://example.org/sympy-1.14-py3-none-any.whl")


@breaks("requirement-stranger", LEGACY, "torch", "torch for ROCm requires what CUDA's build needs")
def libraries_of_cuda(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, 'Requires-Dist: nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux"')


@breaks("requirement-contradiction", LEGACY, "torch", "two requirements exclude each other")
def requirements_exclude_each_other(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Requires-Dist: fsspec>=2025.1\nRequires-Dist: fsspec<2024")


@breaks("requirement-vain", LEGACY, "torch", "the pin of triton holds for no Python of the wheel")
def triton_for_no_python(wheel: WheelEdit) -> None:
    pin = "Requires-Dist: triton==3.5.0+rocm5.2.3"
    wheel.substitute(METADATA, pin, f'{pin}; python_version < "3"')


@breaks_set("sdist-build", LEGACY, "the sdist names a build backend that is not in it")
def backend_not_in_the_sdist(bench: Workbench) -> None:
    def other(data: bytes) -> bytes:
        return data.replace(b"rocm_build_backend", b"rocm_backend")

    bench.overwrite("rocm", lambda sdist: rewritten(sdist, "pyproject.toml", other))


@breaks_set("sdist-build", LEGACY, "the backend of the sdist is no Python")
def backend_cannot_be_compiled(bench: Workbench) -> None:
    bench.overwrite(
        "rocm", lambda sdist: rewritten(sdist, "rocm_build_backend.py", lambda data: data + b"def (\n")
    )


@breaks_set("sdist-folder", LEGACY, "the sdist was packed from a checkout's folder")
def folder_of_a_checkout(bench: Workbench) -> None:
    def moved(sdist: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(sdist)) as old, tarfile.open(fileobj=out, mode="w:gz") as new:
            for entry in old:
                stream = old.extractfile(entry)
                entry.name = "rocm-main/" + entry.name.partition("/")[2]
                new.addfile(entry, stream)
        return out.getvalue()

    bench.overwrite("rocm", moved)


@breaks_set("set-contradiction", LEGACY, "two wheels ask for versions of a third that exclude each other")
def wheels_exclude_each_other(bench: Workbench) -> None:
    for project, line in (("torch", "pyyaml>=6"), ("apex", "pyyaml<6")):
        with bench.edit(project) as wheel:
            wheel.add_lines(METADATA, f"Requires-Dist: {line}")


@breaks_set("set-outranked", LEGACY, "a second build of apex outranks the first")
def second_build(bench: Workbench) -> None:
    wheel = open_wheel(bench.paths["apex"])
    name, version, rest = wheel.name.split("-", 2)
    wheel.name = f"{name}-{version}-1-{rest}"
    bench.add("apex-1", wheel)


@breaks_set("set-targets", LEGACY, "the package that selects ROCm knows nothing of one requested target")
def rocm_without_a_target(bench: Workbench) -> None:
    lacking = bench.request["targets"][-1]

    def fewer(data: bytes) -> bytes:
        facts = json.loads(data)
        facts["families"] = {
            name: [target for target in targets if target != lacking]
            for name, targets in facts["families"].items()
        }
        return json.dumps(facts).encode()

    bench.overwrite("rocm", lambda sdist: rewritten(sdist, "rocm_set.json", fewer))
