// SPDX-License-Identifier: Apache-2.0
#include "train/step/digest_meter.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace lockstep::train {

void DigestMeter::add(const std::optional<UpdateDigest>& digest) {
  own_ = digest;
  if (!own_ || !in_parts_ || group_.world_size() == 1) return;
  sums_ = at::empty({2}, at::kLong);
  auto* sums = sums_.data_ptr<std::int64_t>();
  sums[0] = static_cast<std::int64_t>(own_->gradients);
  sums[1] = static_cast<std::int64_t>(own_->weights);
  work_ = group_.all_reduce(sums_);
}

std::optional<UpdateDigest> DigestMeter::take() {
  std::optional<UpdateDigest> digest = std::exchange(own_, std::nullopt);
  if (!digest || !sums_.defined()) return digest;
  work_.wait();
  const auto* sums = std::as_const(sums_).data_ptr<std::int64_t>();
  digest = UpdateDigest{static_cast<std::uint64_t>(sums[0]), static_cast<std::uint64_t>(sums[1])};
  sums_.reset();
  return digest;
}

}  // namespace lockstep::train
