// Miniature of torch/csrc/cuda/Module.h.
#pragma once

#include <torch/csrc/python_values.h>

namespace torch::cuda {

PyMethodDef* module_methods();

}  // namespace torch::cuda
