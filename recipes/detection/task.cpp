// SPDX-License-Identifier: Apache-2.0
#include "detection/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>

#include "detection/tally.h"
#include "lockstep/base/error.h"
#include "lockstep/parallel/replica_team.h"

namespace lockstep::detection {
namespace {

const Targets& targets_of(const Batch& batch) {
  const auto* targets = std::any_cast<Targets>(&batch.extra);
  if (targets == nullptr) throw InternalError("a batch without targets: the loader has to use the task's collate()");
  return *targets;
}

/// Labels are numbered by each set for itself: with other classes they would mean other things.
void require_same_classes(const std::vector<std::string>& training, const std::vector<std::string>& here,
                          const std::string& path) {
  if (training.empty() || here.empty() || training == here) return;
  const auto [a, b] = std::mismatch(training.begin(), training.end(), here.begin(), here.end());
  throw DataError(fmt::format("{} has other classes than data.train: class {} is {} there and {} here", path,
                              a - training.begin(), a == training.end() ? "none" : *a, b == here.end() ? "none" : *b),
                  "both sets need the same list of classes");
}

}  // namespace

std::shared_ptr<Dataset> DetectionTask::make_dataset(const std::string& folder) {
  DetectionSet set = open_test_set(config_.set_options(folder, false));
  require_same_classes(names_of_training_, set.class_names, folder);
  names_of_set_ = set.class_names;
  test_source_ = set.source;
  return set.dataset;
}

std::shared_ptr<Dataset> DetectionTask::make_training_set(const std::string& folder) {
  DetectionSet set = open_training_set(config_.set_options(folder, true), config_.augment_options());
  names_of_training_ = set.class_names;
  return set.dataset;
}

Collate DetectionTask::collate() const { return collate_of(config_.augment_options()); }

std::shared_ptr<torch::nn::Module> DetectionTask::make_model() {
  return std::make_shared<Detector>(config_.model_options());
}

Outputs DetectionTask::run(torch::nn::Module& model, const Batch& batch) {
  auto& detector = dynamic_cast<Detector&>(model);
  return detector.forward(batch.data, model.is_training() ? &targets_of(batch) : nullptr);
}

std::vector<LossTerm> DetectionTask::loss_terms(const Outputs& outputs, const Batch& batch) {
  // Outside of a run (`lockstep tune`, tests) a batch stands for itself.
  return criterion(outputs, targets_of(batch), config_.criterion_options(), [](const at::Tensor& counts) {
    if (Replica* replica = find_replica()) replica->all_reduce(counts);
  });
}

std::unique_ptr<Tally> DetectionTask::make_tally() const {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < config_.num_classes; ++label) names.push_back(class_name(label));
  return std::make_unique<DetectionTally>(std::move(names), test_source_);
}

StateDict DetectionTask::batch_state(const Batch& batch) const {
  StateDict state = Task::batch_state(batch);
  const Targets& targets = targets_of(batch);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    state[fmt::format("boxes.{}", i)] = targets[i].boxes;
    state[fmt::format("labels.{}", i)] = targets[i].labels;
  }
  return state;
}

std::string DetectionTask::model_name() const {
  const ModelOptions& model = config_.model;
  return fmt::format("detector of {} channels, {} queries, {} decoder layers", model.hidden, model.queries,
                     model.decoder_layers);
}

std::string DetectionTask::class_name(std::int64_t label) const {
  const auto at = static_cast<std::size_t>(label);
  if (at < config_.class_names.size()) return config_.class_names[at];
  return at < names_of_set_.size() ? names_of_set_[at] : fmt::format("class {}", label);
}

}  // namespace lockstep::detection
