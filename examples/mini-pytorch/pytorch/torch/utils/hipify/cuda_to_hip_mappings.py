"""The table of names of the miniature: CUDA's on the left, HIP's on the right.

A stand-in for the real table of some 3,450 names: only what the miniature family uses.
"""

NAMES = {
    # headers
    "cuda_runtime.h": "hip/hip_runtime.h",
    "cuda_runtime_api.h": "hip/hip_runtime_api.h",
    # types and constants of the runtime
    "cudaDeviceProp": "hipDeviceProp_t",
    "cudaErrorNoDevice": "hipErrorNoDevice",
    "cudaErrorUnknown": "hipErrorUnknown",
    "cudaError_t": "hipError_t",
    "cudaMemcpyDeviceToHost": "hipMemcpyDeviceToHost",
    "cudaMemcpyHostToDevice": "hipMemcpyHostToDevice",
    "cudaStream_t": "hipStream_t",
    "cudaSuccess": "hipSuccess",
    # functions of the runtime
    "cudaDeviceSynchronize": "hipDeviceSynchronize",
    "cudaFree": "hipFree",
    "cudaGetDeviceCount": "hipGetDeviceCount",
    "cudaGetDeviceProperties": "hipGetDeviceProperties",
    "cudaGetErrorName": "hipGetErrorName",
    "cudaGetErrorString": "hipGetErrorString",
    "cudaGetLastError": "hipGetLastError",
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaMalloc": "hipMalloc",
    "cudaMemcpy": "hipMemcpy",
    # PyTorch's own names
    "C10_CUDA_API": "C10_HIP_API",
    "C10_CUDA_CHECK": "C10_HIP_CHECK",
    "CUDAError": "HIPError",
    "TORCH_CUDA_API": "TORCH_HIP_API",
    "TORCH_CUDA_ARCH_FLAGS": "TORCH_HIP_ARCH_FLAGS",
    "USE_CUDA": "USE_ROCM",
    "at::cuda": "at::hip",
    "c10::cuda": "c10::hip",
    "CUDA error": "HIP error",
}
