// SPDX-License-Identifier: Apache-2.0
#include "detection/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::detection {
namespace {

using Words = std::vector<std::string>;

const std::string kTrain = "train_dataloader.";
const std::string kVal = "val_dataloader.";
const std::string kTransforms = "dataset.transforms.";
const std::string kCollate = "train_dataloader.collate_fn.";

/// An argument of an operation, and its setting here. Source: the constructors of the original transforms.
struct Argument {
  const char* operation;
  const char* name;
  const char* to;
  const char* fallback;  ///< value if the operation lacks the argument; if empty, the recipe's own default
};

constexpr std::array kArguments = {Argument{"RandomPhotometricDistort", "p", "augment.photometric_prob", "0.5"},
                                   Argument{"RandomZoomOut", "p", "augment.zoom_out_prob", "0.5"},
                                   Argument{"RandomIoUCrop", "p", "augment.iou_crop_prob", "1"},
                                   Argument{"RandomIoUCrop", "min_scale", "augment.iou_crop_min", ""},
                                   Argument{"RandomHorizontalFlip", "p", "augment.flip_prob", "0.5"},
                                   Argument{"SanitizeBoundingBoxes", "min_size", "augment.min_box", ""},
                                   Argument{"Mosaic", "output_size", "augment.mosaic_side", "320"},
                                   Argument{"Mosaic", "rotation_range", "augment.mosaic_degrees", ""}};

/// The probabilities that become 0 if their operation is not listed.
constexpr std::array kProbabilities = {"augment.photometric_prob", "augment.zoom_out_prob", "augment.iou_crop_prob",
                                       "augment.flip_prob"};

/// Arguments that describe what this recipe does anyway, or that only make the original code faster.
constexpr std::array kSilent = {"type",  "use_cache", "max_cached_images", "random_pop", "dtype",
                                "scale", "fmt",       "normalize"};

const Words kOperations = {"Mosaic",
                           "RandomPhotometricDistort",
                           "RandomZoomOut",
                           "RandomIoUCrop",
                           "SanitizeBoundingBoxes",
                           "RandomHorizontalFlip",
                           "Resize",
                           "ConvertPILImage",
                           "ConvertBoxes",
                           "Normalize",
                           "RandomCrop",
                           "PadToSize",
                           "EmptyTransform"};
/// Operations without a counterpart here.
const Words kNotHere = {"Normalize", "RandomCrop", "PadToSize"};
const Words kStrong = {"Mosaic", "RandomPhotometricDistort", "RandomZoomOut", "RandomIoUCrop"};

/// A value of the tree as a list; errors name the original file and line.
template <class List>
List list_of(const std::string& key, const ConfigValue& value) {
  List list;
  ConfigFields fields;
  fields.add(key, &list, "of the original");
  ConfigTree tree;
  tree.set(key + "=" + value.yaml, value.origin);
  fields.bind(tree);
  return list;
}

Words words_of(const ConfigMap& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) return {};
  const auto* text = std::get_if<std::string>(&found->second);
  return text != nullptr ? Words{*text} : std::get<Words>(found->second);
}

std::string word_of(const ConfigMap& map, const std::string& name) {
  const Words words = words_of(map, name);
  return words.empty() ? "" : words.front();
}

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The tree before and after the translation.
class Keys {
 public:
  explicit Keys(const ConfigTree& tree) : from_(tree), to_(tree) {}

  [[nodiscard]] const ConfigTree& before() const noexcept { return from_; }
  [[nodiscard]] const ConfigTree& after() const noexcept { return to_; }
  /// Returns the value of a key; null if it was not in the tree.
  [[nodiscard]] const ConfigValue* find(const std::string& key) const {
    const auto found = from_.values().find(key);
    return found == from_.values().end() ? nullptr : &found->second;
  }
  [[nodiscard]] bool says(const std::string& key) const {
    const ConfigValue* value = find(key);
    return value != nullptr && !value->yaml.empty();
  }
  void drop(const std::string& key) {
    to_ = to_.filtered([&](const std::string& each) { return each != key; });
  }
  void drop_all(const std::string& prefix) {
    to_ = to_.filtered([&](const std::string& each) { return !each.starts_with(prefix); });
  }
  /// Sets a key unless the tree has the recipe's own key; the command line takes precedence over a file.
  void set(const std::string& key, const std::string& value, const std::string& origin) {
    const auto is_typed = [](const std::string& place) { return place.starts_with("--"); };
    const auto own = to_.values().find(key);
    const bool stays = own != to_.values().end() && (is_typed(own->second.origin) || !is_typed(origin));
    if (!stays) to_.set(key + "=" + value, origin);
  }

 private:
  const ConfigTree& from_;
  ConfigTree to_;
};

/// Translates FlatCosine's settings if `lrsheduler` is set, otherwise those of MultiStepLR with its linear warm-up.
void choose_schedule(Keys& keys) {
  if (keys.says("lrsheduler")) {
    keys.drop_all("lr_scheduler.");
    keys.drop_all("lr_warmup_scheduler.");
  } else {
    for (const char* key : {"lr_gamma", "warmup_iter", "flat_epoch", "no_aug_epoch"}) keys.drop(key);
  }
}

/// The side of the network's input; empty if not set.
std::string picture_side(const Keys& keys) {
  const ConfigValue* value = keys.find("eval_spatial_size");
  if (value == nullptr) return "";
  const Words sides = list_of<Words>("eval_spatial_size", *value);
  if (sides.size() == 2 && sides[0] == sides[1]) return sides[0];
  throw UsageError(fmt::format("{}: eval_spatial_size is {}; it must be two equal numbers", value->origin, value->yaml),
                   "images are resized to squares: --set image_size=PIXELS");
}

/// Translates the sizes into this recipe's single size. A key with a different size stays in the tree, for the note.
void unite_sizes(Keys& keys) {
  const std::string side = picture_side(keys);
  const ConfigValue* base = keys.find(kCollate + "base_size");
  if (base != nullptr && base->yaml == side) keys.drop(kCollate + "base_size");
}

void resize(Keys& keys, const ConfigMap& map, const std::string& key, const std::string& origin) {
  const Words size = words_of(map, "size");
  const bool is_square = size.size() == 1 || (size.size() == 2 && size[0] == size[1]);
  const std::string side = picture_side(keys);
  if (is_square && side.empty()) return keys.set("image_size", size.front(), origin);
  if (!is_square || size.front() != side) keys.set(key + ".Resize.size", fmt::format("[{}]", text::join(size)), origin);
}

/// Reads a list of operations; none if the list is null or missing.
std::optional<std::vector<ConfigMap>> operations_of(const Keys& keys, const std::string& key) {
  const ConfigValue* value = keys.find(key);
  if (value == nullptr || value->yaml.empty()) return std::nullopt;
  auto list = list_of<std::vector<ConfigMap>>(key, *value);
  for (const ConfigMap& each : list) {
    const std::string type = word_of(each, "type");
    if (has(kOperations, type)) continue;
    throw UsageError(fmt::format("{}: {} has the unknown operation '{}'{}", value->origin, key, type,
                                 text::did_you_mean(type, kOperations)),
                     fmt::format("known operations: {}", text::join(kOperations)));
  }
  return list;
}

/// Reads the training set's operations, and turns off those that are not listed.
class Operations {
 public:
  explicit Operations(Keys& keys) : keys_(keys) {}

  /// Returns the strong operations.
  Words run() {
    const auto list = operations_of(keys_, kKey);
    if (!list) {
      keys_.drop(kKey);
      return {};
    }
    origin_ = keys_.find(kKey)->origin;
    keys_.drop(kKey);
    for (const char* probability : kProbabilities) probabilities_[probability] = "0";
    Words types;
    for (const ConfigMap& each : *list) {
      types.push_back(word_of(each, "type"));
      read(each);
    }
    for (const auto& [to, value] : probabilities_) keys_.set(to, value, origin_);
    if (!has(types, "Mosaic") || !keys_.says(kTrain + kTransforms + "mosaic_prob")) {
      keys_.drop(kTrain + kTransforms + "mosaic_prob");
      keys_.set("augment.mosaic_prob", "0", origin_);
    }
    if (!keys_.says(kCollate + "mixup_prob")) keys_.set("augment.mixup_prob", "0", origin_);
    std::erase_if(types, [](const std::string& type) { return !has(kStrong, type); });
    return types;
  }

 private:
  void read(const ConfigMap& map) {
    const std::string type = word_of(map, "type");
    if (has(kNotHere, type)) return keys_.set(kKey + "." + type, "true", origin_);
    if (type == "Resize") return resize(keys_, map, kKey, origin_);
    for (const Argument& argument : kArguments) {
      if (type != argument.operation) continue;
      const std::string given = word_of(map, argument.name);
      const std::string value = given.empty() ? argument.fallback : given;
      if (!value.empty()) set_argument(argument.to, value);
    }
    read_ranges(map);
    for (const auto& [name, unused] : map) leave_over(type, name, word_of(map, name));
  }

  /// Sets a setting; if an operation occurs several times, its last occurrence counts.
  void set_argument(const std::string& to, const std::string& value) {
    if (probabilities_.contains(to)) {
      probabilities_[to] = value;
    } else {
      keys_.set(to, value, origin_);
    }
  }

  void read_ranges(const ConfigMap& map) {
    const Words translation = words_of(map, "translation_range");
    const Words scaling = words_of(map, "scaling_range");
    const Words sides = words_of(map, "side_range");
    if (!translation.empty()) keys_.set("augment.mosaic_translate", translation.front(), origin_);
    if (scaling.size() == 2) {
      keys_.set("augment.mosaic_min_scale", scaling[0], origin_);
      keys_.set("augment.mosaic_max_scale", scaling[1], origin_);
    }
    if (sides.size() == 2) keys_.set("augment.zoom_out_max", sides[1], origin_);
  }

  /// Keeps an argument that has no counterpart as a key of the tree, so that the note lists it.
  void leave_over(const std::string& type, const std::string& name, const std::string& value) {
    static const Words kRanges = {"translation_range", "scaling_range", "side_range"};
    const bool known = std::any_of(kArguments.begin(), kArguments.end(), [&](const Argument& argument) {
      return type == argument.operation && name == argument.name;
    });
    const bool silent = std::find(kSilent.begin(), kSilent.end(), name) != kSilent.end();
    const bool same = (name == "fill" || name == "fill_value") ? value == "0" : name == "probability" && value == "1.0";
    if (known || silent || same || has(kRanges, name)) return;
    keys_.set(fmt::format("{}.{}.{}", kKey, type, name), value, origin_);
  }

  const std::string kKey = kTrain + kTransforms + "ops";
  Keys& keys_;
  std::string origin_;
  std::map<std::string, std::string> probabilities_;
};

/// Drops MixUp's epochs if they equal Mosaic's: in this recipe both run in the same epochs.
void unite_mixup_epochs(Keys& keys, const Words& epochs) {
  const std::string key = kCollate + "mixup_epochs";
  const ConfigValue* value = keys.find(key);
  if (value == nullptr || epochs.size() != 3) return;
  if (list_of<Words>(key, *value) == Words{epochs[0], epochs[1]}) keys.drop(key);
}

/// Reads the phases' epochs. A single number is the epoch in which the strong operations end; Mosaic and MixUp are then
/// never used.
Words epochs_of(const std::string& key, const ConfigValue& epoch) {
  Words epochs = epoch.is_sequence ? list_of<Words>(key, epoch) : Words{"0", "0", epoch.yaml};
  if (epochs.size() == 3) return epochs;
  throw UsageError(fmt::format("{}: {} has {} numbers; it must have one or three", epoch.origin, key, epochs.size()));
}

void read_policy(Keys& keys, const Words& strong) {
  const std::string key = kTrain + kTransforms + "policy";
  if (const ConfigValue* none = keys.find(key)) {  // policy: ~
    if (!none->yaml.empty()) {
      throw UsageError(fmt::format("{}: {} is '{}', not a map or null", none->origin, key, none->yaml));
    }
    keys.set("augment.policy", "[0, 100000000, 100000000]", none->origin);
    keys.drop(key);
  }
  if (const ConfigValue* epoch = keys.find(key + ".epoch")) {
    const Words epochs = epochs_of(key + ".epoch", *epoch);
    keys.set("augment.policy", fmt::format("[{}]", text::join(epochs)), epoch->origin);
    keys.drop(key + ".epoch");
    unite_mixup_epochs(keys, epochs);
  }
  const ConfigValue* ops = keys.find(key + ".ops");
  if (ops == nullptr) return;
  const Words stopped = list_of<Words>(key + ".ops", *ops);
  if (std::all_of(strong.begin(), strong.end(), [&](const auto& each) { return has(stopped, each); })) {
    keys.drop(key + ".ops");
  }
}

/// Translates the resizing of test images. Other operations stay in the tree, for the note.
void read_evaluation(Keys& keys) {
  const std::string key = kVal + kTransforms + "ops";
  const auto list = operations_of(keys, key);
  keys.drop(key);
  if (!list) return;
  const std::string origin = keys.find(key)->origin;
  for (const ConfigMap& each : *list) {
    const std::string type = word_of(each, "type");
    if (type == "Resize") {
      resize(keys, each, key, origin);
    } else if (type != "ConvertPILImage") {
      keys.set(key + "." + type, "true", origin);
    }
  }
}

/// Uses the weight of the chosen class loss: a file may have weights for several.
void read_class_weight(Keys& keys, const std::string& criterion, const std::string& classes) {
  for (const std::string each : {"mal", "vfl", "focal"}) {
    const std::string key = criterion + ".weight_dict.loss_" + each;
    const ConfigValue* weight = keys.find(key);
    if (weight != nullptr && each == classes) keys.set("loss.class_weight", weight->yaml, weight->origin);
    keys.drop(key);
  }
}

void leave_out_losses(Keys& keys, const std::string& criterion, const Words& names, const std::string& origin) {
  for (const std::string& each : names) {
    keys.drop(criterion + ".weight_dict.loss_" + each);
    keys.set(fmt::format("loss.{}_weight", each), "0", origin);
  }
}

void read_losses(Keys& keys, const std::string& criterion) {
  const std::string key = criterion + ".losses";
  const ConfigValue* value = keys.find(key);
  if (value == nullptr || !keys.after().values().contains(key)) return;
  const Words losses = list_of<Words>(key, *value);
  const char* classes = has(losses, "mal") ? "mal" : has(losses, "vfl") ? "vfl" : nullptr;
  if (classes == nullptr) {
    throw UsageError(fmt::format("{}: {} has no supported classification loss: {}", value->origin, key, value->yaml),
                     "supported losses: 'mal' and 'vfl', with 'boxes' and 'local'");
  }
  keys.set("loss.classification", classes, value->origin);
  read_class_weight(keys, criterion, classes);
  if (!has(losses, "boxes")) leave_out_losses(keys, criterion, {"bbox", "giou"}, value->origin);
  if (!has(losses, "local")) leave_out_losses(keys, criterion, {"fgl", "ddf"}, value->origin);
  keys.drop(key);
}

/// Uses the section of the class that `criterion` names: a tree may have sections for both classes.
void choose_criterion(Keys& keys) {
  const ConfigValue* named = keys.find("criterion");
  if (named == nullptr) return;
  for (const std::string each : {"DFINECriterion", "DEIMCriterion"}) {
    if (each != named->yaml) keys.drop_all(each + ".");
  }
}

/// Allows groups that match no parameter: the original optimizer ignores them, and there are files with such groups.
void allow_empty_groups(Keys& keys) {
  const std::string key = "optimizer.params";
  const ConfigValue* value = keys.find(key);
  if (value == nullptr || !value->is_sequence) return;
  auto groups = list_of<std::vector<ConfigMap>>(key, *value);
  for (ConfigMap& group : groups) group.try_emplace("may_be_empty", "true");
  keys.drop(key);
  keys.set("optimizer.groups", ConfigFields::value_text(&groups), value->origin);
}

/// Chooses the published network if the file describes a network.
void read_network(Keys& keys) {
  static const Words kSections = {"DFINE.",          "DEIM.", "HGNetv2.", "HybridEncoder.", "DFINETransformer.",
                                  "DEIMTransformer."};
  for (const auto& [key, value] : keys.before().values()) {
    const bool describes = std::any_of(kSections.begin(), kSections.end(),
                                       [&name = key](const std::string& section) { return name.starts_with(section); });
    if (describes) keys.set("model.type", "dfine", value.origin);
  }
  // Here, channel counts are determined by the earlier parts.
  for (const char* key :
       {"HybridEncoder.in_channels", "DFINETransformer.feat_channels", "DEIMTransformer.feat_channels"}) {
    keys.drop(key);
  }
}

}  // namespace

ConfigTree from_origin(const ConfigTree& tree) {
  Keys keys(tree);
  choose_schedule(keys);
  unite_sizes(keys);
  const Words strong = Operations(keys).run();
  read_policy(keys, strong);
  read_evaluation(keys);
  choose_criterion(keys);
  for (const char* criterion : {"DFINECriterion", "DEIMCriterion"}) read_losses(keys, criterion);
  allow_empty_groups(keys);
  read_network(keys);
  return keys.after();
}

}  // namespace lockstep::detection
