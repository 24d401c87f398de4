// SPDX-License-Identifier: Apache-2.0
#include "train/loss_meter.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::train {

void LossMeter::add(std::int64_t step, const at::Tensor& loss) {
  flush();
  pending_ = loss.detach().to(at::kCPU, at::kDouble).reshape({1}).clone();
  pending_step_ = step;
  work_ = group_.all_reduce(pending_, {.op = ReduceOp::kMean});
}

void LossMeter::flush() {
  if (!pending_.defined()) return;
  work_.wait();
  const auto value = pending_.item<double>();
  pending_.reset();
  if (!std::isfinite(value)) {
    throw DataError(fmt::format("the loss of step {} is {}", pending_step_, value),
                    "a smaller optimizer.lr, a clip_norm, or a look at the samples of that step");
  }
  latest_ = value;
  sum_ += value;
  ++count_;
}

std::optional<double> LossMeter::mean() const noexcept {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

void LossMeter::reset_mean() noexcept {
  sum_ = 0;
  count_ = 0;
}

}  // namespace lockstep::train
