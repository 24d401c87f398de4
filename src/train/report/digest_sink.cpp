// SPDX-License-Identifier: Apache-2.0
#include "train/report/digest_sink.h"

#include <bit>
#include <cmath>
#include <limits>

namespace lockstep::train {

std::uint64_t loss_bits(double loss) {
  return std::bit_cast<std::uint64_t>(std::isnan(loss) ? std::numeric_limits<double>::quiet_NaN() : loss);
}

view::DigestRecord digest_record(const StepResult& step) {
  return {.step = step.step,
          .loss = step.digest->loss,
          .gradients = step.digest->gradients,
          .weights = step.digest->weights};
}

void DigestSink::on_start(const RunStart& event) {
  chain_.emplace(folder_.path(), view::DigestBegin{.step = event.step, .fold = fold_});
}

void DigestSink::on_step(const StepResult& event) {
  if (chain_ && event.digest) chain_->add(digest_record(event));
}

}  // namespace lockstep::train
