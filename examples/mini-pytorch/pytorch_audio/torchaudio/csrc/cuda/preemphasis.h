#pragma once

#include <cuda_runtime_api.h>

namespace torchaudio {

// y[i] = x[i] - 0.5 * x[i - 1]; a c10::cuda::Launch.
cudaError_t launch_preemphasis(const float* const* inputs, float* output, int count);

}  // namespace torchaudio
