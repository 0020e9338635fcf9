// Miniature of ATen's CPU kernels: the reference results for the device kernels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <c10/macros/Export.h>

namespace at::native {

// alpha * x + y, element by element; throws std::invalid_argument on different lengths.
TORCH_API std::vector<float> saxpy_cpu(float alpha, const std::vector<float>& x, const std::vector<float>& y);
// (m, k) times (k, n), row major.
TORCH_API std::vector<float> mm_cpu(const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
                                    std::size_t k, std::size_t n);
// "amd" when the submodule minifmt was prepared for ROCm, otherwise "none".
TORCH_API std::string third_party_platform();

}  // namespace at::native
