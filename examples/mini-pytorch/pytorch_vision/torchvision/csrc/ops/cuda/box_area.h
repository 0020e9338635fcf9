#pragma once

#include <cuda_runtime_api.h>

namespace torchvision {

// Four floats in, one area out per box; a c10::cuda::Launch.
cudaError_t launch_box_area(const float* const* inputs, float* output, int count);

}  // namespace torchvision
