// Miniature of ATen's device kernels: the host functions that launch them.
#pragma once

#include <cuda_runtime_api.h>

#include <c10/macros/Export.h>

namespace at::native {

// Each returns the launch's own error and does not wait for the kernel.
TORCH_CUDA_API cudaError_t launch_fill(float* out, float value, int count);
TORCH_CUDA_API cudaError_t launch_saxpy(float alpha, const float* x, const float* y, float* out, int count);
TORCH_CUDA_API cudaError_t launch_mm(const float* a, const float* b, float* out, int m, int k, int n);

}  // namespace at::native
