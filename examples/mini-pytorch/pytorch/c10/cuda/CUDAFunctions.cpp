#include <c10/cuda/CUDAFunctions.h>

#include <memory>

namespace c10::cuda {

cudaError_t device_count_error() noexcept {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  return code;
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::string device_name(int device) {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }

DeviceBuffer::DeviceBuffer(std::size_t count) : count_(count) {
  C10_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), (count == 0 ? 1 : count) * sizeof(float)));
}

DeviceBuffer::DeviceBuffer(const std::vector<float>& values) : DeviceBuffer(values.size()) {
  C10_CUDA_CHECK(cudaMemcpy(data_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}

DeviceBuffer::~DeviceBuffer() { (void)cudaFree(data_); }

std::vector<float> DeviceBuffer::to_host() const {
  std::vector<float> values(count_);
  C10_CUDA_CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

LaunchResult launch(Launch function, const std::vector<std::vector<float>>& inputs, std::size_t count) {
  std::vector<const float*> pointers(inputs.size(), nullptr);
  if (device_count() == 0) {
    cudaError_t code = function(pointers.data(), nullptr, 0);
    (void)cudaGetLastError();
    return {static_cast<int>(code), error_name(code), {}};
  }
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    buffers.push_back(std::make_unique<DeviceBuffer>(inputs[i]));
    pointers[i] = buffers.back()->data();
  }
  DeviceBuffer output(count);
  cudaError_t code = function(pointers.data(), output.data(), static_cast<int>(count));
  if (code == cudaSuccess) {
    code = cudaDeviceSynchronize();
  }
  LaunchResult result{static_cast<int>(code), error_name(code), {}};
  if (code == cudaSuccess) {
    result.values = output.to_host();
  }
  (void)cudaGetLastError();
  return result;
}

}  // namespace c10::cuda
