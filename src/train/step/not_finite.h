// SPDX-License-Identifier: Apache-2.0
// Finds the parameters and ranks of gradients and losses that are not finite or far from usual.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/optimizer.h"
#include "train/step/loss_meter.h"

namespace lockstep::train {

/// Thrown if a gradient is not finite and loss scaling is not the cause.
class NonFiniteGradient : public DataError {
 public:
  /// `message` names the gradient; `steps_ago` is 1 for the previous step, if its norms arrived late from a GPU.
  explicit NonFiniteGradient(const std::string& message, std::int64_t steps_ago = 0)
      : DataError(message,
                  "check the loss for a division by zero, or a logarithm or root of 0; or use a smaller optimizer.lr"),
        steps_ago_(steps_ago) {}
  [[nodiscard]] std::int64_t steps_ago() const noexcept { return steps_ago_; }

 private:
  std::int64_t steps_ago_;
};

/// The norms of a step's gradients on a GPU; the host reads them after it has started the next step.
class LateNorms {
 public:
  LateNorms() = default;
  /// `norms` has one norm for each of the `parameters` that has a gradient. Lifetime: the parameters outlive it.
  LateNorms(const at::Tensor& norms, const NamedTensors& parameters);
  /// Returns the names of the parameters with NaN or infinity in their gradients: "fc.weight and 2 more of 10
  /// parameters"; empty if there is none. Blocks: until the device has computed the norms.
  [[nodiscard]] std::string non_finite() const;

 private:
  LateCopy norms_;
  std::vector<const std::string*> names_;
};

/// Returns the names of the parameters with NaN or infinity in their gradients: "fc.weight (3 of 64 elements) and 2
/// more of 10 parameters"; empty if there is none on this rank.
[[nodiscard]] std::string non_finite_gradients(const NamedTensors& parameters);

/// Names the ranks whose loss is not finite: "on rank 1 (replica 1)", "on every rank"; empty if no such replica is
/// known. `replicas[r]` lists these replicas of rank r.
[[nodiscard]] std::string ranks_with_bad_loss(const std::vector<std::vector<std::int64_t>>& replicas);

/// Returns "a.png, b.png, c.png, d.png and 12 more"; "" if there are no names.
[[nodiscard]] std::string some_samples(const std::vector<std::string>& names);

/// The norms of the last steps. Owned by the training thread.
class NormWatch {
 public:
  /// Returns `norm` divided by the median of the last norms if that exceeds kOutlier, otherwise none. The norm is then
  /// added to the last norms. The first kFewest calls return none.
  [[nodiscard]] std::optional<double> add(double norm);

  static constexpr double kOutlier = 20;      ///< times the median; healthy runs stay within a few times the median
  static constexpr std::size_t kFewest = 20;  ///< minimum number of norms for a median
  static constexpr std::size_t kKept = 100;

 private:
  std::deque<double> norms_;
};

/// Returns the parameter with the largest gradient and its share of the squared norm: "fc.weight accounts for 96 % of
/// it".
[[nodiscard]] std::string largest_gradient(const NamedTensors& parameters);

}  // namespace lockstep::train
