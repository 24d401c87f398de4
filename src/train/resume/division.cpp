// SPDX-License-Identifier: Apache-2.0
#include "train/resume/division.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kShown = 16;

/// The numbers of parts nearest to the wanted one would be in no simple order: these are the first ones above 1.
std::vector<std::int64_t> divisors(std::int64_t samples) {
  std::vector<std::int64_t> found;
  for (std::int64_t parts = 1; parts <= samples && found.size() < kShown; ++parts) {
    if (samples % parts == 0) found.push_back(parts);
  }
  return found;
}

}  // namespace

Division divide_again(const Division& before, std::int64_t replicas) {
  const std::int64_t samples = before.samples();
  if (samples % replicas != 0) {
    throw UsageError(
        fmt::format("the run's batches of {} samples ({} x {} replicas) cannot be divided into {} replicas", samples,
                    before.batch_size, before.replicas, replicas),
        fmt::format("these divide them evenly: {}; a run with other batches begins with --init-from",
                    fmt::join(divisors(samples), ", ")));
  }
  return {.replicas = replicas, .batch_size = samples / replicas};
}

std::string change_text(const Division& before, const Division& now) {
  return fmt::format(
      "replicas is {} and was {}: each batch of {} samples is divided into {} parts of {} instead of {} of {}. Steps, "
      "samples and learning rate stay; the order of additions, the random numbers of dropout and the statistics of "
      "batch "
      "norm are those of {} replicas, so the result has other bits",
      now.replicas, before.replicas, now.samples(), now.replicas, now.batch_size, before.replicas, before.batch_size,
      now.replicas);
}

}  // namespace lockstep::train
