// SPDX-License-Identifier: Apache-2.0
#include "segmentation/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "common/held_out.h"
#include "common/scene_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"

namespace lockstep::segmentation {
namespace {

constexpr ConfigRange kShare{0, 1};
constexpr ConfigRange kWeight{.least = 0};
constexpr ConfigRange kScale{0.05, 20};
constexpr double kMostClasses = 255;  // kUnlabelled is not a class
constexpr double kLargestSide = 65536;

double number_of(const std::string& key, const std::string& text) {
  if (const auto value = text::parse_number(text); value && std::isfinite(*value)) return *value;
  throw UsageError(fmt::format("{} has '{}', which is not a number", key, text));
}

std::vector<std::int64_t> rates_of(const std::vector<std::string>& texts) {
  std::vector<std::int64_t> rates;
  for (const std::string& text : texts) {
    const double rate = number_of("model.rates", text);
    if (rate != std::floor(rate)) {
      throw UsageError(fmt::format("model.rates has {}; a dilation is a whole number", text));
    }
    rates.push_back(static_cast<std::int64_t>(rate));
  }
  if (!rates.empty() && rates.size() != 3) {
    throw UsageError(fmt::format("model.rates has {} dilations; it must have 3", rates.size()));
  }
  return rates;
}

void require_classes_and_names(const AutoInt& classes, const std::vector<std::string>& names) {
  if (!classes.is_auto()) {
    const std::int64_t count = classes;
    if (!names.empty() && std::ssize(names) != count) {
      throw UsageError(fmt::format("class_names has {} names for {} classes", names.size(), count));
    }
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) == name) continue;
    throw UsageError(fmt::format("class_names has {} twice", *name));
  }
}

/// Requires a loss that trains the head: LoRM has no gradient for the head.
void require_a_loss(const LossOptions& loss, bool full) {
  if (loss.segmentation + loss.pseudo + loss.distance_scribble + loss.distance_class > 0) return;
  throw UsageError(full ? "loss.segmentation is 0, and full masks have no other loss"
                        : "loss.segmentation, loss.pseudo, loss.distance_scribble and loss.distance_class are all 0",
                   "set a weight above 0");
}

std::uint8_t value_of_mask(const std::string& text) {
  std::int64_t number = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = fault == std::errc() && end == text.data() + text.size();
  if (whole && number >= 0 && number <= 255) return static_cast<std::uint8_t>(number);
  throw UsageError(fmt::format("data.mask_values has '{}'; values and class ids are 0 .. 255", text),
                   "such as data.mask_values='{0: 0, 255: 1}'");
}

MaskValues values_of_masks(const std::vector<ConfigMap>& maps) {
  MaskValues values = plain_mask_values();
  for (const ConfigMap& map : maps) {
    for (const auto& [value, id] : map) {
      const auto* text = std::get_if<std::string>(&id);
      values[value_of_mask(value)] = value_of_mask(text == nullptr ? "a list" : *text);
    }
  }
  return values;
}

std::vector<std::uint8_t> listed_values(const std::vector<ConfigMap>& maps) {
  std::vector<std::uint8_t> values;
  for (const ConfigMap& map : maps) {
    for (const auto& entry : map) values.push_back(value_of_mask(entry.first));
  }
  return values;
}

void describe_sets(ConfigFields& fields, SegmentationConfig::Sets& sets) {
  fields.add("data.labels", &sets.labels, "training labels: scribbles, or masks that label every pixel",
             {"scribbles", "masks"});
  fields.add("data.train_split", &sets.train_split, "VOC: name of a list in ImageSets/SegmentationAug or Segmentation");
  fields.add("data.test_split", &sets.test_split, "the same for data.test");
  fields.add("data.masks", &sets.masks,
             "folder of full masks, absolute or relative to the set; empty: that of the layout");
  fields.add("data.mask_values", &sets.mask_values,
             "class ids for values of full masks, such as {0: 0, 255: 1}; other values are ids, 255: unlabelled");
  fields.add("data.scribbles", &sets.scribbles, "folder of scribbles (class ids, 255: unlabelled)");
  fields.add("data.pseudo_labels", &sets.pseudo_labels, "folder of pseudo-labels (class ids, 255: unlabelled)");
  fields.add("data.distance_scribble", &sets.distance_scribble,
             "folder of distances to scribbles (255: on a scribble)");
  fields.add("data.distance_class", &sets.distance_class,
             "folder of distances to contours of pseudo-labels (0: on a contour)");
  fields.add("data.strict", &sets.strict, "false: images without a mask or map are skipped and counted");
  common::describe_held_out(fields, sets.val_fraction, sets.split_seed);
}

void describe_losses(ConfigFields& fields, LossOptions& loss) {
  fields.add("loss.segmentation", &loss.segmentation, "weight of the cross entropy with the labels (255 is ignored)")
      .in(kWeight);
  fields.add("loss.pseudo", &loss.pseudo, "weight of the cross entropy with the pseudo-labels; 0: not computed")
      .in(kWeight);
  fields.add("loss.distance_scribble", &loss.distance_scribble, "weight of the entropy near scribbles; 0: not computed")
      .in(kWeight);
  fields.add("loss.distance_class", &loss.distance_class, "weight of the entropy away from contours; 0: not computed")
      .in(kWeight);
  fields.add("loss.lorm", &loss.lorm, "weight of the localization rectification module (types *_lorm); 0: not computed")
      .in(kWeight);
  fields.add("loss.label_smoothing", &loss.label_smoothing, "label smoothing of the pseudo-labels").in(kShare);
}

void describe_augment(ConfigFields& fields, AugmentOptions& augment) {
  fields.add("augment.crop", &augment.crop, "width and height of a training crop in pixels").in({1, 8192}, "pixels");
  fields.add("augment.scale_min", &augment.scale_min, "smallest scale factor of the whole image before the crop")
      .in(kScale);
  fields.add("augment.scale_max", &augment.scale_max, "largest scale factor of the whole image before the crop")
      .in(kScale);
  fields.add("augment.rotate_degrees", &augment.rotate_degrees, "largest rotation, in either direction")
      .in({0, 180}, "degrees");
  fields.add("augment.rotate_prob", &augment.rotate_prob, "probability of a rotation").in(kShare);
  fields.add("augment.blur_prob", &augment.blur_prob, "probability of a Gaussian blur of 5 x 5 pixels").in(kShare);
  fields.add("augment.photometric_prob", &augment.photometric_prob, "probability of each photometric distortion")
      .in(kShare);
  fields.add("augment.flip_prob", &augment.flip_prob, "probability of a horizontal flip").in(kShare);
}

constexpr std::array<std::int64_t, 5> kLayers = {18, 34, 50, 101, 152};
constexpr const char* kLayersText = "18, 34, 50, 101 or 152";

}  // namespace

SegmentationConfig::SegmentationConfig() {
  batch_size = 8;
  epochs = 50;
  workers = 4;
  drop_last = true;  // the pooled branch's batch norm needs two images
  optimizer = {.type = "sgd", .lr = 1e-3, .weight_decay = 5e-4, .lr_scaling = "replicas"};
  optimizer.momentum = "0.9";
  schedule.type = "cosine";
  schedule.warmup_epochs = 5;
  schedule.min_lr = 0;
}

void SegmentationConfig::describe(ConfigFields& fields) {
  TrainConfig::describe(fields);
  fields.at("data.allow_outside").unused = "a list can only name files in the set's own folders";
  fields
      .add("num_classes", &num_classes,
           "labels are 0 .. num_classes - 1, 255 is unlabelled; auto: the number of data.train's classes")
      .in({2, kMostClasses}, "classes");
  fields.add("class_names", &class_names, "class names by label, for reports; empty: those of data.train");
  describe_sets(fields, sets);
  fields.add("model.type", &model_type, "aspp_lorm, deeplabv2, deeplabv3p or deeplabv3p_lorm",
             {"aspp_lorm", "deeplabv2", "deeplabv3p", "deeplabv3p_lorm"});
  fields.add("model.layers", &model.backbone.layers, std::string("depth of the ResNet: ") + kLayersText)
      .in({18, 152}, "layers");
  fields.add("model.output_stride", &model.backbone.output_stride, "stride of the last feature map in pixels: 8 or 16")
      .in({8, 16}, "pixels");
  fields.add("model.stride_in_1x1", &model.backbone.stride_in_1x1,
             "put a bottleneck's stride in its first convolution; false: in its 3x3 convolution, as in torchvision");
  fields.add("model.rates", &rates, "three dilations of the pyramid; empty: 12, 18, 24, or 6, 12, 18 for deeplabv3p")
      .in({1, 1024});
  fields.add("model.dropout", &model.dropout, "dropout before the last layer of deeplabv3p")
      .in({.least = 0, .most = 1, .below = true});
  describe_losses(fields, loss);
  describe_augment(fields, augment);
  fields
      .add("eval.window", &eval.window,
           "side of the window that the network sees at once, in pixels; 0: the whole image")
      .in({0, kLargestSide}, "pixels");
  fields.add("eval.overlap", &eval.overlap, "overlap of neighbouring windows, as a share of a window")
      .in({.least = 0, .most = 1, .below = true});
  fields.add("eval.scales", &eval_scales, "image scales whose class probabilities are averaged").in(kScale);
  fields.add("eval.flip", &eval.flip, "also evaluate the mirror image of each window");
  fields.add("eval.base_size", &eval.base_size, "longer side in pixels at scale 1; 0: the image's own")
      .in({0, kLargestSide}, "pixels");
}

void SegmentationConfig::validate() const {
  TrainConfig::validate();
  require_classes_and_names(num_classes, class_names);
  if (augment.scale_max < augment.scale_min) {
    throw UsageError(
        fmt::format("augment.scale_max {} is below augment.scale_min {}", augment.scale_max, augment.scale_min));
  }
  if (sets.val_fraction > 0 && !data.test.empty() && data.test != data.train) {
    throw UsageError(fmt::format("data.val_fraction is {}, but data.test is {}", sets.val_fraction, data.test),
                     "each of them defines the test set: set only one");
  }
  if (sets.val_fraction > 0 && common::names_scenes(data.train)) {
    throw UsageError("data.val_fraction is set, but data.train is a set of generated scenes",
                     "data.test=scenes:COUNT:SEED");
  }
  require_a_loss(loss_options(), full());
  (void)model_options();
  (void)values_of_masks(sets.mask_values);
  if (!batch_size.is_auto() && batch_size < 2 && !sync_batchnorm) {
    throw UsageError("batch_size is 1: the pooled branch's batch norm needs two images",
                     "batch_size=2, or sync_batchnorm=true with several replicas");
  }
  const WindowOptions windows = window_options();
  if (windows.window != 0) (void)window_starts(2 * windows.window, windows.window, windows.overlap);
}

ModelOptions SegmentationConfig::model_options() const {
  ModelOptions options = model;
  options.classes = num_classes.is_auto() ? 0 : num_classes.value();
  options.type = model_type_from_name(model_type);
  if (options.type == ModelType::kAsppLorm && loss.lorm == 0) options.type = ModelType::kDeepLabV2;
  if (options.type == ModelType::kDeepLabV3PlusLorm && loss.lorm == 0) options.type = ModelType::kDeepLabV3Plus;
  options.rates = rates_of(rates);
  const bool known = std::ranges::count(kLayers, model.backbone.layers) == 1;
  if (!known) throw UsageError(fmt::format("model.layers is {}; it must be {}", model.backbone.layers, kLayersText));
  const std::int64_t stride = model.backbone.output_stride;
  if (stride != 8 && stride != 16)
    throw UsageError(fmt::format("model.output_stride is {}; it must be 8 or 16", stride));
  return options;
}

LossOptions SegmentationConfig::loss_options() const {
  LossOptions options = loss;
  if (!has_lorm(model_type_from_name(model_type))) options.lorm = 0;
  if (full()) options.pseudo = options.distance_scribble = options.distance_class = 0;
  return options;
}

Planes SegmentationConfig::planes() const {
  const LossOptions losses = loss_options();
  return {.pseudo_labels = !full() && (losses.pseudo > 0 || losses.lorm > 0),
          .scribble_distances = losses.distance_scribble > 0,
          .class_distances = losses.distance_class > 0};
}

WindowOptions SegmentationConfig::window_options() const {
  WindowOptions options = eval;
  options.scales.clear();
  for (const std::string& scale : eval_scales) options.scales.push_back(number_of("eval.scales", scale));
  if (options.scales.empty()) throw UsageError("eval.scales is empty", "eval.scales=[1]");
  return options;
}

SetOptions SegmentationConfig::set_options(const std::string& path, bool training) const {
  const bool is_split = sets.val_fraction > 0 && path == data.train;
  return {.path = path,
          .split = training || is_split ? sets.train_split : sets.test_split,
          .supervision = full() ? Supervision::kFull : Supervision::kScribbles,
          .masks = sets.masks,
          .mask_values = values_of_masks(sets.mask_values),
          .listed_values = listed_values(sets.mask_values),
          .scribbles = sets.scribbles,
          .pseudo_labels = sets.pseudo_labels,
          .scribble_distances = sets.distance_scribble,
          .class_distances = sets.distance_class,
          .classes = num_classes.is_auto() ? 0 : num_classes.value(),
          .planes = training ? planes() : Planes{},
          .strict = sets.strict,
          .test_fraction = is_split ? sets.val_fraction : 0,
          .split_seed = static_cast<std::uint64_t>(sets.split_seed)};
}

}  // namespace lockstep::segmentation
