"""Builds the miniature `apex` wheel: a stand-in, not apex.

Environment: BUILD_VERSION with BUILD_NUMBER, APEX_CPP_EXT=1, APEX_CUDA_EXT=1, ROCM_HOME, PYTORCH_ROCM_ARCH.
The options --cpp_ext and --cuda_ext do the same as the two switches.
"""

import os
import sys
from pathlib import Path

import torch
from setuptools import setup
from torch.utils import _mini_build
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

HERE = Path(__file__).resolve().parent
VERSION = _mini_build.wheel_version(os.environ, HERE)


def wanted(option, variable):
    """True when the option is given (it is taken off: setuptools does not know it) or the variable is on."""
    given = option in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != option]
    return given or _mini_build.flag(os.environ, variable)


cpp_ext = wanted("--cpp_ext", "APEX_CPP_EXT")
cuda_ext = wanted("--cuda_ext", "APEX_CUDA_EXT")
extensions = []
if cuda_ext:
    extensions.append(CUDAExtension("amp_C", ["csrc/amp_C.cpp", "csrc/cuda/multi_tensor_scale.cu"]))
elif cpp_ext:
    extensions.append(CppExtension("amp_C", ["csrc/amp_C.cpp"]))
print(f"miniature apex {VERSION}, cpp_ext: {cpp_ext}, cuda_ext: {cuda_ext}", file=sys.stderr)

setup(
    name="apex",
    version=VERSION,
    description="Miniature stand-in for apex, for tests and demonstrations of rocwright; not apex",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=["apex"],
    install_requires=[f"torch=={torch.__version__}"],
    ext_modules=extensions,
    cmdclass={"build_ext": BuildExtension},
    zip_safe=False,
)
