// SPDX-License-Identifier: Apache-2.0
// DigestMeter: adds up the ranks' parts of a step's digest while the next step runs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <optional>

#include "lockstep/comm/process_group.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::train {

/// Owned by the training thread.
class DigestMeter {
 public:
  /// `in_parts`: each rank has only its own part's digest. Lifetime: `group` outlives the meter.
  DigestMeter(ProcessGroup& group, bool in_parts) : group_(group), in_parts_(in_parts) {}

  /// Takes this rank's digest of a step; none if digests are off. Collective: yes, if each rank has a part.
  void add(const std::optional<UpdateDigest>& digest);
  /// Returns the digest of the last added step; a second call returns none. Blocks: until the ranks have combined it.
  [[nodiscard]] std::optional<UpdateDigest> take();

 private:
  ProcessGroup& group_;
  bool in_parts_;
  std::optional<UpdateDigest> own_;
  at::Tensor sums_;  ///< int64: gradients, weights
  Work work_;
};

}  // namespace lockstep::train
