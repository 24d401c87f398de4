// SPDX-License-Identifier: Apache-2.0
#include "detection/task.h"

#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <any>
#include <array>
#include <cstdint>
#include <utility>

#include "common/class_lists.h"
#include "detection/dfine/cost.h"
#include "detection/dfine/fuse.h"
#include "detection/dfine/network.h"
#include "detection/dfine/weights.h"
#include "detection/tally.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/draw_boxes.h"
#include "lockstep/parallel/replica_team.h"

namespace lockstep::detection {
namespace {

const Targets& targets_of(const Batch& batch) {
  const auto* targets = std::any_cast<Targets>(&batch.extra);
  if (targets == nullptr) throw InternalError("the batch has no targets: the loader must use the task's collate()");
  return *targets;
}

/// Throws if a user's own names for the classes are the set's names in a different order.
void require_no_other_order(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  if (words.empty() || words == names || !std::is_permutation(words.begin(), words.end(), names.begin(), names.end()))
    return;
  throw UsageError(fmt::format("class_names has the data's names in a different order: {} instead of {}",
                               text::join(words), text::join(names)),
                   "data.class_names sets the order of Pascal VOC labels");
}

NetworkChoice small_network(const ModelOptions& model) {
  return {.coarsest_stride = model.coarsest_stride(),
          .reg_scale = model.reg_scale,
          .up = model.up,
          .name =
              [model] {
                return fmt::format("detector with {} channels, {} queries, {} decoder layers", model.hidden,
                                   model.queries, model.decoder_layers);
              },
          .make = [model] { return std::make_shared<Detector>(model); }};
}

NetworkChoice published_network(const dfine::Options& model, std::int64_t side) {
  return {.coarsest_stride = dfine::kCoarsestStride,
          .reg_scale = model.reg_scale,
          .up = model.up,
          .as_published = true,
          .name =
              [model, side] {
                return fmt::format("D-FINE with HGNetv2 {}, {} queries, {} decoder layers, in evaluation {}",
                                   model.backbone, model.queries, model.layers,
                                   dfine::to_text(dfine::cost_of(model, side), side));
              },
          .make = [model] { return std::make_shared<dfine::Network>(model); },
          .fit_weights = dfine::fit_weights,
          .fuse = [](torch::nn::Module& module) { static_cast<void>(dfine::fuse(module)); }};
}

}  // namespace

NetworkChoice DetectionConfig::network_choice() const {
  return network == "dfine" ? published_network(published_options(), image_size) : small_network(model_options());
}

std::shared_ptr<Dataset> DetectionTask::make_dataset(const std::string& folder) {
  DatasetOptions options = config_.set_options(folder, false);
  options.opened = open_pictures(options);
  const std::vector<std::string>& here = options.opened->class_names();
  const std::vector<std::string>& known = config_.sets.class_names;
  common::require_same_classes(known.empty() ? names_of_training_ : known, here, folder);
  // The checkpoint is from a version that did not store the set's own names.
  if (known.empty() && names_of_training_.empty()) common::require_same_labels(config_.class_names, here, folder);
  DetectionSet set = open_test_set(options);
  names_of_set_ = set.class_names;
  test_source_ = set.source;
  category_ids_ = set.category_ids;
  return set.dataset;
}

std::shared_ptr<Dataset> DetectionTask::make_training_set(const std::string& folder) {
  DatasetOptions options = config_.set_options(folder, true);
  if (folder == config_.data.train) options.opened = std::exchange(opened_, nullptr);
  DetectionSet set = open_training_set(options, config_.augment_options());
  names_of_training_ = set.class_names;
  return set.dataset;
}

void DetectionTask::settle(DetectionConfig& config) {
  config.data.test = config.test_data();
  opened_ = open_pictures(config.set_options(config.data.train, true));
  const std::vector<std::string>& names = opened_->class_names();
  common::require_same_classes(config.sets.class_names, names, config.data.train);
  if (config.num_classes.is_auto()) {
    const std::int64_t count = count_classes(*opened_);
    if (count == 0) throw no_boxes(config.data.train);
    config.num_classes = count;
  } else if (!names.empty() && std::ssize(names) != config.num_classes) {
    throw UsageError(fmt::format("num_classes is {}, but {} has {}", config.num_classes.value(), config.data.train,
                                 common::counted_names(std::ssize(names), names)),
                     "omit num_classes: it follows the data");
  }
  require_no_other_order(config.class_names, names);
  config.sets.class_names = names;
  if (config.class_names.empty()) config.class_names = names;
  config.validate();
}

Collate DetectionTask::collate() const { return collate_of(config_.augment_options()); }

std::shared_ptr<torch::nn::Module> DetectionTask::make_model() {
  if (config_.num_classes.is_auto()) {
    throw UsageError("num_classes is auto, but the data has not been read", "set a number, or call settle() first");
  }
  return config_.network_choice().make();
}

std::vector<std::string> DetectionTask::fit_weights(StateDict& weights, const NamedTensors& model) {
  const auto fit = config_.network_choice().fit_weights;
  return fit ? fit(weights, model) : std::vector<std::string>();
}

std::optional<TorchValue> DetectionTask::origin_file(const ModelStates& states) const {
  if (!config_.network_choice().as_published) return std::nullopt;
  TorchDict file = {{"last_epoch", TorchValue{states.epochs - 1}}, {"model", to_torch_value(states.model)}};
  if (states.average) {
    TorchDict average = {{"module", to_torch_value(*states.average)}, {"updates", TorchValue{states.updates}}};
    file.emplace_back("ema", TorchValue{std::move(average)});
  }
  return TorchValue{std::move(file)};
}

void DetectionTask::prepare_inference(torch::nn::Module& model) {
  if (const auto fuse = config_.network_choice().fuse) fuse(model);
}

std::optional<nn::NetworkFunction> DetectionTask::network_function(torch::nn::Module& model) {
  auto& detector = dynamic_cast<DetectionNetwork&>(model);
  nn::NetworkFunction function{.inputs = {"images"}, .outputs = {"logits", "boxes"}};
  function.is_set = true;
  function.example = [size = config_.image_size](std::int64_t batch) -> std::vector<at::Tensor> {
    return {at::rand({batch, 3, size, size})};
  };
  function.run = [&detector](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const Outputs outputs = detector.forward(arguments[0], nullptr);  // only the outputs of the last layer
    return {outputs.at("logits").select(0, 0), outputs.at("boxes").select(0, 0)};
  };
  for (std::int64_t label = 0; label < config_.num_classes; ++label) function.names.push_back(class_name(label));
  return function;
}

std::optional<nn::NetworkFunction> DetectionTask::deployed_function(torch::nn::Module& model) {
  nn::NetworkFunction function = *network_function(model);
  function.inputs.emplace_back("orig_target_sizes");
  function.outputs = {"labels", "boxes", "scores"};
  function.example = [images = function.example](std::int64_t batch) {
    std::vector<at::Tensor> arguments = images(batch);
    arguments.push_back(at::randint(200, 800, {batch, 2}, at::kLong));
    return arguments;
  };
  function.run = [network = function.run](const std::vector<at::Tensor>& arguments) {
    const std::vector<at::Tensor> results = network({arguments[0]});
    return decode_together(results[0], results[1], arguments[1]);
  };
  std::vector<std::array<std::uint8_t, 3>> colors;
  for (std::int64_t label = 0; label < config_.num_classes; ++label) colors.push_back(mark_ink(label));
  function.page =
      fmt::format(R"({{"picture": "resized", "answer": "boxes", "threshold": {}, "colors": {}}})", kConfident, colors);
  return function;
}

Outputs DetectionTask::run(torch::nn::Module& model, const Batch& batch) {
  auto& detector = dynamic_cast<DetectionNetwork&>(model);
  if (!model.is_training()) return detector.forward(batch.data, nullptr);
  if (!layers_.are_of(model)) layers_ = LayersAtOnce(model);
  const LayersAtOnce::Scope scope(layers_);
  return detector.forward(batch.data, &targets_of(batch));
}

Outputs DetectionTask::run_exported(const nn::TensorFunction& network, const Batch& batch) {
  const std::vector<at::Tensor> results = network({batch.data});
  return {{"logits", results.at(0).unsqueeze(0)}, {"boxes", results.at(1).unsqueeze(0)}};
}

std::vector<LossTerm> DetectionTask::loss_terms(const Outputs& outputs, const Batch& batch) {
  // Outside a run (`lockstep tune`, tests) there are no replicas, and the batch's own counts are used.
  return criterion(outputs, targets_of(batch), config_.criterion_options(), [](const at::Tensor& counts) {
    if (Replica* replica = find_replica()) replica->all_reduce(counts);
  });
}

std::unique_ptr<Tally> DetectionTask::make_tally() const {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < config_.num_classes; ++label) names.push_back(class_name(label));
  return std::make_unique<DetectionTally>(std::move(names), test_source_, category_ids_);
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

std::string DetectionTask::model_name() const { return config_.network_choice().name(); }

std::string DetectionTask::class_name(std::int64_t label) const {
  const auto at = static_cast<std::size_t>(label);
  if (at < config_.class_names.size()) return config_.class_names[at];
  return at < names_of_set_.size() ? names_of_set_[at] : fmt::format("class {}", label);
}

}  // namespace lockstep::detection
