// SPDX-License-Identifier: Apache-2.0
#include "segmentation/task.h"

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <any>
#include <array>

#include "common/class_lists.h"
#include "common/imagenet_values.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "segmentation/metrics/overlay.h"
#include "segmentation/model/origin_names.h"
#include "segmentation/tally.h"

namespace lockstep::segmentation {
namespace {

const std::vector<EvalPicture>& pictures_of(const Batch& batch) {
  const auto* pictures = std::any_cast<std::vector<EvalPicture>>(&batch.extra);
  if (pictures == nullptr) throw InternalError("a batch without images: the loader must use the task's collate()");
  return *pictures;
}

LogitsOf logits_of(torch::nn::Module& model) {
  return [&segmenter = dynamic_cast<Segmenter&>(model)](const at::Tensor& pictures) {
    return segmenter.forward(pictures, {}).at("logits");
  };
}

/// The original name of the network if it has one, as in "res50_ASPP_lorm".
std::string name_of(const ModelOptions& model) {
  const std::int64_t layers = model.backbone.layers;
  if (model.type == ModelType::kAsppLorm) return fmt::format("res{}_ASPP_lorm", layers);
  return fmt::format("{} with ResNet-{}", to_string(model.type), layers);
}

/// Rejects settings that leave a last batch of one image, which would make the run fail after a whole epoch.
void require_no_single_picture(const SegmentationConfig& config, std::int64_t pictures) {
  if (config.drop_last || config.sync_batchnorm || config.batch_size.is_auto() || config.replicas < 1) return;
  const std::int64_t of_replica = (pictures + config.replicas - 1) / config.replicas;
  if (of_replica % config.batch_size != 1) return;
  throw UsageError(fmt::format("{} images in batches of {} on {} replicas leave a last batch of one, but the pooled "
                               "branch's batch norm needs two",
                               pictures, config.batch_size.value(), config.replicas),
                   "set drop_last=true, another batch_size, or sync_batchnorm=true with several replicas");
}

}  // namespace

std::shared_ptr<Dataset> SegmentationTask::make_dataset(const std::string& folder) {
  SegmentationSet set = open_test_set(config_.set_options(folder, false));
  names_of_set_ = set.source->class_names();
  common::require_same_labels(config_.class_names, names_of_set_, folder);
  test_source_ = set.source;
  return set.dataset;
}

std::shared_ptr<Dataset> SegmentationTask::make_training_set(const std::string& folder) {
  const SegmentationSet set = open_training_set(config_.set_options(folder, true), config_.augment);
  common::require_same_labels(config_.class_names, set.source->class_names(), folder);
  require_no_single_picture(config_, set.dataset->size());
  return set.dataset;
}

void SegmentationTask::settle(SegmentationConfig& config) {
  config.data.test = config.test_data();
  if (!config.class_names.empty()) {
    if (config.num_classes.is_auto()) config.num_classes = std::ssize(config.class_names);
    return config.validate();
  }
  const SetClasses set = classes_of(config.set_options(config.data.train, true));
  if (config.num_classes.is_auto()) config.num_classes = set.count;
  if (set.count != config.num_classes) {
    throw UsageError(fmt::format("num_classes is {}, but {} has {} classes ({})", config.num_classes.value(),
                                 config.data.train, set.count, text::join(set.names)),
                     "omit num_classes: it follows the data");
  }
  config.class_names = set.names;
  config.validate();
}

std::shared_ptr<torch::nn::Module> SegmentationTask::make_model() {
  if (config_.num_classes.is_auto()) {
    throw UsageError("num_classes is auto, but the data has not been read", "set a number, or call settle() first");
  }
  return std::make_shared<Segmenter>(config_.model_options());
}

std::vector<std::string> SegmentationTask::fit_weights(StateDict& weights, const NamedTensors& model) {
  return take_origin_names(weights, model);
}

std::optional<TorchValue> SegmentationTask::origin_file(const ModelStates& states) const {
  const StateDict theirs = give_origin_names(states.best(), config_.model_options());
  return TorchValue{TorchDict{{"epoch", TorchValue{states.epochs - 1}}, {"state_dict", to_torch_value(theirs)}}};
}

std::int64_t SegmentationTask::exported_side() const {
  return config_.eval.window > 0 ? config_.eval.window : config_.augment.crop;
}

std::optional<nn::NetworkFunction> SegmentationTask::network_function(torch::nn::Module& model) {
  auto& segmenter = dynamic_cast<Segmenter&>(model);
  const std::int64_t side = exported_side();
  nn::NetworkFunction function{.inputs = {"pictures"}, .outputs = {"shares"}, .names = class_names()};
  function.example = [side](std::int64_t batch) -> std::vector<at::Tensor> {
    return {at::rand({batch, 3, side, side})};
  };
  function.run = [&segmenter, side,
                  values = ImageNetValues()](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor logits = segmenter.forward(values.normalized(arguments[0])).at("logits");
    return {at::softmax(at::upsample_bilinear2d(logits, {side, side}, /*align_corners=*/true), 1)};
  };
  std::vector<std::array<std::uint8_t, 3>> colors;
  for (std::int64_t label = 0; label < config_.num_classes; ++label) colors.push_back(class_color(label));
  const WindowOptions windows = config_.window_options();
  function.page = fmt::format(
      R"({{"picture": "windows", "answer": "mask", "colors": {}, "windows": {{"overlap": {}, "scales": {}, "flip": {}, "base_size": {}, "whole": {}}}}})",
      colors, windows.overlap, windows.scales, windows.flip, windows.base_size, windows.window == 0);
  return function;
}

at::Tensor SegmentationTask::look_at(torch::nn::Module& model, const at::Tensor& picture) const {
  return class_shares(picture, logits_of(model), config_.window_options());
}

Outputs SegmentationTask::classes_of_batch(const Batch& batch, const LogitsOf& logits) const {
  const auto& pictures = pictures_of(batch);
  at::Tensor classes = at::full({batch.data.size(0), batch.data.size(2), batch.data.size(3)}, kUnlabelled,
                                batch.data.options().dtype(at::kByte));
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::int64_t height = pictures[i].mask.size(0);
    const std::int64_t width = pictures[i].mask.size(1);
    const auto place = static_cast<std::int64_t>(i);
    const at::Tensor shares =
        class_shares(batch.data[place].narrow(1, 0, height).narrow(2, 0, width), logits, config_.window_options());
    classes[place].narrow(0, 0, height).narrow(1, 0, width).copy_(shares.argmax(0));
  }
  return {{"classes", classes}};
}

Outputs SegmentationTask::run_exported(const nn::TensorFunction& network, const Batch& batch) {
  return classes_of_batch(batch, [&, side = exported_side(), values = ImageNetValues()](const at::Tensor& views) {
    if (views.size(2) != side || views.size(3) != side) {
      throw UsageError(
          fmt::format("the exported network takes windows of {0} x {0} pixels, but this evaluation uses {1} x {2}",
                      side, views.size(3), views.size(2)),
          "export and evaluate with --set eval.window=N, where N is at most the shorter side of each image");
    }
    // The network applies softmax itself; the softmax of the logarithms of its outputs recovers the outputs.
    return network({values.restored(views)}).at(0).log();
  });
}

Outputs SegmentationTask::run(torch::nn::Module& model, const Batch& batch) {
  if (model.is_training()) {
    const Planes planes = config_.planes();
    const std::int64_t labels = planes.pseudo_labels ? planes.pseudo() : Planes::labels();
    return dynamic_cast<Segmenter&>(model).forward(
        batch.data, config_.loss_options().lorm > 0 ? batch.target.select(1, labels) : at::Tensor());
  }
  return classes_of_batch(batch, logits_of(model));
}

std::vector<LossTerm> SegmentationTask::loss_terms(const Outputs& outputs, const Batch& batch) {
  return losses(outputs, batch.target, config_.planes(), config_.loss_options());
}

std::unique_ptr<Tally> SegmentationTask::make_tally() const {
  return std::make_unique<SegmentationTally>(class_names(), test_source_);
}

std::vector<std::string> SegmentationTask::class_names() const {
  std::vector<std::string> names = config_.class_names.empty() ? names_of_set_ : config_.class_names;
  names.resize(std::min(names.size(), static_cast<std::size_t>(config_.num_classes)));
  while (std::ssize(names) < config_.num_classes) names.push_back(fmt::format("class_{}", names.size()));
  return names;
}

std::string SegmentationTask::model_name() const {
  const LossOptions loss = config_.loss_options();
  std::vector<std::string> terms;
  for (const auto& [name, weight] : {std::pair<const char*, double>{"segmentation", loss.segmentation},
                                     {"pseudo", loss.pseudo},
                                     {"distance_scribble", loss.distance_scribble},
                                     {"distance_class", loss.distance_class},
                                     {"lorm", loss.lorm}}) {
    if (weight > 0) terms.push_back(weight == 1 ? std::string(name) : fmt::format("{:g} {}", weight, name));
  }
  return fmt::format("{}, stride {}, learns from {} ({})", name_of(config_.model_options()),
                     config_.model.backbone.output_stride, config_.sets.labels, text::join(terms));
}

}  // namespace lockstep::segmentation
