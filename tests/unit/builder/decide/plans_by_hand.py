"""Inputs of plans, and what the build description says comes out of them: all written by hand."""

from __future__ import annotations

from rocwright.builder.decide.family import FamilyPlan, plan_family
from rocwright.builder.decide.plan import BuildPlan, BuildRequest
from rocwright.builder.decide.recipe import recipes
from rocwright.builder.decide.tree import SourceFacts
from rocwright.builder.rocm.rocm import Rocm

LINUX = Rocm(
    version="7.10.0",
    root="/sdk",
    bin="/sdk/bin",
    cmake="/sdk/lib/cmake",
    device_libraries="/sdk/lib/llvm/amdgcn/bitcode",
    host_math="/sdk/lib/host-math",
    sysdeps="/sdk/lib/rocm_sysdeps",
    roctracer_include="/sdk/include/roctracer",
    libraries=("amdhip64", "amd_comgr", "hipblas", "rocm-openblas"),
)
WINDOWS = Rocm(
    version="7.10.0",
    root=r"C:\sdk",
    bin=r"C:\sdk\bin",
    cmake=r"C:\sdk\lib\cmake",
    device_libraries=r"C:\sdk\lib\llvm\amdgcn\bitcode",
    host_math=r"C:\sdk\lib\host-math",
    libraries=("amdhip64", "amd_comgr", "hipblas", "rocm-openblas"),
)
ROCM = {"linux": LINUX, "windows": WINDOWS}
CALLER = {
    "linux": {"PATH": "/usr/bin", "HOME": "/home/x"},
    "windows": {
        "PATH": r"C:\Windows\System32",
        "VCToolsRedistDir": "C:\\VS\\Redist\\MSVC\\14.44\\",
        "libuv_ROOT": r"C:\libuv",
    },
}
COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"


def tree(name: str, version: str = "", **more: object) -> SourceFacts:
    values: dict[str, object] = {"commit": COMMIT, "source_date": 1_760_616_000, **more}
    return SourceFacts(directory=name, version=version, **values)


def trees(folder: str) -> dict[str, SourceFacts]:
    """The checkouts of a family below `folder`, which ends with the platform's separator."""
    return {
        "triton": tree(
            f"{folder}triton",
            setup="python",
            build_env={"TRITON_WHEEL_VERSION_SUFFIX": ""},
            requirements_files=("python/requirements.txt",),
            llvm_hash="8957e64a",
        ),
        "torch": tree(
            f"{folder}pytorch",
            "2.9.0",
            requires=("setuptools>=70.1.0,<80.11", "wheel", "cmake>=3.27", "ninja", "numpy"),
            requirements_files=("requirements.txt", "requirements-build.txt"),
            cmake=True,
        ),
        "torchaudio": tree(f"{folder}audio", "2.9.0"),
        "torchvision": tree(f"{folder}vision", "0.24.0"),
        "apex": tree(f"{folder}apex", "1.9.0"),
    }


FOLDER = {"linux": "/b/", "windows": "C:\\b\\"}


def family(platform: str = "linux", **changes: object) -> FamilyPlan:
    """The plan of the whole family; `changes` go to what is wanted, or to the plan's other inputs."""
    inputs = {
        "rocm": ROCM[platform],
        "trees": trees(FOLDER[platform]),
        "caller": CALLER[platform],
        "cores": 3,
        "table": recipes(),
        "launchers": {},
        "include": (),
    }
    for name in list(changes):
        if name in inputs:
            inputs[name] = changes.pop(name)
    inputs["jobs"] = inputs.pop("cores")
    known: dict[str, SourceFacts] = inputs["trees"]
    wanted = BuildRequest(
        **{
            "sources": {project: facts.directory for project, facts in known.items()},
            "platform": platform,
            "targets": ("gfx90a", "gfx942"),
            "pythons": ("3.12",),
            "build": {"triton": True} if "triton" in known else {},
            **changes,
        }
    )
    return plan_family(wanted, inputs.pop("rocm"), inputs.pop("table"), inputs.pop("trees"), **inputs)


def one(project: str, platform: str = "linux", **changes: object) -> BuildPlan:
    """The plan of one project in that family, for the first Python."""
    return next(plan for plan in family(platform, **changes).builds if plan.project == project)
