// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/mix.h"

#include <ATen/ops/roll.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// The random numbers that each sample draws. A batch uses the numbers of its first sample.
struct Drawn {
  bool mixed = false;
  double share = 1.0;  ///< weight of the sample itself
  double x = 0.5;      ///< centre of the rectangle, 0 .. 1
  double y = 0.5;
};

double normal(SampleRandom& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * random.uniform());
}

/// Source: Marsaglia and Tsang 2000.
double gamma(double shape, SampleRandom& random) {
  if (shape < 1.0) return gamma(shape + 1.0, random) * std::pow(1.0 - random.uniform(), 1.0 / shape);
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal(random);
    const double v = std::pow(1.0 + c * x, 3.0);
    if (v > 0 && std::log(1.0 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double beta(double alpha, SampleRandom& random) {
  const double a = gamma(alpha, random);
  const double b = gamma(alpha, random);
  return a + b > 0 ? a / (a + b) : 0.5;
}

void draw(Sample& sample, SampleRandom& random, double alpha, double p) {
  Drawn drawn;
  drawn.mixed = random.chance(p);
  drawn.share = beta(alpha, random);
  drawn.x = random.uniform();
  drawn.y = random.uniform();
  sample.extra = drawn;
}

Drawn drawn_for(const std::vector<Sample>& samples, const char* who) {
  const Drawn* drawn = std::any_cast<Drawn>(&samples.front().extra);
  if (drawn == nullptr) {
    throw UsageError(fmt::format("{} found no random parameters in its samples", who),
                     fmt::format("make the same {} the last step of the data set's transform", who));
  }
  return *drawn;
}

at::Tensor one_hot(const at::Tensor& labels, std::int64_t classes) {
  if (classes <= 0) throw UsageError(fmt::format("mixing needs at least 1 class, not {}", classes));
  if (!labels.defined() || labels.scalar_type() != c10::ScalarType::Long || labels.dim() != 1) {
    throw UsageError("mixing needs int64 classes as targets", "let ToTensor produce them: ClassTarget{}");
  }
  at::Tensor result = at::zeros({labels.size(0), classes}, c10::ScalarType::Float);
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    const std::int64_t label = labels.data_ptr<std::int64_t>()[i];
    if (label < 0 || label >= classes) {
      throw DataError(fmt::format("class {} is not one of {}", label, classes), "raise `classes`");
    }
    result.data_ptr<float>()[i * classes + label] = 1.0F;
  }
  return result;
}

at::Tensor blended(const at::Tensor& own, double share) {
  return own.mul(share).add_(at::roll(own, 1, 0), 1.0 - share);
}

at::Tensor stacked(const std::vector<Sample>& samples, at::Tensor Sample::*member, const char* name) {
  std::vector<at::Tensor> parts;
  for (const Sample& sample : samples) {
    const at::Tensor& part = sample.*member;
    const bool fits = part.defined() && part.sizes() == (samples.front().*member).sizes();
    if (!fits) throw DataError(fmt::format("the {} tensors of a batch differ in shape and cannot be mixed", name));
    parts.push_back(part);
  }
  return at::stack(parts);
}

/// Stacks the samples, with one-hot targets.
Batch stacked(const std::vector<Sample>& samples, std::int64_t classes) {
  Batch batch;
  batch.data = stacked(samples, &Sample::data, "data");
  batch.target = one_hot(stacked(samples, &Sample::target, "target"), classes);
  return batch;
}

}  // namespace

void MixUp::operator()(Sample& sample, SampleRandom& random) const { draw(sample, random, alpha, p); }

Batch MixUp::operator()(const std::vector<Sample>& samples) const {
  const Drawn drawn = drawn_for(samples, "MixUp");
  Batch batch = stacked(samples, classes);
  if (!drawn.mixed) return batch;
  batch.data = blended(batch.data, drawn.share);
  batch.target = blended(batch.target, drawn.share);
  return batch;
}

void CutMix::operator()(Sample& sample, SampleRandom& random) const { draw(sample, random, alpha, p); }

Batch CutMix::operator()(const std::vector<Sample>& samples) const {
  const Drawn drawn = drawn_for(samples, "CutMix");
  Batch batch = stacked(samples, classes);
  if (!drawn.mixed || batch.data.dim() < 3) return batch;
  const std::int64_t height = batch.data.size(-2);
  const std::int64_t width = batch.data.size(-1);
  const double half = 0.5 * std::sqrt(1.0 - drawn.share);
  const auto edge = [&](double middle, double offset, std::int64_t side) {
    const double pixels = std::floor(middle * static_cast<double>(side)) + offset * static_cast<double>(side);
    return std::clamp(static_cast<std::int64_t>(pixels), std::int64_t{0}, side);
  };
  const std::int64_t left = edge(drawn.x, -half, width);
  const std::int64_t right = edge(drawn.x, half, width);
  const std::int64_t top = edge(drawn.y, -half, height);
  const std::int64_t bottom = edge(drawn.y, half, height);
  const auto rectangle = [&](const at::Tensor& images) { return images.slice(-2, top, bottom).slice(-1, left, right); };
  const at::Tensor neighbours = at::roll(batch.data, 1, 0);
  rectangle(batch.data).copy_(rectangle(neighbours));
  const auto covered = static_cast<double>((right - left) * (bottom - top));
  batch.target = blended(batch.target, 1.0 - covered / static_cast<double>(width * height));
  return batch;
}

}  // namespace lockstep
