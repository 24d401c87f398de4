// SPDX-License-Identifier: Apache-2.0
#include "train/setup/metric_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::train {

void require_metrics(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& test_set,
                     torch::nn::Module& net) {
  std::vector<std::pair<std::string, std::string>> wanted = {{"stop_at.metric", config.stop_at.metric}};
  if (config.schedule.type == "plateau") wanted.emplace_back("schedule.metric", config.schedule.metric);
  std::erase_if(wanted, [](const auto& key) { return key.second.empty(); });
  if (wanted.empty() || !test_set || test_set->size() == 0) return;
  const auto first = make_dataset(1, [&](std::int64_t index) {
    SampleContext context(static_cast<std::uint64_t>(config.seed), 0, index);
    return test_set->get(index, context);
  });
  const EvaluateOptions options{
      .batch_size = 1, .workers = 0, .amp = config.amp, .channels_last = config.channels_last};
  std::vector<std::string> names;
  for (const Metric& metric : evaluate(job, task, net, first, options).metrics) names.push_back(metric.name);
  for (const auto& [key, name] : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw UsageError(
        fmt::format("{} is '{}', which the evaluation does not have{}", key, name, text::did_you_mean(name, names)),
        fmt::format("one of {}", text::join(names)));
  }
}

}  // namespace lockstep::train
