// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/cost.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "detection/dfine/fuse.h"
#include "detection/dfine/network.h"

namespace lockstep::detection::dfine {
namespace {

/// The totals that this thread's operations are added to, or null.
thread_local Cost* counted = nullptr;

const at::Tensor& tensor_at(const at::RecordFunction& call, std::size_t index) {
  return call.inputs()[index].toTensor();
}

double elements(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Counts a convolution: every output position uses all weights once.
void count_conv(const at::RecordFunction& call) {
  const at::Tensor& input = tensor_at(call, 0);
  const at::Tensor& weight = tensor_at(call, 1);
  const std::vector<std::int64_t> stride = call.inputs()[3].toIntVector();
  const std::vector<std::int64_t> padding = call.inputs()[4].toIntVector();
  double positions = static_cast<double>(input.size(0));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    const std::int64_t room = input.size(dimension) + 2 * padding[i % padding.size()] - weight.size(dimension);
    positions *= static_cast<double>(room / stride[i % stride.size()] + 1);
  }
  counted->macs += positions * elements(weight);
  counted->flops += positions * (2 * elements(weight) + static_cast<double>(weight.size(0)));
}

/// Counts a linear layer. `first`: the index of its input [N, I]; its weight [I, O] comes next.
void count_linear(const at::RecordFunction& call, std::size_t first) {
  const auto rows = static_cast<double>(tensor_at(call, first).size(0));
  const at::Tensor& weight = tensor_at(call, first + 1);
  counted->macs += rows * elements(weight);
  counted->flops += rows * (2 * elements(weight) + static_cast<double>(weight.size(1)));
}

std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& call) {
  if (counted == nullptr) return nullptr;
  const std::string_view name = call.name();
  if (name == "aten::convolution") count_conv(call);
  if (name == "aten::addmm") count_linear(call, 1);
  if (name == "aten::mm") count_linear(call, 0);
  for (const char* each : {"aten::relu", "aten::relu_", "aten::silu", "aten::gelu", "aten::sigmoid"}) {
    if (name == each) counted->flops += elements(tensor_at(call, 0));
  }
  return nullptr;
}

/// During its lifetime, counts this thread's operations into a Cost.
class Counting {
 public:
  explicit Counting(Cost& into)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(observe).needsInputs(true))) {
    counted = &into;
  }
  ~Counting() {
    counted = nullptr;
    at::removeCallback(handle_);
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  at::CallbackHandle handle_;
};

/// Restores the state of libtorch's CPU generator when it goes out of scope.
class SameRandomness {
 public:
  SameRandomness() : state_(generator().get_state()) {}
  ~SameRandomness() { generator().set_state(state_); }
  SameRandomness(const SameRandomness&) = delete;
  SameRandomness& operator=(const SameRandomness&) = delete;

 private:
  static at::Generator generator() { return at::globalContext().defaultGenerator(at::Device(at::kCPU)); }
  at::Tensor state_;
};

/// True for heads of layers not used in evaluation.
bool only_for_training(const std::string& name, const Options& options) {
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const bool scores = name.starts_with(fmt::format("decoder.dec_score_head.{}.", i)) ||
                        name.starts_with(fmt::format("decoder.decoder.lqe_layers.{}.", i));
    const bool boxes = name.starts_with(fmt::format("decoder.dec_bbox_head.{}.", i)) ||
                       name.starts_with(fmt::format("decoder.decoder.layers.{}.", i));
    if (scores && i != options.last_layer()) return true;
    if (boxes && i > options.last_layer()) return true;
  }
  return false;
}

/// The number of positions at stride 32.
double cells(std::int64_t side) {
  const auto along = static_cast<double>(side / kCoarsestStride);
  return along * along;
}

}  // namespace

Cost cost_of(const Options& options, std::int64_t side) {
  const SameRandomness guard;
  const at::NoGradGuard no_grad;
  Network network(options);
  network.eval();
  static_cast<void>(fuse(network));
  const std::int64_t small = options.smallest_side();
  const std::int64_t large = small + kCoarsestStride;
  Cost of_small;
  Cost of_large;
  for (auto& [size, cost] : {std::pair{small, &of_small}, std::pair{large, &of_large}}) {
    const Counting counting(*cost);
    static_cast<void>(network.forward(at::zeros({1, 3, size, size}), nullptr));
  }
  const auto at_side = [&](double first, double second) {
    return std::round(first + (second - first) * (cells(side) - cells(small)) / (cells(large) - cells(small)));
  };
  Cost cost{.macs = at_side(of_small.macs, of_large.macs), .flops = at_side(of_small.flops, of_large.flops)};
  for (const auto& item : network.named_parameters()) {
    if (!only_for_training(item.key(), options)) cost.parameters += item.value().numel();
  }
  return cost;
}

std::string to_text(const Cost& cost, std::int64_t side) {
  return fmt::format("{:.1f} M parameters, {:.1f} GMACs and {:.1f} GFLOPs at {} x {} pixels",
                     static_cast<double>(cost.parameters) / 1e6, cost.macs / 1e9, cost.flops / 1e9, side, side);
}

}  // namespace lockstep::detection::dfine
