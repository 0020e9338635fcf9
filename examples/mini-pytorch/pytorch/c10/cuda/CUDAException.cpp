#include <c10/cuda/CUDAException.h>

#include <minifmt/format.h>

namespace c10::cuda {

std::string error_name(cudaError_t code) {
  const char* name = cudaGetErrorName(code);
  return name == nullptr ? "cudaErrorUnknown" : name;
}

CUDAError::CUDAError(cudaError_t code)
    : std::runtime_error(minifmt::format("CUDA error: {} ({}): {}", error_name(code), static_cast<int>(code),
                                         cudaGetErrorString(code))),
      code(code) {}

void check(cudaError_t code) {
  if (code != cudaSuccess) {
    // Errors are sticky per thread: read it, so that the next call does not report this one again.
    (void)cudaGetLastError();
    throw CUDAError(code);
  }
}

}  // namespace c10::cuda
