// SPDX-License-Identifier: Apache-2.0
// Shared by the exports to TorchScript and ONNX: the state in which a network is traced, its description, and the
// comparison of the traced graph with the network.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/csrc/jit/api/module.h>

#include <locale>
#include <string>
#include <vector>

#include "lockstep/nn/plain_operators.h"
#include "lockstep/nn/torchscript.h"

namespace lockstep::nn {

/// While this object lives, a network can be traced on this thread: without gradients, with libtorch's own operators,
/// and with numbers written independently of the locale. Throws: UsageError for a network in training mode.
class Tracing {
 public:
  explicit Tracing(torch::nn::Module& model);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  const at::NoGradGuard no_grad_;
  const PlainOperators plain_;
  const std::locale before_;
  std::vector<at::Tensor> frozen_;
};

/// Returns network.json: {"inputs": [{"name": "images", "shape": [null, 3, 320, 320], "dtype": "float32"}], ...}.
[[nodiscard]] std::string describe(const NetworkFunction& function, const std::vector<at::Tensor>& arguments,
                                   const std::vector<at::Tensor>& results);

/// Compares a module with the function, for batch sizes other than the traced ones. Throws: UsageError.
void require_same_results(torch::jit::Module& module, const NetworkFunction& function);

}  // namespace lockstep::nn
