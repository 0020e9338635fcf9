"""What the wheel was built with and says of itself."""

from __future__ import annotations

import ctypes
import logging
import re
import sys
from importlib import metadata

import pytest
import torch

log = logging.getLogger(__name__)
CONFIG = torch.__config__.show()


def setting(name: str) -> str:
    found = re.search(rf"\b{name}=([^,\s]+)", CONFIG)
    return found[1] if found else ""


def test_version_is_that_of_the_installed_package():
    installed = metadata.version("torch")
    # An index may offer a wheel without the local part that torch was built with.
    assert installed in (torch.__version__, torch.__version__.partition("+")[0])
    log.info("torch %s, commit %s", torch.__version__, torch.version.git_version)


def fast(name: str) -> bool:
    """Whether the setting is OpenBLAS or MKL; only of a ROCm wheel is it asked."""
    found = setting(name)
    log.info("%s=%s", name, found)
    if found not in ("open", "mkl") and not torch.version.hip:
        pytest.skip(f"{name}={found}, and this torch is not built for ROCm")
    return found in ("open", "mkl")


def test_blas_is_a_fast_one():
    assert fast("BLAS_INFO"), "neither OpenBLAS nor MKL was found when torch was built"


def test_lapack_is_enabled():
    assert torch._C.has_lapack
    assert fast("LAPACK_INFO"), "neither OpenBLAS nor MKL was found when torch was built"


def skip_without(library: str) -> None:
    """Skip where ROCm's Python packages do not have a library: a distribution's ROCm may be without."""
    # Imported by the torch that relies on them.
    rocm_sdk = sys.modules.get("rocm_sdk")
    if rocm_sdk is None:
        return
    try:
        rocm_sdk.find_libraries(library)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(not torch.version.hip, reason="this torch is not built for ROCm")
@pytest.mark.skipif(sys.platform != "linux", reason="symbols are shared by the whole process on Linux only")
@pytest.mark.parametrize(
    ("library", "symbol"),
    [("amd_smi", "amdsmi_init"), ("amdhip64", "hipGetDeviceCount"), ("hipblas", "hipblasCreate")],
)
def test_rocm_symbols_are_found_once_torch_is_imported(library, symbol):
    if library == "amd_smi":
        skip_without(library)
    # Extensions that are loaded later rely on them without naming the libraries.
    assert hasattr(ctypes.CDLL(None), symbol), f"{symbol} of {library} is not visible in this process"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
        ("chalf", "complex32"),
        ("cfloat", "complex64"),
        ("cdouble", "complex128"),
        ("short", "int16"),
        ("int", "int32"),
        ("long", "int64"),
    ],
)
def test_data_types_have_their_other_names(alias, name):
    assert getattr(torch, alias) is getattr(torch, name)
