// Miniature of ATen/cuda/CUDAContext.h: what this build was compiled for.
#pragma once

#include <c10/macros/Export.h>

namespace at::cuda {

// The GPU targets of the build, separated by blanks, as PYTORCH_ROCM_ARCH named them.
TORCH_CUDA_API const char* arch_flags();

}  // namespace at::cuda
