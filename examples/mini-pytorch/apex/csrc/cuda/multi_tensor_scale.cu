// Miniature: scaling as a kernel, launched with the triple angle brackets.
#include <cuda_runtime.h>

#include <csrc/cuda/multi_tensor_scale.h>

namespace apex {

__global__ void multi_tensor_scale_kernel(const float* values, float scale, float* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = values[i] * scale;
  }
}

cudaError_t launch_multi_tensor_scale(const float* const* inputs, float* output, int count) {
  multi_tensor_scale_kernel<<<count / 256 + 1, 256>>>(inputs[0], 0.25F, output, count);
  return cudaGetLastError();
}

}  // namespace apex
