"""Answers made by hand: a torch with ROCm 7.1 on an MI300X on which everything works but what is changed."""

from __future__ import annotations

import msgspec

from rocwright.compat.probe.values import (
    ANSWERS_SCHEMA,
    Answers,
    Exercised,
    Imported,
    ProbedDevice,
    ProbeTable,
    Step,
    TorchAbout,
)
from rocwright.data import load_table

TABLE = load_table("probe", ProbeTable)
LIB = "/venv/lib/python3.12/site-packages/_rocm_sdk_libraries/lib"
# Names as in a process that imported a ROCm wheel of torch.
MAPPED = (
    f"{LIB}/libhipblas.so.3",
    f"{LIB}/libhipfft.so.0",
    f"{LIB}/libhiprand.so.1",
    f"{LIB}/libhipsolver.so.1",
    f"{LIB}/libhipsparse.so.4",
    f"{LIB}/libMIOpen.so.1",
    f"{LIB}/librccl.so.1",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
)
GPU = ProbedDevice(0, "AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 206_000_000_000)
KERNELS = [
    "void rocprim::ROCPRIM_400000_NS::detail::radix_sort_onesweep_kernel<long>",
    "Cijk_Ailk_Bljk_SB_MT64x64x16",
]


def exercised(name: str, **more: object) -> Exercised:
    """An exercise that worked, or as it is told."""
    return msgspec.structs.replace(Exercised(name, "done", (Step("all"),)), **more)


def answers(*changed: Exercised, hip: str = "7.1.0", cuda: str = "", device: str = "cuda") -> Answers:
    """Everything worked but what is changed."""
    needs = {kind.name: kind.needs for kind in TABLE.kind}
    done = {
        f"dtype:{row.name}": exercised(
            f"dtype:{row.name}", steps=tuple(Step(name) for name in needs[row.kind])
        )
        for row in TABLE.dtype
    }
    done |= {f"call:{row.name}": exercised(f"call:{row.name}") for row in TABLE.exercise}
    scans = (Step("sort"), Step("kernels", value=KERNELS))
    done["call:scans"] = exercised("call:scans", steps=scans)
    done["call:blaslt"] = exercised("call:blaslt", mapped=(f"{LIB}/libhipblaslt.so.1",))
    done |= {one.id: one for one in changed}
    return Answers(
        schema=ANSWERS_SCHEMA,
        python="3.12.1",
        executable="/venv/bin/python",
        platform="linux-x86_64",
        asked="auto",
        imported=Imported("ok"),
        torch=TorchAbout("2.9.0+rocm7.1.0", hip=hip, cuda=cuda, devices=(GPU,) if device == "cuda" else ()),
        device=device,
        device_problem="" if device == "cuda" else "RuntimeError: No HIP GPUs are available",
        mapped=MAPPED if hip else (),
        exercises=tuple(done.values()),
        complete=True,
    )
