"""Builds the miniature `torchvision` wheel: a stand-in, not torchvision.

Environment: BUILD_VERSION with BUILD_NUMBER, FORCE_CUDA=1 (device code also without a GPU), ROCM_HOME,
PYTORCH_ROCM_ARCH, PYTORCH_VERSION (the torch that the wheel asks for, the installed one by default).
VERSION_NAME and the TORCHVISION_USE_* switches of the real build have nothing to act on.
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
USE_ROCM = _mini_build.flag(os.environ, "FORCE_CUDA") or torch.cuda.is_available()

sources = ["torchvision/csrc/module.cpp"]
if USE_ROCM:
    extension = CUDAExtension("torchvision._C", [*sources, "torchvision/csrc/ops/cuda/box_area.cu"])
else:
    extension = CppExtension("torchvision._C", sources)
print(f"miniature torchvision {VERSION}, device code: {'yes' if USE_ROCM else 'no'}", file=sys.stderr)

setup(
    name="torchvision",
    version=VERSION,
    description="Miniature stand-in for torchvision, for demonstrations of rocwright; not torchvision",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=["torchvision"],
    install_requires=[f"torch=={os.environ.get('PYTORCH_VERSION') or torch.__version__}"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    zip_safe=False,
)
