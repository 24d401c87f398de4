// SPDX-License-Identifier: Apache-2.0
// Deformable attention's sampling by the detection recipe's kernel and by libtorch's grid_sample, alternately: one
// thread, float32, at the sizes of the published network S at 640 pixels and of the small one at 160.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "detection/model/deformable.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"

namespace lockstep::detection {
namespace {

using Clock = std::chrono::steady_clock;
using Sampler = decltype(&sample_points);

struct Case {
  const char* name;
  std::int64_t batch, queries, heads, depth;
  ScaleSizes sizes;
  std::array<std::int64_t, 3> points;
};

struct Inputs {
  at::Tensor values, places, shares;
};

Inputs inputs_of(const Case& one) {
  std::int64_t rows = 0;
  for (const auto& size : one.sizes) rows += size[0] * size[1];
  const std::int64_t points = one.points[0] + one.points[1] + one.points[2];
  const auto leaf = [](const at::Tensor& tensor) { return tensor.set_requires_grad(true); };
  return {leaf(at::rand({one.batch, rows, one.heads * one.depth})),
          leaf(at::rand({one.batch, one.queries, one.heads, points, 2})),
          leaf(at::softmax(at::rand({one.batch, one.queries, one.heads, points}), -1))};
}

/// The times of the forward and of the backward pass, in milliseconds.
std::array<double, 2> time_of(Sampler sampler, const Case& one, const Inputs& inputs) {
  const auto begin = Clock::now();
  const at::Tensor out = sampler(inputs.values, inputs.places, inputs.shares, one.sizes, one.points);
  const auto middle = Clock::now();
  out.backward(at::ones_like(out));
  const auto end = Clock::now();
  for (const at::Tensor& input : {inputs.values, inputs.places, inputs.shares}) input.mutable_grad().reset();
  return {std::chrono::duration<double, std::milli>(middle - begin).count(),
          std::chrono::duration<double, std::milli>(end - middle).count()};
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const Case& one, int pairs) {
  const Inputs inputs = inputs_of(one);
  std::array<std::vector<double>, 4> times;
  for (int i = -1; i < pairs; ++i) {  // the first pair is warm-up
    const auto own = time_of(&sample_points, one, inputs);
    const auto grid = time_of(&sample_by_grid, one, inputs);
    if (i < 0) continue;
    for (int part = 0; part < 2; ++part) {
      times[part].push_back(own[part]);
      times[2 + part].push_back(grid[part]);
    }
  }
  for (int part = 0; part < 2; ++part) {
    const double own = median(times[part]);
    const double grid = median(times[2 + part]);
    fmt::print("{:<28} {:<9} kernel {:7.2f} ms  grid_sample {:7.2f} ms  ratio {:.2f}\n", one.name,
               part == 0 ? "forward" : "backward", own, grid, grid / own);
  }
}

}  // namespace
}  // namespace lockstep::detection

int main() {
  using lockstep::detection::compare;
  at::set_num_threads(1);
  lockstep::keep_freed_memory();
  lockstep::seed_all(1);
  compare({"S, 640 pixels, 2 images", 2, 500, 8, 32, {{80, 80}, {40, 40}, {20, 20}}, {3, 6, 3}}, 15);
  compare({"small, 160 pixels, 8 images", 8, 200, 3, 32, {{20, 20}, {10, 10}, {5, 5}}, {4, 4, 4}}, 15);
  return 0;
}
