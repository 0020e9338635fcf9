// Miniature of c10/cuda/CUDAFunctions.h: devices, device memory, and a launch that reports its error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <c10/cuda/CUDAException.h>

namespace c10::cuda {

// 0 when the runtime sees none; never throws.
C10_CUDA_API int device_count() noexcept;
// The runtime's answer to "how many devices?": cudaErrorNoDevice where there is none.
C10_CUDA_API cudaError_t device_count_error() noexcept;
C10_CUDA_API std::string device_name(int device);
C10_CUDA_API void device_synchronize();

// Floats in device memory, freed with the object.
class C10_CUDA_API DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count);
  explicit DeviceBuffer(const std::vector<float>& values);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::vector<float> to_host() const;
  float* data() const { return data_; }
  std::size_t count() const { return count_; }

 private:
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

struct LaunchResult {
  int code = 0;
  std::string name;
  std::vector<float> values;  // empty unless the kernel ran
};

// A launch function queues one kernel: inputs and output are device pointers, count the output's length.
using Launch = cudaError_t (*)(const float* const* inputs, float* output, int count);

// Copies the inputs to the device, launches, copies the output back. Without a usable device the
// kernel is launched all the same, over zero elements, so that the error is the launch's own.
C10_CUDA_API LaunchResult launch(Launch function, const std::vector<std::vector<float>>& inputs, std::size_t count);

}  // namespace c10::cuda
