// SPDX-License-Identifier: Apache-2.0
#include "train/step/loss_meter.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/tree_sum.h"

namespace lockstep::train {
namespace {

/// Returns the highest-precedence reason that has a vote.
StopReason reason_of(const double* votes) {
  for (int i = kStopReasons; i > 0; --i) {
    if (votes[i - 1] > 0) return static_cast<StopReason>(i);
  }
  return StopReason::kNone;
}

}  // namespace

LateCopy::LateCopy(const at::Tensor& tensor) : host_(tensor) {
  if (tensor.device().is_cpu()) return;
  // A copy to pageable memory would wait for the device.
  host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  host_.copy_(tensor, /*non_blocking=*/true);
  copied_.emplace(tensor.device().type());
  copied_->record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
}

const at::Tensor& LateCopy::get() const {
  // libtorch 1.13 can only poll a device-independent event. In most cases the event has occurred long before this call.
  while (copied_ && !copied_->query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return host_;
}

/// Returns a row with a vote for each reason to end the run, then the loss and its parts.
at::Tensor LossMeter::with_wish(const at::Tensor& loss, StopReason wish) {
  const auto options = loss.options().dtype(at::kDouble);
  if (!no_wish_.defined()) no_wish_ = at::zeros({kStopReasons}, options);
  at::Tensor votes = no_wish_;
  if (wish != StopReason::kNone) {
    votes = at::zeros({kStopReasons}, options);
    votes[static_cast<int>(wish) - 1].fill_(1);
  }
  return at::cat({votes, loss.detach().to(at::kDouble).reshape({-1})});
}

std::optional<LossReading> LossMeter::add(std::int64_t step, const std::vector<at::Tensor>& losses, StopReason wish) {
  const auto before = flush();
  std::vector<at::Tensor> values;
  values.reserve(losses.size());
  for (const at::Tensor& loss : losses) values.push_back(with_wish(loss, wish));
  pending_ = partial_sums(values, block_, replicas_);
  pending_step_ = step;
  pending_left_out_ = false;
  work_ = group_.all_reduce(pending_, {.op = ReduceOp::kMean, .replicas = replicas_});
  if (!pending_.device().is_cpu()) {
    work_.wait();  // the stream waits, not this thread
    combined_ = LateCopy(pending_[0].contiguous());
  }
  return before;
}

std::optional<LossReading> LossMeter::flush() {
  if (!pending_.defined()) return std::nullopt;
  if (pending_.device().is_cpu()) work_.wait();
  const at::Tensor row = pending_.device().is_cpu() ? pending_[0].contiguous() : combined_.get();
  pending_.reset();
  const auto* votes = row.data_ptr<double>();
  const double value = votes[kStopReasons];
  LossReading reading{pending_step_, value, {votes + kStopReasons + 1, votes + row.numel()}, reason_of(votes)};
  if (!std::isfinite(value) && pending_left_out_) return reading;
  if (!std::isfinite(value)) {
    throw NonFiniteLoss(pending_step_,
                        fmt::format("the loss of step {} is {}{}", pending_step_, value, words(reading.terms)),
                        "use a smaller optimizer.lr or a clip_norm, or check the samples of that step");
  }
  sum_ += value;
  ++count_;
  return reading;
}

/// Returns the names of the parts that are not finite.
std::string LossMeter::words(const std::vector<double>& terms) const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!std::isfinite(terms[i])) found.push_back(fmt::format("{} {}", i < names_.size() ? names_[i] : "?", terms[i]));
  }
  return found.empty() ? "" : fmt::format(" ({})", text::join(found));
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
