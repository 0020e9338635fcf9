// Miniature of c10/cuda/CUDAException.h: runtime errors become C++ exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include <c10/macros/Export.h>

namespace c10::cuda {

class C10_CUDA_API CUDAError : public std::runtime_error {
 public:
  explicit CUDAError(cudaError_t code);
  cudaError_t code;
};

C10_CUDA_API std::string error_name(cudaError_t code);
C10_CUDA_API void check(cudaError_t code);

}  // namespace c10::cuda

#define C10_CUDA_CHECK(EXPR) ::c10::cuda::check(EXPR)
