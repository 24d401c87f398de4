// SPDX-License-Identifier: Apache-2.0
// The speed of nn/conv/direct.h's products on one thread: the best of several runs, in GFLOP/s. Multiplications that
// the algorithm avoids count too (docs/design/convolutions.md).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "nn/conv/direct.h"
#include "nn/conv/winograd.h"

namespace lockstep::nn {
namespace {

constexpr int kRuns = 40;

struct Shape {
  std::int64_t images, in, out, size, kernel, stride, dilation;
};

constexpr Shape kShapes[] = {{4, 64, 64, 33, 3, 1, 1},  {4, 64, 128, 33, 3, 2, 1}, {4, 256, 256, 9, 3, 1, 1},
                             {4, 512, 512, 9, 3, 1, 2}, {4, 512, 256, 9, 3, 1, 6}, {4, 1280, 256, 9, 1, 1, 1},
                             {10, 32, 64, 48, 3, 2, 1}};

template <class F>
double best_seconds(F f) {
  double best = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

template <class T>
void measure(const Shape& shape, const char* type) {
  const DirectAxis axis{.size = shape.size,
                        .kernel = shape.kernel,
                        .stride = shape.stride,
                        .padding = shape.kernel / 2 * shape.dilation,
                        .dilation = shape.dilation};
  const DirectConv conv{.images = shape.images, .rows = axis, .columns = axis, .in = shape.in, .out = shape.out};
  const DirectPlan plan = direct_forward_plan(conv);
  const DirectPlan back = direct_backward_plan(conv);
  const std::vector<DirectPairs> pairs = direct_pairs(conv);
  const auto numbers = [](std::int64_t count) { return std::vector<T>(static_cast<std::size_t>(count)); };
  std::vector<T> x = numbers(conv.images * conv.pixels() * conv.in);
  std::vector<T> y = numbers(conv.images * conv.results() * conv.out);
  const std::int64_t row = conv.taps() * conv.in;
  std::vector<float> weights(static_cast<std::size_t>(conv.out * row));
  std::vector<T> packed = numbers(direct_packed_size(plan));
  std::vector<T> turned = numbers(direct_packed_size(back));
  const DirectWeights by{.data = weights.data(), .out = row, .in = 1, .tap = conv.in};
  const double pack = best_seconds([&] { direct_pack(plan, by, packed.data()); });
  const double pack_turned = best_seconds([&] { direct_pack(back, by.turned(conv.taps()), turned.data()); });
  const double forward = best_seconds([&] {
    direct_forward(plan, DirectImages<T>{.x = x.data(), .packed = packed.data(), .y = y.data()}, 0, plan.pieces());
  });
  const double backward = best_seconds([&] {
    direct_forward(back, DirectImages<T>{.x = y.data(), .packed = turned.data(), .y = x.data()}, 0, back.pieces());
  });
  const double sums = best_seconds([&] {
    const DirectGradient<T> of{.x = x.data(), .dy = y.data(), .sums = weights.data(), .row = row};
    for (const DirectPairs& group : pairs) direct_weight_sums(conv, of, group, 0, conv.out);
  });
  const double gflop = 2e-9 * static_cast<double>(conv.images * conv.results() * conv.out * row);
  fmt::print(
      "{}, {} images of {}, {} to {}, kernel {}, stride {}, dilation {}: forward {:.0f}, input {:.0f}, weights "
      "{:.0f} GFLOP/s; pack {:.2f} and {:.2f} ms\n",
      type, shape.images, shape.size, shape.in, shape.out, shape.kernel, shape.stride, shape.dilation, gflop / forward,
      gflop / backward, gflop / sums, pack * 1e3, pack_turned * 1e3);
}

}  // namespace
}  // namespace lockstep::nn

int main() {
  for (const auto& shape : lockstep::nn::kShapes) {
    if (lockstep::nn::winograd_has_bfloat16()) lockstep::nn::measure<std::uint16_t>(shape, "bfloat16");
    lockstep::nn::measure<float>(shape, "float32");
  }
}
