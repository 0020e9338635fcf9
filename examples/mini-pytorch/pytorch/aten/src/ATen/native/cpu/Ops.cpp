#include <ATen/native/cpu/Ops.h>

#include <stdexcept>

#include <minifmt/format.h>
#include <minifmt/platform.h>

namespace at::native {

std::vector<float> saxpy_cpu(float alpha, const std::vector<float>& x, const std::vector<float>& y) {
  if (x.size() != y.size()) {
    throw std::invalid_argument(minifmt::format("the operands have {} and {} elements", x.size(), y.size()));
  }
  std::vector<float> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = alpha * x[i] + y[i];
  }
  return out;
}

std::vector<float> mm_cpu(const std::vector<float>& a, const std::vector<float>& b, std::size_t m, std::size_t k,
                          std::size_t n) {
  if (a.size() != m * k || b.size() != k * n) {
    throw std::invalid_argument(minifmt::format("cannot multiply {} by {} elements as ({}, {}) x ({}, {})", a.size(),
                                                b.size(), m, k, k, n));
  }
  std::vector<float> out(m * n, 0.0F);
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t inner = 0; inner < k; ++inner) {
      for (std::size_t column = 0; column < n; ++column) {
        out[row * n + column] += a[row * k + inner] * b[inner * n + column];
      }
    }
  }
  return out;
}

std::string third_party_platform() { return MINIFMT_PLATFORM; }

}  // namespace at::native
