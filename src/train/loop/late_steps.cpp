// SPDX-License-Identifier: Apache-2.0
#include "train/loop/late_steps.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/view/digest_chain.h"
#include "train/report/digest_sink.h"
#include "train/step/not_finite.h"

namespace lockstep::train {

LateSteps::LateSteps(Learner& learner, RunSinks& sinks, RunState& run, DigestMeter digests)
    : learner_(learner), sinks_(sinks), run_(run), digests_(std::move(digests)), rate_(SystemClock::instance()) {}

void LateSteps::expect(StepResult step) {
  digests_.add(learner_.steps().weights().digest());
  waiting_ = std::move(step);
}

void LateSteps::take_digest(double loss, StepResult& step) {
  const auto digest = digests_.take();
  if (!digest) return;
  step.digest = {.loss = loss_bits(loss), .gradients = digest->gradients, .weights = digest->weights};
  run_.digest_fold = view::fold_digest(run_.digest_fold, digest_record(step));
}

void LateSteps::report(const std::optional<LossReading>& reading) {
  if (reading && reading->stop != StopReason::kNone) stop_ = reading->stop;
  if (!reading || !waiting_) return;
  StepResult step = std::move(*waiting_);
  waiting_.reset();
  if (std::isfinite(reading->loss)) step.loss = reading->loss;
  for (std::size_t i = 0; i < reading->terms.size(); ++i) {
    step.terms.emplace_back(learner_.steps().pass().loss_names().at(i), reading->terms[i]);
  }
  take_digest(reading->loss, step);
  rate_.add(step.images);
  step.images_per_s = rate_.rate();
  sinks_.step(step);
}

void LateSteps::flush() {
  const std::int64_t step = waiting_ ? waiting_->step : 0;
  report(learner_.loss().flush());
  try {
    learner_.steps().weights().require_last_finite();
  } catch (const NonFiniteGradient& fault) {
    throw DataError(fmt::format("step {}: {}", text::thousands(step), fault.message()), fault.hint());
  }
}

}  // namespace lockstep::train
