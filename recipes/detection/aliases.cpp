// SPDX-License-Identifier: Apache-2.0
#include "detection/aliases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

std::string schedule_name(const std::string& value) { return value == "flatcosine" ? "flat_cosine" : value; }

std::string lower(const std::string& value) {
  std::string text = value;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_true(const std::string& value) { return lower(value) == "true" || lower(value) == "yes"; }

std::string amp_name(const std::string& value) { return is_true(value) ? "bf16" : "none"; }

/// use_ema: false switches it off; true leaves the decay to its own key.
std::string decay_of_use(const std::string& value) { return is_true(value) ? "" : "0"; }

std::string scheduler_name(const std::string& value) { return value == "MultiStepLR" ? "multi_step" : value; }

/// [640, 640] is 640.
std::string side_of(const std::string& value) {
  std::vector<std::string> numbers(1);
  for (const char c : value) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      numbers.back() += c;
    } else if (!numbers.back().empty()) {
      numbers.emplace_back();
    }
  }
  std::erase(numbers, "");
  if (numbers.size() == 2 && numbers[0] == numbers[1]) return numbers[0];
  throw UsageError(fmt::format("eval_spatial_size is {}; it must be two equal numbers", value),
                   "pictures become squares: --set image_size=PIXELS");
}

std::vector<ConfigAlias> of_training() {
  return {{"epoches", "epochs"},
          {"lrsheduler", "schedule.type", schedule_name},
          {"lr_gamma", "schedule.gamma"},
          {"warmup_iter", "schedule.warmup_steps"},
          {"flat_epoch", "schedule.flat_epochs"},
          {"no_aug_epoch", "schedule.no_aug_epochs"},
          {"lr_warmup_scheduler.warmup_duration", "schedule.warmup_steps"},
          {"lr_warmup_scheduler.type"},
          {"lr_scheduler.type", "schedule.type", scheduler_name},
          {"lr_scheduler.milestones", "schedule.milestones"},
          {"lr_scheduler.gamma", "schedule.gamma"},
          {"clip_max_norm", "clip_norm"},
          {"use_amp", "amp", amp_name},
          {"use_ema", "ema.decay", decay_of_use, /*wins=*/true},
          {"ema.type"},
          {"sync_bn", "sync_batchnorm"},
          {"print_freq", "log_every_steps"},
          {"optimizer.type", "optimizer.type", lower},
          {"optimizer.params", "optimizer.groups"},
          {"eval_spatial_size", "image_size", side_of},
          {"task"},
          {"model"},
          {"criterion"},
          {"postprocessor"},
          {"use_focal_loss"},
          {.from = "output_dir", .instead = "--run-dir FOLDER"},
          {"find_unused_parameters"},
          {"checkpoint_freq", "checkpoint.every_epochs"},
          {.from = "scaler.*", .instead = "grad_scaler.*"},
          {"evaluator.*"}};
}

std::vector<ConfigAlias> of_loaders() {
  const std::string train = "train_dataloader.";
  const std::string val = "val_dataloader.";
  return {{train + "total_batch_size", "total_batch_size"},
          {train + "batch_size", "batch_size"},
          {train + "num_workers", "workers"},
          {train + "drop_last", "drop_last"},
          {train + "dataset.ann_file", "data.train"},
          {train + "dataset.img_folder", "data.train_images"},
          {train + "dataset.transforms.policy.epoch", "augment.policy"},
          {train + "dataset.transforms.mosaic_prob", "augment.mosaic_prob"},
          {train + "collate_fn.mixup_prob", "augment.mixup_prob"},
          {train + "collate_fn.stop_epoch", "stop_epoch"},
          {train + "collate_fn.ema_restart_decay", "ema_restart_decay"},
          {train + "collate_fn.base_size", "image_size"},
          {train + "collate_fn.base_size_repeat", "augment.base_size_repeat"},
          {train + "*"},
          {val + "dataset.ann_file", "data.test"},
          {val + "dataset.img_folder", "data.test_images"},
          {val + "*"}};
}

std::vector<ConfigAlias> of_the_network() {
  std::vector<ConfigAlias> all = {{"HybridEncoder.hidden_dim", "model.hidden"}};
  for (const std::string decoder : {"DFINETransformer.", "DEIMTransformer."}) {
    all.push_back({decoder + "num_layers", "model.decoder_layers"});
    all.push_back({decoder + "num_queries", "model.queries"});
    all.push_back({decoder + "num_points", "model.points"});
    all.push_back({decoder + "num_denoising", "model.denoising"});
    all.push_back({decoder + "label_noise_ratio", "model.label_noise"});
    all.push_back({decoder + "box_noise_scale", "model.box_noise"});
    all.push_back({decoder + "reg_max", "model.reg_max"});
    all.push_back({decoder + "reg_scale", "model.reg_scale"});
  }
  return all;
}

}  // namespace

std::vector<ConfigAlias> aliases() {
  std::vector<ConfigAlias> all = of_training();
  for (auto& more : {of_loaders(), of_the_network()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace lockstep::detection
