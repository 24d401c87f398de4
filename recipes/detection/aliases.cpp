// SPDX-License-Identifier: Apache-2.0
#include "detection/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

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

/// `use_ema: false` turns the average off; with `true`, the decay comes from its own key.
std::string decay_of_use(const std::string& value) { return is_true(value) ? "" : "0"; }

std::string scheduler_name(const std::string& value) { return value == "MultiStepLR" ? "multi_step" : value; }

/// [640, 640] becomes 640.
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
                   "images are resized to squares: --set image_size=PIXELS");
}

/// A key whose `values` describe what this recipe does anyway; any other value is reported in a note.
ConfigAlias always(std::string key, std::vector<std::string> values) {
  return {.from = std::move(key), .always = std::move(values)};
}

/// A key that selects a component; this recipe has only those in `values`.
ConfigAlias must_be(std::string key, std::vector<std::string> values) {
  return {.from = std::move(key), .always = std::move(values), .must_be = true};
}

/// Maps `scaler.enabled: True` to the precision's default, because bfloat16 needs no scaling.
std::string scaler_of(const std::string& value) { return is_true(value) ? "" : "false"; }

/// base_size_repeat: null means a single size.
std::string repeat_of(const std::string& value) {
  const bool is_null = value.empty() || value == "~" || value == "null";
  return is_null ? "0" : value;
}

std::vector<ConfigAlias> of_training() {
  return {{"epoches", "epochs"},
          {"lrsheduler", "schedule.type", schedule_name},
          {"lr_gamma", "schedule.gamma"},
          {"warmup_iter", "schedule.warmup_steps"},
          {"flat_epoch", "schedule.flat_epochs"},
          {"no_aug_epoch", "schedule.no_aug_epochs"},
          {"lr_warmup_scheduler.warmup_duration", "schedule.warmup_steps"},
          must_be("lr_warmup_scheduler.type", {"LinearWarmup"}),
          {"lr_scheduler.type", "schedule.type", scheduler_name},
          {"lr_scheduler.milestones", "schedule.milestones"},
          {"lr_scheduler.gamma", "schedule.gamma"},
          {"clip_max_norm", "clip_norm"},
          {"use_amp", "amp", amp_name, /*wins=*/false, /*is_switch=*/true},
          {"use_ema", "ema.decay", decay_of_use, /*wins=*/true},
          must_be("ema.type", {"ModelEMA"}),
          {"sync_bn", "sync_batchnorm"},
          {"print_freq", "log_every_steps"},
          {"optimizer.type", "optimizer.type", lower},
          {"optimizer.params", "optimizer.groups"},
          {"eval_spatial_size", "image_size", side_of},
          {"remap_mscoco_category", "data.remap"},
          {"checkpoint_freq", "checkpoint.every_epochs"},
          must_be("task", {"detection"}),
          must_be("model", {"DEIM", "DFINE"}),
          must_be("criterion", {"DEIMCriterion", "DFINECriterion"}),
          must_be("postprocessor", {"PostProcessor", "DFINEPostProcessor"}),
          must_be("use_focal_loss", {"True"}),
          must_be("scaler.type", {"GradScaler"}),
          {"scaler.enabled", "grad_scaler.enabled", scaler_of},
          {"scaler.init_scale", "grad_scaler.init_scale"},
          {"scaler.growth_factor", "grad_scaler.growth_factor"},
          {"scaler.backoff_factor", "grad_scaler.backoff_factor"},
          {"scaler.growth_interval", "grad_scaler.growth_interval"},
          must_be("evaluator.type", {"CocoEvaluator"}),
          must_be("evaluator.iou_types", {"[bbox]"}),
          always("find_unused_parameters", {"False"})};
}

/// The options of the original train.py, which appear as keys in its files.
std::vector<ConfigAlias> of_the_command() {
  return {{"output_dir", "--run-dir"},
          {"resume", "--resume"},
          {"tuning", "--init-from"},
          {"device", "--device"},
          {"summary_dir", "tensorboard"},
          {.from = "test_only", .to = "--test-only", .is_switch = true},
          {.from = "print_method", .instead = "--quiet or --log-level"},
          {.from = "print_rank", .instead = "the ranks' own files in RUN_DIR/logs"},
          {.from = "use_wandb", .is_switch = true, .always = {"False"}},
          {"project_name"},
          {"exp_name"}};
}

std::vector<ConfigAlias> of_loaders() {
  const std::string train = "train_dataloader.";
  const std::string val = "val_dataloader.";
  const std::string transforms = "dataset.transforms.";
  const std::string collate = "train_dataloader.collate_fn.";
  std::vector<ConfigAlias> all = {{train + "total_batch_size", "total_batch_size"},
                                  {train + "batch_size", "batch_size"},
                                  {train + "num_workers", "workers"},
                                  {train + "drop_last", "drop_last"},
                                  {train + "prefetch_factor", "prefetch_factor"},
                                  {train + "pin_memory", "pin_memory"},
                                  always(train + "shuffle", {"True"}),
                                  {train + "dataset.ann_file", "data.train"},
                                  {train + "dataset.img_folder", "data.train_images"},
                                  {train + transforms + "mosaic_prob", "augment.mosaic_prob"},
                                  always(train + transforms + "policy.name", {"stop_epoch", "default"}),
                                  {train + transforms + "policy.ops"},
                                  {train + transforms + "ops.*"},
                                  {collate + "mixup_prob", "augment.mixup_prob"},
                                  {.from = collate + "mixup_epochs", .instead = "augment.policy"},
                                  {collate + "stop_epoch", "stop_epoch"},
                                  {collate + "ema_restart_decay", "ema_restart_decay"},
                                  {.from = collate + "base_size", .instead = "image_size"},
                                  {collate + "base_size_repeat", "augment.base_size_repeat", repeat_of},
                                  {collate + "scale_ori_repeat", "augment.base_size_repeat", repeat_of},
                                  {.from = collate + "scales", .instead = "augment.base_size_repeat"},
                                  {val + "dataset.ann_file", "data.test"},
                                  {val + "dataset.img_folder", "data.test_images"},
                                  {.from = val + "total_batch_size", .instead = "batch_size, for both sets"},
                                  {.from = val + "batch_size", .instead = "batch_size, for both sets"},
                                  {.from = val + "num_workers", .instead = "workers, for both sets"},
                                  always(val + "shuffle", {"False"}),
                                  always(val + "drop_last", {"False"}),
                                  {val + transforms + "ops.*"}};
  for (const char* name :
       {"copyblend_prob", "copyblend_epochs", "area_threshold", "num_objects", "with_expand", "expand_ratios"}) {
    all.push_back({collate + name});
  }
  for (const std::string& loader : {train, val}) {
    all.push_back(must_be(loader + "type", {"DataLoader"}));
    all.push_back(must_be(loader + "dataset.type", {"CocoDetection"}));
    all.push_back(must_be(loader + transforms + "type", {"Compose"}));
    all.push_back(always(loader + "dataset.return_masks", {"False"}));
    // The original code has both spellings.
    all.push_back(must_be(loader + "collate_fn.type", {"BatchImageCollateFunction", "BatchImageCollateFuncion"}));
  }
  return all;
}

/// The number of scales of a backbone: its last three stages, or its last two.
std::string levels_of(const std::string& value) {
  std::string digits;
  for (const char c : value) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  if (digits == "123") return "3";
  if (digits == "23") return "2";
  throw UsageError(fmt::format("HGNetv2.return_idx is {}; it must be [1, 2, 3] or [2, 3]", value));
}

// The sections of the network. Each row maps a key to its setting; always() is for keys that are determined by others.

std::vector<ConfigAlias> of_the_backbone() {
  const std::string backbone = "HGNetv2.";
  return {{backbone + "name", "dfine.backbone"},
          {backbone + "use_lab", "dfine.use_lab"},
          {backbone + "return_idx", "dfine.levels", levels_of},
          {backbone + "freeze_at", "dfine.freeze_at"},
          {backbone + "freeze_norm", "dfine.freeze_norm"},
          {backbone + "freeze_stem_only", "dfine.freeze_stem_only"},
          {.from = backbone + "pretrained", .instead = "--init-from FILE", .always = {"False"}},
          {.from = backbone + "local_model_dir", .instead = "--init-from FILE"}};
}

std::vector<ConfigAlias> of_the_encoder() {
  const std::string encoder = "HybridEncoder.";
  return {{encoder + "hidden_dim", "dfine.encoder_hidden"},
          {encoder + "nhead", "dfine.encoder_heads"},
          {encoder + "num_encoder_layers", "dfine.encoder_layers"},
          {encoder + "dim_feedforward", "dfine.encoder_feedforward"},
          {encoder + "expansion", "dfine.expansion"},
          {encoder + "depth_mult", "dfine.depth_mult"},
          always(encoder + "feat_strides", {"[8,16,32]", "[16,32]"}),
          always(encoder + "use_encoder_idx", {"[2]", "[1]"}),
          always(encoder + "dropout", {"0"}),
          always(encoder + "enc_act", {"gelu"}),
          always(encoder + "act", {"silu"}),
          always(encoder + "version", {"dfine"}),
          always(encoder + "pe_temperature", {"10000"})};
}

std::vector<ConfigAlias> of_the_decoder(const std::string& decoder) {
  return {{decoder + "hidden_dim", "dfine.hidden"},
          {decoder + "nhead", "dfine.heads"},
          {decoder + "num_layers", "dfine.layers"},
          {decoder + "dim_feedforward", "dfine.feedforward"},
          {decoder + "eval_idx", "dfine.eval_idx"},
          {decoder + "num_queries", "dfine.queries"},
          {decoder + "num_points", "dfine.points"},
          {decoder + "activation", "dfine.activation"},
          {decoder + "mlp_act", "dfine.mlp_activation"},
          {decoder + "num_denoising", "dfine.denoising"},
          {decoder + "label_noise_ratio", "dfine.label_noise"},
          {decoder + "box_noise_scale", "dfine.box_noise"},
          {decoder + "reg_max", "dfine.reg_max"},
          {decoder + "reg_scale", "dfine.reg_scale"},
          always(decoder + "feat_strides", {"[8,16,32]", "[16,32]"}),
          always(decoder + "num_levels", {"3", "2"}),
          always(decoder + "layer_scale", {"1"}),
          always(decoder + "dropout", {"0"}),
          always(decoder + "cross_attn_method", {"default"}),
          always(decoder + "query_select_method", {"default"}),
          always(decoder + "learn_query_content", {"False"}),
          always(decoder + "aux_loss", {"True"})};
}

std::vector<ConfigAlias> of_the_losses(const std::string& criterion) {
  std::vector<ConfigAlias> all = {{criterion + "weight_dict.loss_bbox", "loss.bbox_weight"},
                                  {criterion + "weight_dict.loss_giou", "loss.giou_weight"},
                                  {criterion + "weight_dict.loss_fgl", "loss.fgl_weight"},
                                  {criterion + "weight_dict.loss_ddf", "loss.ddf_weight"},
                                  {criterion + "weight_dict.loss_vfl", "loss.class_weight"},
                                  {criterion + "weight_dict.loss_mal", "loss.class_weight"},
                                  {criterion + "alpha", "loss.alpha"},
                                  {criterion + "gamma", "loss.gamma"},
                                  {criterion + "reg_max", "dfine.reg_max"},
                                  {criterion + "use_uni_set", "loss.union_matching"},
                                  {criterion + "end_epoch"}};
  all.push_back(must_be(criterion + "matcher", {"HungarianMatcher"}));
  return all;
}

std::vector<ConfigAlias> of_the_matcher(const std::string& matcher) {
  return {{matcher + "weight_dict.cost_class", "matcher.class_weight"},
          {matcher + "weight_dict.cost_bbox", "matcher.bbox_weight"},
          {matcher + "weight_dict.cost_giou", "matcher.giou_weight"},
          must_be(matcher + "type", {"HungarianMatcher"}),
          always(matcher + "alpha", {"0.25"}),
          always(matcher + "gamma", {"2"}),
          must_be(matcher + "use_focal_loss", {"True"}),
          must_be(matcher + "change_matcher", {"False"})};
}

/// The class of each component. In this recipe, channel counts and strides are determined by the other parts.
std::vector<ConfigAlias> of_the_parts() {
  std::vector<ConfigAlias> all;
  for (const std::string model : {"DEIM.", "DFINE."}) {
    all.push_back(must_be(model + "backbone", {"HGNetv2"}));
    all.push_back(must_be(model + "encoder", {"HybridEncoder"}));
    all.push_back(must_be(model + "decoder", {"DFINETransformer", "DEIMTransformer"}));
  }
  for (const std::string processor : {"PostProcessor.", "DFINEPostProcessor."}) {
    all.push_back({processor + "num_top_queries"});
    all.push_back(must_be(processor + "use_focal_loss", {"True"}));
  }
  return all;
}

void add(std::vector<ConfigAlias>& all, const std::vector<ConfigAlias>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<ConfigAlias> aliases() {
  std::vector<ConfigAlias> all = of_training();
  for (const auto& more : {of_the_command(), of_loaders(), of_the_parts(), of_the_backbone(), of_the_encoder()})
    add(all, more);
  for (const char* decoder : {"DFINETransformer.", "DEIMTransformer."}) add(all, of_the_decoder(decoder));
  for (const std::string criterion : {"DFINECriterion.", "DEIMCriterion."}) {
    add(all, of_the_losses(criterion));
    add(all, of_the_matcher(criterion + "matcher."));
  }
  add(all, of_the_matcher("HungarianMatcher."));
  return all;
}

}  // namespace lockstep::detection
