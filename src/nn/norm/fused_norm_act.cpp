// SPDX-License-Identifier: Apache-2.0
// Runs the passes of norm_act_kernel.h over a batch. Images run in parallel, and their sums are combined in double and
// in order, so no result depends on the number of threads.
#include "nn/norm/fused_norm_act.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lockstep/nn/plain_operators.h"
#include "lockstep/tensor/threads.h"
#include "nn/norm/norm_act_kernel.h"
#include "nn/vector/dropout_bits.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBitBlocks = 1 << 12;  // blocks of dropout bits that a thread fills at a time

NormActType type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? NormActType::kFloat : NormActType::kBFloat16;
}

NormActShape shape_of(const at::Tensor& input, bool pool) {
  return {.height = input.size(2), .width = input.size(3), .channels = input.size(1), .pool = pool};
}

/// Returns image `index` of a channels-last batch whose images have `numel` elements.
const char* image_at(const at::Tensor& batch, std::int64_t index, std::int64_t numel) {
  return static_cast<const char*>(batch.data_ptr()) + index * numel * static_cast<std::int64_t>(batch.element_size());
}
char* image_to(const at::Tensor& batch, std::int64_t index, std::int64_t numel) {
  return static_cast<char*>(batch.data_ptr()) + index * numel * static_cast<std::int64_t>(batch.element_size());
}

template <class F>
void for_images(const at::Tensor& batch, F f) {
  tensor::parallel_for(0, batch.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

/// Two sums by channel, over all images.
struct Sums {
  std::vector<double> first;
  std::vector<double> second;
};

template <class F>
Sums sum_images(const at::Tensor& batch, F one_image) {
  const std::int64_t channels = batch.size(1);
  std::vector<float> partial(static_cast<std::size_t>(batch.size(0) * 2 * channels));
  for_images(batch, [&](std::int64_t i) { one_image(i, partial.data() + i * 2 * channels); });
  const auto count = static_cast<std::size_t>(channels);
  Sums sums{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t image = 0; image < partial.size(); image += 2 * count) {
    for (std::size_t c = 0; c < count; ++c) {
      sums.first[c] += static_cast<double>(partial[image + c]);
      sums.second[c] += static_cast<double>(partial[image + count + c]);
    }
  }
  return sums;
}

/// The rows of the tensor by_channel(), float32: a and b of y = a x + b, mean, and 1 / standard deviation.
enum Row { kA, kB, kMean, kInverse, kRowCount };

struct Moments {
  std::vector<double> mean;
  std::vector<double> var;  ///< biased
};

/// Computes the moments from sums of x - shift. This takes one pass, but the variance is a difference of sums: the
/// further the shift is from the mean, the fewer digits remain.
Moments moments_about(const at::Tensor& input, const std::vector<float>& shift) {
  const NormActShape shape = shape_of(input, false);
  const Sums sums = sum_images(input, [&](std::int64_t i, float* out) {
    norm_act_statistics(type_of(input), image_at(input, i, shape.in_image()), shape, shift.data(), out);
  });
  const auto count = static_cast<double>(input.numel() / shape.channels);
  Moments found;
  for (std::size_t c = 0; c < sums.first.size(); ++c) {
    const double shifted = sums.first[c] / count;
    const double var = sums.second[c] / count - shifted * shifted;
    found.mean.push_back(static_cast<double>(shift[c]) + shifted);
    found.var.push_back(var < 0 ? 0.0 : var);  // NaN stays NaN
  }
  return found;
}

/// True if every mean is within 8 standard deviations of the shift: float32 sums then give a variance accurate to 1e-4.
bool is_near(const std::vector<float>& shift, const Moments& found) {
  constexpr double kFarthest = 8;
  for (std::size_t c = 0; c < shift.size(); ++c) {
    const double distance = found.mean[c] - static_cast<double>(shift[c]);
    if (distance * distance > kFarthest * kFarthest * found.var[c]) return false;
  }
  return true;
}

/// Computes the moments of a batch. The batch's first pixel serves as a shift at no cost. If it is an outlier in some
/// channel, a second pass uses the means of the first pass.
Moments moments(const at::Tensor& input) {
  const at::Tensor pixel = input.select(0, 0).select(1, 0).select(1, 0).to(at::kFloat).contiguous();
  std::vector<float> shift(pixel.data_ptr<float>(), pixel.data_ptr<float>() + pixel.numel());
  const Moments found = moments_about(input, shift);
  if (is_near(shift, found)) return found;
  std::transform(found.mean.begin(), found.mean.end(), shift.begin(),
                 [](double mean) { return static_cast<float>(mean); });
  return moments_about(input, shift);
}

/// A channel whose statistics are not finite (an overflow, in a step that the loss scaler skips) keeps its running
/// statistics, which would otherwise never become finite again.
void update_running(const BatchNormCall& call, const Moments& moments, double count, double momentum) {
  if (!call.running_mean.defined()) return;
  auto* mean = call.running_mean.data_ptr<float>();
  auto* var = call.running_var.data_ptr<float>();
  for (std::size_t c = 0; c < moments.mean.size(); ++c) {
    if (!std::isfinite(moments.mean[c]) || !std::isfinite(moments.var[c])) continue;
    const double unbiased = moments.var[c] * count / (count - 1);
    mean[c] = static_cast<float>(momentum * moments.mean[c] + (1 - momentum) * static_cast<double>(mean[c]));
    var[c] = static_cast<float>(momentum * unbiased + (1 - momentum) * static_cast<double>(var[c]));
  }
}

/// Returns the rows of enum Row. Shapes: [kRowCount, C].
at::Tensor by_channel(const BatchNormCall& call, const Moments& moments) {
  const auto channels = static_cast<std::int64_t>(moments.mean.size());
  at::Tensor rows = at::empty({kRowCount, channels}, at::kFloat);
  auto* row = rows.data_ptr<float>();
  const auto* weight = call.weight.data_ptr<float>();
  const auto* bias = call.bias.data_ptr<float>();
  for (std::int64_t c = 0; c < channels; ++c) {
    const double mean = moments.mean[static_cast<std::size_t>(c)];
    const double inverse = 1 / std::sqrt(moments.var[static_cast<std::size_t>(c)] + call.options.eps());
    const double a = static_cast<double>(weight[c]) * inverse;
    row[kA * channels + c] = static_cast<float>(a);
    row[kB * channels + c] = static_cast<float>(static_cast<double>(bias[c]) - mean * a);
    row[kMean * channels + c] = static_cast<float>(mean);
    row[kInverse * channels + c] = static_cast<float>(inverse);
  }
  return rows;
}

/// Draws a dropout bit for each element.
at::Tensor dropout_bits(std::int64_t numel, double dropout) {
  const DropoutBits made = make_dropout_bits(numel);
  auto* to = made.bits.data_ptr<std::uint8_t>();
  for_blocks((numel + 127) / 128, kBitBlocks, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
    fill_dropout_bits(to, begin, end, made.seed, 1 - dropout);
  });
  return made.bits;
}

NormActForward pass_of(const at::Tensor& input, const at::Tensor& rows, const at::Tensor& bits, const NormAct& what) {
  const auto* row = rows.data_ptr<float>();
  return {.type = type_of(input),
          .shape = shape_of(input, what.pool),
          .channels = {.a = row + kA * input.size(1), .b = row + kB * input.size(1)},
          .dropout = {.kept = bits.defined() ? bits.data_ptr<std::uint8_t>() : nullptr,
                      .scale = static_cast<float>(1 / (1 - what.dropout))}};
}

/// Returns image `index` for the kernels. `residual` may be undefined.
NormActImage image_in(const at::Tensor& input, const at::Tensor& residual, std::int64_t index, std::int64_t numel) {
  return {.x = image_at(input, index, numel),
          .index = index,
          .residual = residual.defined() ? image_at(residual, index, numel) : nullptr};
}

at::Tensor run_forward(const at::Tensor& input, const at::Tensor& residual, const NormActForward& pass) {
  at::Tensor out = at::empty({input.size(0), pass.shape.channels, pass.shape.out_height(), pass.shape.out_width()},
                             input.options().memory_format(at::MemoryFormat::ChannelsLast));
  for_images(input, [&](std::int64_t i) {
    norm_act_forward(pass, image_in(input, residual, i, pass.shape.in_image()),
                     image_to(out, i, pass.shape.out_image()));
  });
  return out;
}

/// The gradients of input, weight, bias and residual.
struct Gradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor residual;
};

/// The tensors that forward kept.
struct Kept {
  at::Tensor input;
  at::Tensor rows;
  at::Tensor bits;
  at::Tensor residual;
};

Gradients run_backward(const at::Tensor& grad, const Kept& kept, const NormActForward& pass) {
  const auto& [input, rows, bits, residual] = kept;
  const std::int64_t channels = pass.shape.channels;
  const auto* row = rows.data_ptr<float>();
  const auto in = [&, &input = input, &residual = residual](std::int64_t i) {
    return image_in(input, residual, i, pass.shape.in_image());
  };
  const auto grad_of = [&](std::int64_t i) { return image_at(grad, i, pass.shape.out_image()); };
  const Sums sums = sum_images(input, [&](std::int64_t i, float* out) {
    norm_act_backward_sums(pass, in(i), grad_of(i), row + kMean * channels, out);
  });
  Gradients found{.input = at::empty_like(input),
                  .weight = at::empty({channels}, at::kFloat),
                  .bias = at::empty({channels}, at::kFloat),
                  .residual = residual.defined() ? at::empty_like(input) : at::Tensor()};
  std::vector<float> factors(static_cast<std::size_t>(3 * channels));  // da, dp, dq
  const auto count = static_cast<double>(input.numel() / channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const double scale = static_cast<double>(pass.dropout.scale);
    const double plain = sums.first[at] * scale;
    const double times_x = sums.second[at] * scale;
    const double a = static_cast<double>(row[kA * channels + c]);
    const double inverse = static_cast<double>(row[kInverse * channels + c]);
    const double dp = -a * inverse * inverse * times_x / count;
    factors[at] = static_cast<float>(a * scale);
    factors[at + static_cast<std::size_t>(channels)] = static_cast<float>(dp);
    factors[at + static_cast<std::size_t>(2 * channels)] =
        static_cast<float>(-a * plain / count - dp * static_cast<double>(row[kMean * channels + c]));
    found.weight.data_ptr<float>()[c] = static_cast<float>(times_x * inverse);
    found.bias.data_ptr<float>()[c] = static_cast<float>(plain);
  }
  const NormActGradient gradient{
      .da = factors.data(), .dp = factors.data() + channels, .dq = factors.data() + 2 * channels};
  for_images(input, [&](std::int64_t i) {
    const std::int64_t numel = pass.shape.in_image();
    norm_act_backward(pass, in(i), grad_of(i), gradient,
                      {.x = image_to(found.input, i, numel),
                       .residual = found.residual.defined() ? image_to(found.residual, i, numel) : nullptr});
  });
  return found;
}

/// The arguments of forward, besides the tensors that autograd tracks.
struct NormActArguments {
  const BatchNormCall& call;
  double momentum;
  const NormAct& what;
};

class FusedNormAct : public torch::autograd::Function<FusedNormAct> {
 public:
  /// `followed`: input, weight and bias.
  static at::Tensor forward(AutogradContext* context, const at::TensorList& followed,
                            const c10::optional<at::Tensor>& residual, const NormActArguments* arguments) {
    const at::Tensor& input = followed[0];
    const BatchNormCall& call = arguments->call;
    const Moments batch_moments = moments(input);
    update_running(call, batch_moments, static_cast<double>(input.numel() / input.size(1)), arguments->momentum);
    const at::Tensor rows = by_channel(call, batch_moments);
    const NormAct& what = arguments->what;
    const at::Tensor bits = what.dropout > 0 ? dropout_bits(input.numel(), what.dropout) : at::Tensor();
    const at::Tensor added = residual ? *residual : at::Tensor();
    context->save_for_backward({input, rows, bits, added});
    context->saved_data["dropout"] = what.dropout;
    context->saved_data["pool"] = what.pool;
    return run_forward(input, added, pass_of(input, rows, bits, what));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative("fused batch norm");
    const variable_list saved = context->get_saved_variables();
    const Kept kept{.input = saved[0], .rows = saved[1], .bits = saved[2], .residual = saved[3]};
    const NormAct what{.dropout = context->saved_data["dropout"].toDouble(),
                       .pool = context->saved_data["pool"].toBool()};
    const at::Tensor grad = grads[0].to(kept.input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const Gradients found = run_backward(grad, kept, pass_of(kept.input, kept.rows, kept.bits, what));
    return {found.input, found.weight, found.bias, found.residual, at::Tensor()};
  }
};

}  // namespace

bool can_fuse_norm_act(const at::Tensor& input, const BatchNormCall& call, const NormAct& what) {
  const bool fits = input.dim() == 4 && input.device().is_cpu() && input.size(1) % 8 == 0 &&
                    input.is_contiguous(at::MemoryFormat::ChannelsLast) &&
                    (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16);
  if (!fits || uses_plain_operators() || !call.training || what.dropout >= 1) return false;
  if (!is_float_vector(call.weight) || !is_float_vector(call.bias)) return false;
  if (call.running_mean.defined() && !(is_float_vector(call.running_mean) && is_float_vector(call.running_var))) {
    return false;
  }
  const std::int64_t pixels = input.size(2) * input.size(3);
  return input.size(0) * pixels >= 2 && (!what.pool || (input.size(2) >= 2 && input.size(3) >= 2));
}

at::Tensor fused_norm_act(const at::Tensor& input, const BatchNormCall& call, double momentum, const NormAct& what,
                          const at::Tensor& residual) {
  RECORD_FUNCTION("lockstep::batch_norm_relu", std::vector<c10::IValue>({input, call.weight, std::int64_t{what.pool}}));
  const NormActArguments arguments{.call = call, .momentum = momentum, .what = what};
  // A torch::autograd::Function does not accept undefined tensors as inputs.
  const std::array<at::Tensor, 3> followed = {input, call.weight, call.bias};
  return FusedNormAct::apply(at::TensorList(followed),
                             residual.defined() ? c10::optional<at::Tensor>(residual) : c10::nullopt, &arguments);
}

}  // namespace lockstep::nn::detail
