// Miniature: the pre-emphasis filter as a kernel, launched with the triple angle brackets.
#include <cuda_runtime.h>

#include <torchaudio/csrc/cuda/preemphasis.h>

namespace torchaudio {

__global__ void preemphasis_kernel(const float* x, float coefficient, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    y[i] = i == 0 ? x[i] : x[i] - coefficient * x[i - 1];
  }
}

cudaError_t launch_preemphasis(const float* const* inputs, float* output, int count) {
  preemphasis_kernel<<<count / 256 + 1, 256>>>(inputs[0], 0.5F, output, count);
  return cudaGetLastError();
}

}  // namespace torchaudio
