// SPDX-License-Identifier: Apache-2.0
// Settings that name a metric, judged before an epoch is spent on a word that is misspelt.
#pragma once

#include <memory>

#include "lockstep/comm/job.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Evaluates one sample of `test_set` where stop_at.metric or schedule.metric names a metric; it does nothing without a
/// set.
/// Collective: yes. Throws: UsageError naming the key and the nearest metric.
void require_metrics(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& test_set,
                     torch::nn::Module& net);

}  // namespace lockstep::train
