// Miniature of ATen's point-wise kernels: fill and alpha * x + y.
#include <cuda_runtime.h>

#include <ATen/native/cuda/Kernels.h>

namespace at::native {

__global__ void fill_kernel(float* out, float value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = value;
  }
}

__global__ void saxpy_kernel(float alpha, const float* x, const float* y, float* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = alpha * x[i] + y[i];
  }
}

static dim3 grid(int count) { return dim3(count > 0 ? (count + 255) / 256 : 1); }

cudaError_t launch_fill(float* out, float value, int count) {
  void* arguments[] = {&out, &value, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(fill_kernel), grid(count), dim3(256), arguments, 0, nullptr);
}

cudaError_t launch_saxpy(float alpha, const float* x, const float* y, float* out, int count) {
  void* arguments[] = {&alpha, &x, &y, &out, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(saxpy_kernel), grid(count), dim3(256), arguments, 0, nullptr);
}

}  // namespace at::native
