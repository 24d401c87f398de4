// SPDX-License-Identifier: Apache-2.0
// Chooses between libtorch's batch norm and the synced batch norm.
#include "lockstep/nn/batch_norm.h"
#include "lockstep/base/text.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/batchnorm.h>

#include <memory>

#include "lockstep/base/error.h"
#include "nn/norm/fused_norm_act.h"

namespace lockstep::nn::detail {
namespace {

// Forward and backward of batch norm in training over the batches of several replicas, with libtorch's fast kernels.

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Mean and biased variance of each channel, in the type of statistics (float32 for 16-bit inputs).
struct Statistics {
  at::Tensor mean;
  at::Tensor var;
};

/// Keeps a StatisticsSync in the autograd graph.
struct SyncHolder : torch::CustomClassHolder {
  explicit SyncHolder(std::shared_ptr<StatisticsSync> held) : sync(std::move(held)) {}
  std::shared_ptr<StatisticsSync> sync;
};

at::TensorOptions statistics_options(const at::Tensor& input) {
  const bool is_double = input.scalar_type() == at::kDouble;
  return input.options().dtype(is_double ? at::kDouble : at::kFloat).memory_format(c10::nullopt);
}

/// Returns the values in one of libtorch's two dense layouts, which its fast kernels need.
at::Tensor dense(const at::Tensor& values) { return values.contiguous(values.suggest_memory_format()); }

double values_per_channel(const at::Tensor& input) {
  return input.size(1) == 0 ? 0.0 : static_cast<double>(input.numel() / input.size(1));
}

Statistics local_statistics(const at::Tensor& input) {
  const auto options = statistics_options(input);
  const std::int64_t channels = input.size(1);
  // The kernel takes the type of its result from running statistics, so it is passed some that are discarded.
  const at::Tensor unused_mean = at::zeros({channels}, options);
  const at::Tensor unused_var = at::zeros({channels}, options);
  if (input.numel() == 0) return {unused_mean, unused_var};
  auto [mean, var] = at::batch_norm_update_stats(input, unused_mean, unused_var, /*momentum=*/0.0);
  return {mean, var};
}

/// Statistics over all replicas, in float64, on the input's device.
struct Combined {
  at::Tensor count;  ///< values per channel, over all replicas
  at::Tensor mean;
  at::Tensor var;
};

/// Throws if all replicas have fewer than two values. Does not wait for the device if this replica alone has two.
void require_two_values(const at::Tensor& total, double own, int replicas) {
  if (!total.is_cpu() && own >= 2) return;
  const auto values = total.item<double>();
  if (values >= 2) return;
  throw UsageError(fmt::format("synced batch norm got only {} per channel from all {} replicas",
                               text::counted(std::llround(values), "value"), replicas),
                   "a variance needs at least 2: use larger batches");
}

Combined combine(const Statistics& local, double count, StatisticsSync& sync) {
  const at::Tensor mean = local.mean.to(at::kDouble);
  const at::Tensor var = local.var.to(at::kDouble);
  const std::int64_t channels = mean.numel();
  const at::Tensor sums = at::cat({at::full({1}, count, mean.options()), mean * count, (var + mean * mean) * count});
  sync.all_reduce(sums);
  const at::Tensor total = sums[0];
  require_two_values(total, count, sync.replicas());
  const at::Tensor all_mean = sums.narrow(0, 1, channels) / total;
  const at::Tensor square_mean = sums.narrow(0, 1 + channels, channels) / total;
  return {.count = total, .mean = all_mean, .var = (square_mean - all_mean * all_mean).clamp_min(0)};
}

/// A channel whose statistics are not finite (an overflow, in a step that the loss scaler skips) keeps its running
/// statistics, which would otherwise never become finite again.
void update_running(const BatchNormCall& call, const Combined& all, double momentum) {
  if (!call.running_mean.defined()) return;
  const auto dtype = call.running_mean.scalar_type();
  const at::Tensor finite = at::isfinite(all.mean).logical_and(at::isfinite(all.var));
  const auto update = [&](const at::Tensor& running, const at::Tensor& found) {
    const at::Tensor next = running.mul(1 - momentum).add(found.to(dtype), momentum);
    running.copy_(at::where(finite, next, running));
  };
  update(call.running_mean, all.mean);
  update(call.running_var, all.var * (all.count / (all.count - 1)));
}

at::Tensor normalize(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     const Statistics& statistics, double eps) {
  if (input.numel() == 0) return at::empty_like(input);
  return std::get<0>(
      at::native_batch_norm(input, weight, bias, statistics.mean, statistics.var, /*training=*/false, 0.0, eps));
}

/// Returns values * scale + shift, by channel.
at::Tensor affine(const at::Tensor& values, const at::Tensor& scale, const at::Tensor& shift) {
  return normalize(values, scale, shift, {at::zeros_like(scale), at::ones_like(scale)}, /*eps=*/0.0);
}

/// Returns this replica's sums over dy * normalised x, and over dy.
std::pair<at::Tensor, at::Tensor> gradient_sums(const at::Tensor& grad, const at::Tensor& input,
                                                const Statistics& statistics, double eps) {
  if (input.numel() == 0) return {at::zeros_like(statistics.mean), at::zeros_like(statistics.mean)};
  const auto [none, weight_grad, bias_grad] =
      at::native_batch_norm_backward(grad, input, at::ones_like(statistics.mean), statistics.mean, statistics.var, {},
                                     {}, /*train=*/false, eps, {false, true, true});
  return {weight_grad, bias_grad};
}

/// The tensors that backward needs besides the gradient.
struct Saved {
  at::Tensor input;
  at::Tensor weight;  ///< may be undefined
  Statistics statistics;
  double eps;
  at::Tensor count;
};

/// Computes dx = w / s * (dy - mean(dy) - x^ * mean(dy * x^)) with x^ = (x - m) / s, in the form a * dy + (b * x + c).
at::Tensor input_gradient(const at::Tensor& grad, const Saved& saved, const at::Tensor& mean_of_grad_times_x,
                          const at::Tensor& mean_of_grad) {
  const at::Tensor inverse = (saved.statistics.var.to(at::kDouble) + saved.eps).rsqrt();
  const at::Tensor a = saved.weight.defined() ? inverse * saved.weight.to(at::kDouble) : inverse;
  const at::Tensor b = -a * inverse * mean_of_grad_times_x;
  const at::Tensor c = -a * mean_of_grad - b * saved.statistics.mean.to(at::kDouble);
  const auto dtype = saved.statistics.mean.scalar_type();
  at::Tensor result = affine(grad, a.to(dtype), at::zeros_like(saved.statistics.mean));
  return result.add_(affine(saved.input, b.to(dtype), c.to(dtype)));
}

at::Tensor to_type_of(const at::Tensor& parameter, const at::Tensor& grad) {
  return parameter.defined() ? grad.to(parameter.scalar_type()) : at::Tensor();
}

/// The arguments of forward, besides the tensors that autograd tracks.
struct SyncedArguments {
  const BatchNormCall& call;
  double momentum;
  const std::shared_ptr<StatisticsSync>& sync;
};

class SyncedBatchNorm : public torch::autograd::Function<SyncedBatchNorm> {
 public:
  /// Optional, because a torch::autograd::Function does not accept undefined tensors.
  using MaybeTensor = c10::optional<at::Tensor>;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const MaybeTensor& /*weight*/,
                            const MaybeTensor& /*bias*/, const SyncedArguments* arguments) {
    const BatchNormCall& call = arguments->call;
    const at::Tensor input = dense(given);
    const Combined all = combine(local_statistics(input), values_per_channel(input), *arguments->sync);
    update_running(call, all, arguments->momentum);
    const auto dtype = statistics_options(input).dtype();
    const Statistics statistics{all.mean.to(dtype), all.var.to(dtype)};
    const double eps = call.options.eps();
    context->save_for_backward({input, call.weight, call.bias, statistics.mean, statistics.var, all.count});
    context->saved_data["eps"] = eps;
    context->saved_data["needs_input_grad"] = given.requires_grad();
    context->saved_data["sync"] = c10::IValue::make_capsule(c10::make_intrusive<SyncHolder>(arguments->sync));
    return normalize(input, as(dtype, call.weight), as(dtype, call.bias), statistics, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("second derivatives through synced batch norm are not supported",
                       "call backward() without create_graph, or leave this layer's statistics unsynced");
    }
    const variable_list kept = context->get_saved_variables();
    const Saved saved{.input = kept[0],
                      .weight = kept[1],
                      .statistics = {kept[3], kept[4]},
                      .eps = context->saved_data["eps"].toDouble(),
                      .count = kept[5]};
    const at::Tensor grad = grads[0].to(saved.input.scalar_type()).contiguous(saved.input.suggest_memory_format());
    const auto [times_x, plain] = gradient_sums(grad, saved.input, saved.statistics, saved.eps);
    at::Tensor input_grad;
    if (context->saved_data["needs_input_grad"].toBool()) {
      const at::Tensor sums = at::cat({times_x, plain}).to(at::kDouble);
      holder(*context).sync->all_reduce(sums);
      const at::Tensor means = sums.view({2, -1}) / saved.count;
      input_grad = input_gradient(grad, saved, means[0], means[1]);
    }
    return {input_grad, to_type_of(kept[1], times_x), to_type_of(kept[2], plain), {}};
  }

 private:
  static SyncHolder& holder(AutogradContext& context) {
    return dynamic_cast<SyncHolder&>(*context.saved_data["sync"].toCapsule());
  }
  static at::Tensor as(const caffe2::TypeMeta& dtype, const at::Tensor& parameter) {
    return parameter.defined() ? parameter.to(dtype) : parameter;
  }
};

/// Runs the synced batch norm. `momentum`: the weight of the new statistics in the running statistics.
at::Tensor synced_batch_norm(const at::Tensor& input, const BatchNormCall& call, double momentum,
                             const std::shared_ptr<StatisticsSync>& sync) {
  const SyncedArguments arguments{.call = call, .momentum = momentum, .sync = sync};
  return SyncedBatchNorm::apply(input, c10::optional<at::Tensor>(call.weight), c10::optional<at::Tensor>(call.bias),
                                &arguments);
}

}  // namespace

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
