#include <ATen/cuda/CUDAContext.h>

namespace at::cuda {

// As in the real project, the host library carries the target list: builds for different targets
// differ in this string as well as in device code.
const char* arch_flags() { return TORCH_CUDA_ARCH_FLAGS; }

}  // namespace at::cuda
