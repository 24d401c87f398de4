// SPDX-License-Identifier: Apache-2.0
// Chooses between libtorch's batch norm and the synced one.
#include "lockstep/nn/batch_norm.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/functional/batchnorm.h>

#include "nn/norm/fused_norm_act.h"
#include "nn/norm/synced_batch_norm.h"

namespace lockstep::nn::detail {
double count_batch(const BatchNormCall& call) {
  const auto momentum = call.options.momentum();
  const bool tracks = call.training && call.options.track_running_stats() && call.num_batches_tracked.defined();
  if (!tracks) return momentum.value_or(0.0);
  call.num_batches_tracked += 1;
  return momentum ? *momentum : 1.0 / call.num_batches_tracked.item<double>();
}

at::Tensor batch_norm(const at::Tensor& input, const BatchNormCall& call, const std::shared_ptr<StatisticsSync>& sync) {
  const double momentum = count_batch(call);
  const bool of_batch = call.training || !call.options.track_running_stats();
  if (call.training && sync && sync->replicas() > 1) return synced_batch_norm(input, call, momentum, sync);
  return torch::nn::functional::detail::batch_norm(input, call.running_mean, call.running_var, call.weight, call.bias,
                                                   of_batch, momentum, call.options.eps());
}

void check_dimensions(const at::Tensor& input, std::size_t dimensions) {
  const auto expected = static_cast<std::int64_t>(dimensions) + 2;
  const bool fits = input.dim() == expected || (dimensions == 1 && input.dim() == 2);
  TORCH_CHECK(fits, "expected ", dimensions == 1 ? "2D or 3D" : fmt::format("{}D", expected), " input (got ",
              input.dim(), "D input)");
}

void print(std::ostream& stream, std::size_t dimensions, const torch::nn::BatchNormOptions& options) {
  const auto momentum = options.momentum();
  stream << fmt::format("lockstep::nn::BatchNorm{}d({}, eps={}, momentum={}, affine={}, track_running_stats={})",
                        dimensions, options.num_features(), options.eps(),
                        momentum ? fmt::format("{}", *momentum) : "none", options.affine(),
                        options.track_running_stats());
}

}  // namespace lockstep::nn::detail
