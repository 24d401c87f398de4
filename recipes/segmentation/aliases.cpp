// SPDX-License-Identifier: Apache-2.0
#include "segmentation/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::segmentation {
namespace {

std::string lower_case(const std::string& value) {
  std::string text = value;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The depth in the original name is ignored: --layers sets it.
std::string model_name_of(const std::string& value) { return value == "res50_ASPP_lorm" ? "aspp_lorm" : value; }

/// Returns data.labels for the original data set name. The rest of the name selects maps; this recipe chooses those
/// itself.
std::string labels_of_set(const std::string& value) {
  const std::string name = lower_case(value);
  if (name.find("scribble") != std::string::npos) return "scribbles";
  if (name == "voc2012") return "masks";
  throw UsageError(
      fmt::format("dataset '{}' is not supported; it must be a set with scribbles (ScribblePseudoDsDc) or VOC2012",
                  value),
      "set data.labels=scribbles or data.labels=masks");
}

}  // namespace

std::vector<ConfigAlias> aliases() {
  return {{"layers", "model.layers"},
          {"model_type", "model.type", model_name_of},
          {"numclasses", "num_classes"},
          {"batchsize", "batch_size"},
          {"lr", "optimizer.lr"},
          {"momentum", "optimizer.momentum"},
          {"wdecay", "optimizer.weight_decay"},
          {"warmup_epoch", "schedule.warmup_epochs"},
          {"l_segs", "loss.segmentation"},
          {"l_pesudo", "loss.pseudo"},
          {"l_lorm", "loss.lorm"},
          {"l_ds", "loss.distance_scribble"},
          {"l_dc", "loss.distance_class"},
          {"label_smooth", "loss.label_smoothing"},
          {"dataset", "data.labels", labels_of_set},
          {"dataset_path", "data.train"},
          {"dataset_path", "data.test"},
          {"train_path", "data.scribbles"},
          {"pesudo_path", "data.pseudo_labels"},
          {"distancemap_s", "data.distance_scribble"},
          {"distancemap_c", "data.distance_class"},
          {.from = "distributed", .is_switch = true},
          {"local_rank"},
          {"world_size"},
          {"dist_url"},
          {"device", "--device"},
          {"logdir", "--logdir"},
          {"model_path", "--init-from"},
          {"chk_interval", "checkpoint.every_epochs"},
          {"val_epoch", "eval_from_epoch"},
          {"shrink_factor"}};
}

ConfigTree from_origin(const ConfigTree& tree) {
  const std::string key = "model_path";
  const auto path = tree.values().find(key);
  if (path == tree.values().end() || path->second.yaml != "None") return tree;
  log::note(
      "model_path is None, for which the original code downloads ImageNet weights; in Lockstep, pass your own file: "
      "--init-from");
  return tree.filtered([&](const std::string& each) { return each != key; });
}

}  // namespace lockstep::segmentation
