// Miniature of a matrix product: one 16 x 16 tile of the result per block, tiles staged in shared memory.
#include <cuda_runtime.h>

#include <ATen/native/cuda/Kernels.h>

namespace at::native {

constexpr int kTile = 16;

__global__ void mm_kernel(const float* a, const float* b, float* out, int m, int k, int n) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  int row = blockIdx.y * kTile + threadIdx.y;
  int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0F;
  for (int start = 0; start < k; start += kTile) {
    int a_column = start + threadIdx.x;
    int b_row = start + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < m && a_column < k ? a[row * k + a_column] : 0.0F;
    b_tile[threadIdx.y][threadIdx.x] = b_row < k && column < n ? b[b_row * n + column] : 0.0F;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < m && column < n) {
    out[row * n + column] = sum;
  }
}

cudaError_t launch_mm(const float* a, const float* b, float* out, int m, int k, int n) {
  dim3 grid(n > 0 ? (n + kTile - 1) / kTile : 1, m > 0 ? (m + kTile - 1) / kTile : 1);
  void* arguments[] = {&a, &b, &out, &m, &k, &n};
  return cudaLaunchKernel(reinterpret_cast<const void*>(mm_kernel), grid, dim3(kTile, kTile), arguments, 0, nullptr);
}

}  // namespace at::native
