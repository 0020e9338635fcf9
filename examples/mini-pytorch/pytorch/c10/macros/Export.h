// Miniature of c10/macros/Export.h: the libraries are built with hidden visibility.
#pragma once

#define C10_API __attribute__((visibility("default")))
#define TORCH_API C10_API
#define C10_CUDA_API C10_API
#define C10_HIP_API C10_API
#define TORCH_CUDA_API C10_API
#define TORCH_HIP_API C10_API
