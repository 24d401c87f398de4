// SPDX-License-Identifier: Apache-2.0
// The Winograd convolutions of nn/conv/winograd.h with each tile size, on one thread: the best of several runs, in
// milliseconds and in GFLOP/s of the direct sum (docs/design/convolutions.md).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "nn/conv/winograd.h"

namespace lockstep::nn {
namespace {

constexpr int kRuns = 15;

constexpr Winograd kShapes[] = {
    {.images = 64, .height = 30, .width = 80, .in = 64, .out = 64},
    {.images = 64, .height = 15, .width = 40, .in = 128, .out = 128},
    {.images = 64, .height = 7, .width = 20, .in = 128, .out = 128},
    {.images = 4, .height = 65, .width = 65, .in = 64, .out = 64},
    {.images = 4, .height = 33, .width = 33, .in = 64, .out = 64},
    {.images = 4, .height = 33, .width = 33, .in = 256, .out = 256},
    {.images = 8, .height = 56, .width = 56, .in = 32, .out = 32},
    {.images = 8, .height = 28, .width = 28, .in = 128, .out = 128},
    {.images = 8, .height = 14, .width = 14, .in = 256, .out = 256},
    {.images = 8, .height = 7, .width = 7, .in = 512, .out = 512},
};

template <class F>
double best_ms(F f) {
  double best = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

/// Numbers from 0 to 1; for bfloat16 bits, from 0.5 to 1.
template <class T>
std::vector<T> numbers(std::int64_t count) {
  std::mt19937 generator(1);
  std::vector<T> all(static_cast<std::size_t>(count));
  for (T& number : all) {
    number = sizeof(T) == 4 ? static_cast<T>(static_cast<float>(generator()) * 0x1p-32F)
                            : static_cast<T>(0x3f00U + generator() % 0x80U);
  }
  return all;
}

template <class T>
void measure(const Winograd& conv, const char* type) {
  const std::int64_t pixels = conv.images * conv.height * conv.width;
  const std::vector<T> x = numbers<T>(pixels * conv.in);
  std::vector<T> y = numbers<T>(pixels * conv.out);
  std::vector<float> weights = numbers<float>(9 * conv.in * conv.out);
  std::vector<T> packed = numbers<T>(conv.points() * conv.point_step());
  std::vector<float> sums(static_cast<std::size_t>(conv.points() * conv.point_step()));
  const WinogradWeights by{.data = weights.data(), .out = 9 * conv.in, .in = 1, .row = 3 * conv.in, .column = conv.in};
  const double pack = best_ms([&] { winograd_pack(conv, by, packed.data()); });
  const double forward = best_ms([&] {
    winograd_forward(conv, WinogradImages<T>{.x = x.data(), .packed = packed.data(), .y = y.data()}, 0,
                     conv.tile_rows());
  });
  const std::int64_t rows = winograd_summed_rows(conv, sizeof(T));
  const double backward = best_ms([&] {
    for (std::int64_t row = 0; row < conv.tile_rows(); row += rows) {
      for (std::int64_t part = 0; part < conv.parts(); ++part) {
        winograd_weight_sums(conv, WinogradPart<T>{.x = x.data(), .dy = y.data(), .part = part}, row,
                             std::min(row + rows, conv.tile_rows()),
                             sums.data() + part * conv.parts() * conv.point_step());
      }
    }
  });
  const double unpack = best_ms([&] { winograd_unpack(conv, sums.data(), by); });
  const double gflop = 18e-6 * static_cast<double>(pixels * conv.in * conv.out);  // per millisecond
  fmt::print(
      "{}, {} images of {} x {}, {} to {}, tiles of {}: forward {:.2f} ms ({:.0f} GFLOP/s), weights {:.2f} ms "
      "({:.0f}), pack {:.2f}, unpack {:.2f} ms\n",
      type, conv.images, conv.height, conv.width, conv.in, conv.out, conv.tile, forward, gflop / forward, backward,
      gflop / backward, pack, unpack);
}

}  // namespace
}  // namespace lockstep::nn

int main() {
  for (lockstep::nn::Winograd conv : lockstep::nn::kShapes) {
    if (lockstep::nn::winograd_has_bfloat16()) lockstep::nn::measure<std::uint16_t>(conv, "bfloat16");
    for (const std::int64_t tile : {2, 4}) {
      conv.tile = tile;
      lockstep::nn::measure<float>(conv, "float32");
    }
  }
}
