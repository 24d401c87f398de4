// SPDX-License-Identifier: Apache-2.0
#include "detection/config.h"

#include <fmt/format.h>

#include <charconv>

#include "common/held_out.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::detection {
namespace {

constexpr ConfigRange kShare{0, 1};
constexpr ConfigRange kWeight{.least = 0};
constexpr ConfigRange kWidth{1, 65536};
constexpr ConfigRange kLayers{0, 100};
constexpr double kLargestSide = 16384;

std::int64_t whole_number(const std::string& key, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size()) return number;
  throw UsageError(fmt::format("{} has '{}', which is not a whole number", key, text));
}

std::int64_t size_of(const std::string& key, const std::string& text) {
  const std::int64_t number = whole_number(key, text);
  if (kWidth.contains(static_cast<double>(number))) return number;
  throw UsageError(fmt::format("{} is {}; it must be {}", key, number, kWidth.text()));
}

template <std::size_t kCount>
std::array<std::int64_t, kCount> numbers(const std::string& key, const std::vector<std::string>& texts) {
  if (texts.size() != kCount) {
    throw UsageError(fmt::format("{} has {} numbers; it must have {}", key, texts.size(), kCount));
  }
  std::array<std::int64_t, kCount> found{};
  for (std::size_t i = 0; i < kCount; ++i) found[i] = whole_number(key, texts[i]);
  return found;
}

template <std::size_t kCount>
std::vector<std::string> texts_of(const std::array<std::int64_t, kCount>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

ConfigMap map_of(const StageOptions& stage) {
  return {{"middle", std::to_string(stage.middle)}, {"out", std::to_string(stage.out)},
          {"blocks", std::to_string(stage.blocks)}, {"layers", std::to_string(stage.layers)},
          {"kernel", std::to_string(stage.kernel)}, {"light", stage.light ? "true" : "false"}};
}

StageOptions stage_of(const ConfigMap& map) {
  StageOptions stage;
  for (const auto& [name, value] : map) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) throw UsageError(fmt::format("model.stages: {} is a list; it must be one value", name));
    const std::string key = "model.stages: " + name;
    if (name == "middle") {
      stage.middle = size_of(key, *text);
    } else if (name == "out") {
      stage.out = size_of(key, *text);
    } else if (name == "blocks") {
      stage.blocks = size_of(key, *text);
    } else if (name == "layers") {
      stage.layers = size_of(key, *text);
    } else if (name == "kernel") {
      stage.kernel = size_of(key, *text);
    } else if (name == "light") {
      stage.light = *text == "true";
    } else {
      const std::vector<std::string> known = {"middle", "out", "blocks", "layers", "kernel", "light"};
      throw UsageError(fmt::format("model.stages has no '{}'{}", name, text::did_you_mean(name, known)));
    }
  }
  return stage;
}

void describe_augment(ConfigFields& fields, DetectionConfig& config) {
  AugmentOptions& augment = config.augment;
  fields
      .add("augment.policy", &config.policy,
           "epochs e0, e1, e2: Mosaic and MixUp from e0 to e1, strong operations from e0 to e2")
      .in({0, 1e8}, "epochs");
  fields.add("augment.mosaic_prob", &augment.mosaic_prob, "probability of Mosaic (four images in one)").in(kShare);
  fields.add("augment.mixup_prob", &augment.mixup_prob, "probability of MixUp (two images blended)").in(kShare);
  fields.add("augment.photometric_prob", &augment.photometric_prob, "probability of each photometric change")
      .in(kShare);
  fields.add("augment.zoom_out_prob", &augment.zoom_out_prob, "probability of placing the image on a larger canvas")
      .in(kShare);
  fields.add("augment.iou_crop_prob", &augment.iou_crop_prob, "probability of a crop that keeps objects").in(kShare);
  fields.add("augment.flip_prob", &augment.flip_prob, "probability of a horizontal flip").in(kShare);
  fields.add("augment.zoom_out_max", &augment.zoom_out_max, "maximum side of the canvas, relative to the image's")
      .in({1, 100});
  fields.add("augment.iou_crop_min", &augment.iou_crop_min, "minimum side of a crop, relative to the image's")
      .in({.least = 0, .most = 1, .above = true});
  fields.add("augment.mosaic_side", &augment.mosaic_side, "shorter side of an image in a mosaic; 0: half of image_size")
      .in({0, kLargestSide}, "pixels");
  fields.add("augment.mosaic_min_scale", &augment.mosaic_min_scale, "minimum scale of a whole mosaic")
      .in({.least = 0, .most = 100, .above = true});
  fields.add("augment.mosaic_max_scale", &augment.mosaic_max_scale, "maximum scale of a whole mosaic")
      .in({.least = 0, .most = 100, .above = true});
  fields.add("augment.mosaic_degrees", &augment.mosaic_degrees, "maximum rotation of a mosaic, in either direction")
      .in({0, 180}, "degrees");
  fields
      .add("augment.mosaic_translate", &augment.mosaic_translate,
           "maximum translation of a mosaic, relative to its side")
      .in(kShare);
  fields.add("augment.min_box", &augment.min_box, "boxes smaller than this in the network's input are dropped")
      .in({0, kLargestSide}, "pixels");
  fields
      .add("augment.base_size_repeat", &augment.base_size_repeat,
           "multi-scale training: how often image_size occurs among the sizes around it; 0: only image_size")
      .in({0, 1000});
}

void describe_model(ConfigFields& fields, DetectionConfig& config) {
  ModelOptions& model = config.model;
  fields.add("model.type", &config.network,
             "lockstep: the small network of model.*; dfine: the published one of dfine.*", {"lockstep", "dfine"});
  fields.add("model.stem", &config.stem, "channels in the middle and at the end of the stem").in(kWidth, "channels");
  fields.add("model.stages", &config.stages_of_backbone,
             "backbone stages from stride 4: maps of middle, out, blocks, layers, kernel, light");
  fields.add("model.lab", &model.lab, "a learnable scale and bias after each activation of the backbone");
  fields.add("model.hidden", &model.hidden, "channels of encoder and decoder").in({4, 65536}, "channels");
  fields.add("model.heads", &model.heads, "attention heads").in({1, 1024});
  fields.add("model.encoder_layers", &model.encoder_layers, "transformer layers on the coarsest scale")
      .in(kLayers, "layers");
  fields.add("model.encoder_feedforward", &model.encoder_feedforward, "inner width of the encoder's transformer layers")
      .in(kWidth);
  fields.add("model.expansion", &model.expansion, "channels within a fusion block, relative to model.hidden")
      .in({.least = 0, .most = 100, .above = true});
  fields.add("model.fusion_depth", &model.fusion_depth, "3x3 convolutions of a fusion block").in(kLayers, "layers");
  fields.add("model.decoder_layers", &model.decoder_layers, "decoder layers, each of which refines the boxes")
      .in({1, 100}, "layers");
  fields.add("model.decoder_feedforward", &model.decoder_feedforward, "inner width of the decoder layers").in(kWidth);
  fields.add("model.queries", &model.queries, "maximum number of objects that can be found").in({1, 100'000});
  fields.add("model.points", &config.points, "points that a head samples at each scale, finest first").in({0, 1024});
  fields.add("model.reg_max", &model.reg_max, "bins in a side's distribution, minus one").in({4, 1024});
  fields.add("model.reg_scale", &model.reg_scale, "scale of the distribution's bins");
  fields.add("model.up", &model.up, "scale of the distribution's outermost bins");
  fields.add("model.denoising", &model.denoising, "noisy objects per image for denoising; 0: none").in({0, 100'000});
  fields.add("model.label_noise", &model.label_noise, "twice the probability of changing a label").in(kShare);
  fields.add("model.box_noise", &model.box_noise, "maximum shift of a noisy box, relative to half its size")
      .in(kWeight);
}

void describe_losses(ConfigFields& fields, CriterionOptions& loss) {
  fields.add("loss.classification", &loss.classification, "classification loss: vfl or mal", {"vfl", "mal"});
  fields.add("loss.class_weight", &loss.class_weight, "weight of the classification loss").in(kWeight);
  fields.add("loss.bbox_weight", &loss.bbox_weight, "weight of the boxes' L1 loss").in(kWeight);
  fields.add("loss.giou_weight", &loss.giou_weight, "weight of the boxes' GIoU loss").in(kWeight);
  fields.add("loss.fgl_weight", &loss.fgl_weight, "weight of the loss on the sides' distributions").in(kWeight);
  fields.add("loss.ddf_weight", &loss.ddf_weight, "weight of the distillation from the last layer to the others")
      .in(kWeight);
  fields.add("loss.alpha", &loss.alpha, "vfl: weight of predictions without an object");
  fields.add("loss.gamma", &loss.gamma, "exponent of the classification loss; usually 2 for vfl, 1.5 for mal");
  fields.add("loss.union_matching", &loss.union_matching, "boxes learn from the matches of all layers");
  fields.add("loss.temperature", &loss.temperature, "temperature of the distillation from the last layer");
  fields.add("matcher.class_weight", &loss.matcher.class_weight, "weight of the class in the matching cost")
      .in(kWeight);
  fields.add("matcher.bbox_weight", &loss.matcher.bbox_weight, "weight of the boxes' L1 in the matching cost")
      .in(kWeight);
  fields.add("matcher.giou_weight", &loss.matcher.giou_weight, "weight of the boxes' GIoU in the matching cost")
      .in(kWeight);
}

}  // namespace

DetectionConfig::DetectionConfig() {
  batch_size = 8;
  clip_norm = 0.1;
  optimizer = {.type = "adamw", .lr = 5e-4, .weight_decay = 1e-4};
  optimizer.groups = {{{"params", R"((\.bias|\.scale|norm\d*\.weight)$)"}, {"weight_decay", "0"}}};
  ema = {.decay = 0.9999, .warmups = 1000};
  schedule.type = "flat_cosine";
  schedule.warmup_steps = 200;
  schedule.gamma = 0.5;
  stem = texts_of(model.stem);
  for (const StageOptions& stage : model.stages) stages_of_backbone.push_back(map_of(stage));
  points = texts_of(model.points);
  for (const std::int64_t count : published.points) published_points.push_back(std::to_string(count));
}

void DetectionConfig::describe(ConfigFields& fields) {
  TrainConfig::describe(fields);
  fields.add("num_classes", &num_classes, "labels are 0 .. num_classes - 1; auto: the number of classes in data.train")
      .in({1, 100'000}, "classes");
  fields.add("class_names", &class_names, "class names to display, by label; empty: those of data.train");
  fields.add("image_size", &image_size, "side of the network's square input").in({1, kLargestSide}, "pixels");
  fields.add("data.kind", &sets.kind, "format of the data: auto, coco or voc");
  fields.add("data.train_images", &sets.train_images, "COCO: image folder; empty: beside the JSON file");
  fields.add("data.test_images", &sets.test_images, "COCO: image folder; empty: beside the JSON file");
  fields.add("data.train_split", &sets.train_split, "VOC: a list in ImageSets/Main");
  fields.add("data.test_split", &sets.test_split, "VOC: a list in ImageSets/Main");
  common::describe_held_out(fields, sets.val_fraction, sets.split_seed);
  fields.add("data.class_names", &sets.class_names,
             "the data's own class names, by label; VOC: determines the order of the labels; empty: all of data.train, "
             "sorted");
  fields.add("data.remap", &sets.remap,
             "COCO: use labels 0 .. n - 1 in the order of the ids; false: use the ids as labels");
  fields.add("data.strict", &sets.strict, "false: entries with a bad image or box are skipped and counted");
  describe_augment(fields, *this);
  describe_model(fields, *this);
  describe_dfine(fields, published, published_points);
  describe_losses(fields, criterion);
}

void DetectionConfig::validate() const {
  TrainConfig::validate();
  (void)model_options();
  (void)published_options();
  if (!num_classes.is_auto()) {
    const std::int64_t classes = num_classes;
    if (!class_names.empty() && std::ssize(class_names) != classes) {
      throw UsageError(fmt::format("class_names has {} names for {} classes", class_names.size(), classes));
    }
  }
  if (sets.val_fraction > 0 && !data.test.empty() && data.test != data.train) {
    throw UsageError(fmt::format("data.val_fraction is {}, but data.test is {}", sets.val_fraction, data.test),
                     "both define the test set: omit one of them");
  }
  const std::int64_t stride = network_choice().coarsest_stride;
  if (image_size < stride || image_size % stride != 0) {
    throw UsageError(fmt::format("image_size is {}; it must be a multiple of {}, the network's coarsest stride",
                                 image_size, stride));
  }
  (void)augment_options();
}

ModelOptions DetectionConfig::model_options() const {
  ModelOptions options = model;
  options.classes = num_classes.is_auto() ? 0 : num_classes.value();
  options.stem = numbers<2>("model.stem", stem);
  options.stages.clear();
  for (const ConfigMap& stage : stages_of_backbone) options.stages.push_back(stage_of(stage));
  options.points = numbers<3>("model.points", points);
  return options;
}

dfine::Options DetectionConfig::published_options() const {
  dfine::Options options = published;
  options.classes = num_classes.is_auto() ? 1 : num_classes.value();
  options.image_size = image_size;
  options.points.clear();
  for (const std::string& count : published_points) options.points.push_back(whole_number("dfine.points", count));
  return options;
}

CriterionOptions DetectionConfig::criterion_options() const {
  const NetworkChoice choice = network_choice();
  CriterionOptions options = criterion;
  options.reg_scale = choice.reg_scale;
  options.up = choice.up;
  options.as_published = options.matcher.clamp_sizes = choice.as_published;
  return options;
}

AugmentOptions DetectionConfig::augment_options() const {
  AugmentOptions options = augment;
  options.policy = numbers<3>("augment.policy", policy);
  // Only the first stage has strong operations.
  if (stages.stop_epoch > 0) options.policy[2] = std::min(options.policy[2], stages.stop_epoch);
  options.policy[1] = std::min(options.policy[1], options.policy[2]);
  options.policy[0] = std::min(options.policy[0], options.policy[1]);
  options.base_size = image_size;
  options.divisor = network_choice().coarsest_stride;
  return options;
}

DatasetOptions DetectionConfig::set_options(const std::string& path, bool training) const {
  const bool is_split = sets.val_fraction > 0 && path == data.train;
  return {.source = {.path = path,
                     .kind = parse_source_kind(sets.kind),
                     .images = training || is_split ? sets.train_images : sets.test_images,
                     .split = training || is_split ? sets.train_split : sets.test_split,
                     .allow_outside = data.allow_outside,
                     .remap = sets.remap,
                     .class_names = sets.class_names,
                     .strict = sets.strict},
          .classes = num_classes.is_auto() ? 0 : num_classes.value(),
          .side = image_size,
          .part = !is_split  ? SetPart::kAll
                  : training ? SetPart::kTraining
                             : SetPart::kTest,
          .test_fraction = sets.val_fraction,
          .split_seed = static_cast<std::uint64_t>(sets.split_seed)};
}

}  // namespace lockstep::detection
