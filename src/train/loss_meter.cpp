// SPDX-License-Identifier: Apache-2.0
#include "train/loss_meter.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/comm/tree_sum.h"

namespace lockstep::train {

std::optional<LossReading> LossMeter::add(std::int64_t step, const std::vector<at::Tensor>& losses) {
  const auto before = flush();
  std::vector<at::Tensor> values;
  values.reserve(losses.size());
  for (const at::Tensor& loss : losses) values.push_back(loss.detach().to(at::kDouble).reshape({1}));
  pending_ = partial_sums(values, block_, replicas_);
  pending_step_ = step;
  pending_left_out_ = false;
  work_ = group_.all_reduce(pending_, {.op = ReduceOp::kMean, .replicas = replicas_});
  if (!pending_.device().is_cpu()) {
    work_.wait();  // makes the stream wait, not this thread
    combined_ = LateCopy(pending_[0]);
  }
  return before;
}

std::optional<LossReading> LossMeter::flush() {
  if (!pending_.defined()) return std::nullopt;
  if (pending_.device().is_cpu()) work_.wait();
  const auto value = pending_.device().is_cpu() ? pending_[0].item<double>() : combined_.get().item<double>();
  pending_.reset();
  if (!std::isfinite(value) && pending_left_out_) return LossReading{pending_step_, value};
  if (!std::isfinite(value)) {
    throw DataError(fmt::format("the loss of step {} is {}", pending_step_, value),
                    "a smaller optimizer.lr, a clip_norm, or a look at the samples of that step");
  }
  sum_ += value;
  ++count_;
  return LossReading{pending_step_, value};
}

std::optional<double> LossMeter::mean() const noexcept {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

void LossMeter::start_mean(double sum, std::int64_t count) noexcept {
  sum_ = sum;
  count_ = count;
}

}  // namespace lockstep::train
