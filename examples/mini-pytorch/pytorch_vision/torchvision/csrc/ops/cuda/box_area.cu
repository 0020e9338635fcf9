// Miniature: areas of boxes as a kernel, launched with the triple angle brackets.
#include <cuda_runtime.h>

#include <torchvision/csrc/ops/cuda/box_area.h>

namespace torchvision {

__global__ void box_area_kernel(const float* boxes, float* areas, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    const float* box = boxes + 4 * i;
    areas[i] = (box[2] - box[0]) * (box[3] - box[1]);
  }
}

cudaError_t launch_box_area(const float* const* inputs, float* output, int count) {
  box_area_kernel<<<count / 256 + 1, 256>>>(inputs[0], output, count);
  return cudaGetLastError();
}

}  // namespace torchvision
