"""Builds the miniature `torchaudio` wheel: a stand-in, not torchaudio.

Environment: BUILD_VERSION with BUILD_NUMBER, USE_ROCM (unset: as the installed torch), ROCM_HOME,
PYTORCH_ROCM_ARCH, PYTORCH_VERSION (the torch that the wheel asks for, the installed one by default).
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
USE_ROCM = _mini_build.flag(os.environ, "USE_ROCM", default=torch.version.hip is not None)

sources = ["torchaudio/csrc/module.cpp"]
if USE_ROCM:
    extension = CUDAExtension("torchaudio._torchaudio", [*sources, "torchaudio/csrc/cuda/preemphasis.cu"])
else:
    extension = CppExtension("torchaudio._torchaudio", sources)
print(f"miniature torchaudio {VERSION}, USE_ROCM={int(USE_ROCM)}", file=sys.stderr)

setup(
    name="torchaudio",
    version=VERSION,
    description="Miniature stand-in for torchaudio, for demonstrations of rocwright; not torchaudio",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=["torchaudio", "torchaudio.functional"],
    install_requires=[f"torch=={os.environ.get('PYTORCH_VERSION') or torch.__version__}"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    zip_safe=False,
)
