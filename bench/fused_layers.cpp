// SPDX-License-Identifier: Apache-2.0
// Our layers against libtorch's, forward and backward, over shapes: the source of the thresholds in kernel_table.cpp.
// One thread; the two sides alternate, and the result is the median of the ratios. Run it on an otherwise idle
// processor: taskset -c 1.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/nn/activation.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::nn {
namespace {

using Clock = std::chrono::steady_clock;
using Run = std::function<void()>;

double seconds(const Run& run, int repeats) {
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const std::string& what, const Run& theirs, const Run& ours) {
  constexpr int kRounds = 15;
  constexpr double kRound = 4e-3;  // seconds per round: a tiny shape runs many times
  theirs();
  ours();
  const int repeats = std::max(1, static_cast<int>(kRound / (seconds(theirs, 3) + 1e-9)));
  std::vector<double> ratios;
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const double first = seconds(theirs, repeats);
    const double second = seconds(ours, repeats);
    ratios.push_back(first / second);
    times.push_back(second);
  }
  fmt::print("{:<52} {:>9.1f} us  {:>6.2f}x\n", what, 1e6 * median(times), median(ratios));
  std::fflush(stdout);
}

const char* name_of(at::ScalarType type) { return type == at::kFloat ? "float32" : "bf16"; }

/// A forward, and a backward with a gradient that is not all ones.
template <class Layer>
Run step_of(Layer layer, const at::Tensor& input, const at::Tensor& grad) {
  return [layer, input, grad]() mutable {
    layer(input).backward(grad);
    input.mutable_grad() = at::Tensor();
  };
}

at::Tensor leaf(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape).to(type).requires_grad_(); }

void activations(at::ScalarType type) {
  for (const std::int64_t count : {64, 512, 4096, 32768, 262144, 2097152, 16777216}) {
    const at::Tensor x = leaf({count}, type);
    const at::Tensor grad = at::randn({count}).to(type);
    torch::nn::Dropout theirs(0.5);
    Dropout ours(0.5);
    compare(fmt::format("Dropout(0.5) {} {}", name_of(type), count), step_of(theirs, x, grad), step_of(ours, x, grad));
    compare(fmt::format("Dropout(0.2) {} {}", name_of(type), count), step_of(torch::nn::Dropout(0.2), x, grad),
            step_of(Dropout(0.2), x, grad));
    compare(fmt::format("ReLU {} {}", name_of(type), count), step_of(torch::nn::ReLU(), x, grad),
            step_of(ReLU(), x, grad));
  }
}

void linear(at::ScalarType type, double dropout) {
  const auto set = [&](bool on) {
    tensor::set_autocast_state(at::kCPU, {.enabled = on, .dtype = at::kBFloat16, .weight_cache = false});
  };
  for (const std::int64_t rows : {1, 16, 64, 512}) {
    for (const std::int64_t width : {8, 36, 128, 1024}) {
      torch::nn::Linear theirs(width, width);
      LinearReLU ours(*theirs, LinearReLUOptions{.dropout = dropout});
      const at::Tensor x = leaf({rows, width}, at::kFloat);
      const at::Tensor grad = at::randn({rows, width}).to(type);
      const auto step = [&](const std::function<at::Tensor()>& forward) {
        return [&x, &grad, &theirs, &set, forward, type] {
          set(type == at::kBFloat16);
          const at::Tensor out = forward();
          set(false);
          out.backward(grad);
          x.mutable_grad() = at::Tensor();
          theirs->weight.mutable_grad() = at::Tensor();
          theirs->bias.mutable_grad() = at::Tensor();
        };
      };
      torch::nn::Dropout drop(dropout);
      torch::nn::ReLU relu(torch::nn::ReLUOptions().inplace(true));
      compare(fmt::format("Linear{} + ReLU {} [{}, {}]", dropout > 0 ? " + Dropout" : "", name_of(type), rows, width),
              step([&] { return relu(dropout > 0 ? drop(theirs(x)) : theirs(x)); }), step([&] { return ours(x); }));
    }
  }
}

void layer_norm(at::ScalarType type) {
  for (const std::int64_t rows : {1, 16, 256, 4096}) {
    for (const std::int64_t width : {8, 32, 100, 256, 1024}) {
      torch::nn::LayerNorm theirs(torch::nn::LayerNormOptions({width}));
      const LayerNorm ours{torch::nn::LayerNormOptions({width})};
      theirs->to(type);  // libtorch 1.13 requires weights of the input's type
      const at::Tensor x = leaf({rows, width}, type);
      compare(fmt::format("LayerNorm {} [{}, {}]", name_of(type), rows, width),
              step_of(theirs, x, at::randn({rows, width}).to(type)),
              step_of(ours, x, at::randn({rows, width}).to(type)));
    }
  }
}

template <class Theirs, class Ours>
void loss(const std::string& what, Theirs theirs, Ours ours, const at::Tensor& x, const at::Tensor& target) {
  const auto step = [&](auto& layer) {
    return [&layer, x, target] {
      layer(x, target).backward();
      x.mutable_grad() = at::Tensor();
    };
  };
  compare(fmt::format("{} {} [{}]", what, name_of(x.scalar_type()), fmt::join(x.sizes(), ", ")), step(theirs),
          step(ours));
}

void losses(at::ScalarType type) {
  for (const std::int64_t rows : {1, 16, 64, 1024, 8192}) {
    for (const std::int64_t classes : {4, 36, 144, 1000}) {
      const at::Tensor x = leaf({rows, classes}, type);
      loss("MultiLabelSoftMargin", torch::nn::MultiLabelSoftMarginLoss(), MultiLabelSoftMarginLoss(), x,
           at::rand({rows, classes}));
      loss("CrossEntropy", torch::nn::CrossEntropyLoss(), CrossEntropyLoss(), x, at::randint(classes, {rows}));
    }
  }
  for (const std::int64_t size : {4, 32, 256}) {
    for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor x = at::randn({4, 21, size, size}).to(type).contiguous(layout).requires_grad_();
      loss(layout == at::MemoryFormat::Contiguous ? "CrossEntropy" : "CrossEntropy channels-last",
           torch::nn::CrossEntropyLoss(), CrossEntropyLoss(), x, at::randint(21, {4, size, size}));
    }
  }
}

void norm_act(at::ScalarType type) {
  for (const std::int64_t channels : {8, 32, 128}) {
    for (const std::int64_t size : {2, 8, 32}) {
      torch::nn::BatchNorm2d norm(channels);
      torch::nn::ReLU relu(torch::nn::ReLUOptions().inplace(true));
      torch::nn::MaxPool2d pool(2);
      const BatchNormReLU2d ours{torch::nn::BatchNormOptions(channels), BatchNormReLUOptions{.pool = true}};
      const at::Tensor x =
          at::randn({4, channels, size, size}).to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
      const at::Tensor grad =
          at::randn({4, channels, size / 2, size / 2}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      const auto separate = [=](const at::Tensor& in) mutable { return pool(relu(norm(in))); };
      compare(fmt::format("BatchNorm + ReLU + MaxPool {} [4, {}, {}, {}]", name_of(type), channels, size, size),
              step_of(separate, x, grad), step_of(ours, x, grad));
    }
  }
}

void all(const std::string& which) {
  fmt::print("{:<52} {:>12}  {:>7}\n", "layer, type, elements or shape", "ours", "faster");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto wanted = [&](const char* name) { return which.empty() || which == name; };
    if (wanted("activations")) activations(type);
    if (wanted("linear")) linear(type, 0);
    if (wanted("linear")) linear(type, 0.5);
    if (wanted("layer_norm")) layer_norm(type);
    if (wanted("losses")) losses(type);
    if (wanted("norm_act")) norm_act(type);
  }
}

}  // namespace
}  // namespace lockstep::nn

int main(int argc, char** argv) {
  // nn_fused_layers_bench [activations|linear|layer_norm|losses|norm_act]
  at::set_num_threads(1);
  lockstep::keep_freed_memory();
  lockstep::nn::all(argc > 1 ? argv[1] : "");
}
