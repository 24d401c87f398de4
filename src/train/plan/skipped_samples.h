// SPDX-License-Identifier: Apache-2.0
// Samples that a run skips from a given batch onward. Each is replaced by another sample, so that steps, epochs and the
// learning rate stay the same. Pure functions of the settings: the order is the same on any number of ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/data/sampler.h"

namespace lockstep::train {

/// A position in a run, the same on every replica.
struct BatchPlace {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< number of the batch in the epoch

  auto operator<=>(const BatchPlace&) const = default;
};

/// How an epoch's order is divided into batches.
struct OrderShape {
  std::uint64_t seed = 0;
  std::int64_t size = 0;             ///< samples in the set
  std::int64_t samples_of_step = 1;  ///< samples in one batch across all replicas
};

/// The skipped samples, by index, each with the position from which it is skipped. They are stored in the setting
/// data.skipped_samples.
class SkippedSamples {
 public:
  SkippedSamples() = default;
  /// Throws: UsageError if a map does not have the form {epoch: E, batch: B, samples: [I, ...]}.
  explicit SkippedSamples(const std::vector<ConfigMap>& maps);
  /// Reads the samples from the settings of an earlier run; empty if there are none.
  [[nodiscard]] static SkippedSamples in_settings(const ConfigTree& settings);

  /// Skips a sample from position `from`. If it is already skipped, the earlier of the two positions counts.
  void add(std::int64_t index, const BatchPlace& from);
  /// Adds all of `others`.
  void add(const SkippedSamples& others);

  [[nodiscard]] bool empty() const { return from_.empty(); }
  [[nodiscard]] std::int64_t size() const { return std::ssize(from_); }
  /// Returns true if the sample is skipped now or later.
  [[nodiscard]] bool has(std::int64_t index) const { return from_.contains(index); }
  /// Returns the setting's maps, which do not depend on the order in which samples were added.
  [[nodiscard]] std::vector<ConfigMap> to_maps() const;

  /// Throws: DataError if an index is not in the set, or if fewer than `least` samples of the set remain.
  void require_enough(std::int64_t set_size, std::int64_t least) const;
  /// Replaces each skipped sample with another, drawn by seed, epoch and index.
  void replace_in(std::vector<std::int64_t>& order, std::int64_t epoch, const OrderShape& shape) const;

 private:
  std::map<std::int64_t, BatchPlace> from_;  ///< first position without the sample, by sample index
};

/// The random order of a set, without the skipped samples. If the replicas do not divide an epoch evenly, it is padded
/// here, after skipping, whereas the loader would pad it before.
class SkippingSampler final : public Sampler {
 public:
  SkippingSampler(const OrderShape& shape, std::int64_t replicas, SkippedSamples skipped)
      : shape_(shape), replicas_(replicas), skipped_(std::move(skipped)) {}

  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override {
    return (shape_.size + replicas_ - 1) / replicas_ * replicas_;
  }

 private:
  OrderShape shape_;
  std::int64_t replicas_;
  SkippedSamples skipped_;
};

}  // namespace lockstep::train
