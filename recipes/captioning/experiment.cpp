// SPDX-License-Identifier: Apache-2.0
#include "captioning/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "captioning/origin_keys.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

[[noreturn]] void refuse(const OriginKeys& keys, const std::string& key, const std::string& value,
                         const std::string& instead) {
  throw UsageError(fmt::format("{}: {} is '{}': {}", keys.origin(key), key, value, instead));
}

/// The origin's settings on their way to ours.
class Translation {
 public:
  explicit Translation(const ConfigTree& capitals) { keys_.read(capitals); }

  ConfigTree run() {
    training();
    data();
    model();
    solver();
    losses();
    inference();
    if (!unread_.empty()) log::note("without a meaning for MODEL.TYPE {}: {}", keys_.model_type, text::join(unread_));
    return std::move(ours_);
  }

 private:
  void set(const std::string& to, const std::string& value, const std::string& from) {
    ours_.set(to + "=" + value, keys_.origin(from));
  }
  template <class T>
  void take(const std::string& from, const std::string& to, const T& value) {
    const std::string text = fmt::format("{}", value);
    if (keys_.has(from) && !text.empty()) set(to, text, from);
  }

  template <class Table>
  [[nodiscard]] std::string one_of(const std::string& key, const std::string& value, const Table& table) const {
    std::vector<std::string> known;
    for (const auto& [theirs, here] : table) {
      if (value == theirs) return here;
      known.emplace_back(theirs);
    }
    refuse(keys_, key, value, "there is " + text::join(known));
  }
  /// A file that is read here, unless it is a pickle.
  void file(const std::string& from, const std::string& to, const std::string& value, const char* instead) {
    if (!keys_.has(from) || value.empty()) return;
    if (!value.ends_with(".pkl")) return set(to, value, from);
    log::note("{}: {} is a pickle, which is not read: {}", keys_.origin(from), from, instead);
  }

  void training() {
    if (!(std::abs(keys_.seed) < 1e15)) refuse(keys_, "SEED", fmt::format("{}", keys_.seed), "it must be below 1e15");
    take("SEED", "seed", static_cast<std::int64_t>(keys_.seed));
    take("TRAIN.BATCH_SIZE", "batch_size", keys_.batch_size);
    scheduled_sampling();
    const std::string start = "TRAIN.REINFORCEMENT.START";
    if (!keys_.has(start)) return;
    if (keys_.reinforcement_start <= 0) return set("self_critical.start", "first_epoch", start);
    set("stop_epoch", std::to_string(keys_.reinforcement_start), start);
    set("stages.roll_back", "false", start);
  }

  /// Where one of its keys is there, the others have the origin's defaults.
  void scheduled_sampling() {
    const std::string section = "TRAIN.SCHEDULED_SAMPLING.";
    for (const char* key : {"START", "INC_EVERY", "INC_PROB", "MAX_PROB"}) {
      if (!keys_.has(section + key)) continue;
      const std::string from = section + key;
      set("scheduled_sampling.start", std::to_string(std::max<std::int64_t>(0, keys_.sampling_start)), from);
      set("scheduled_sampling.inc_every", std::to_string(keys_.sampling_inc_every), from);
      set("scheduled_sampling.inc_prob", fmt::format("{}", keys_.sampling_inc_prob), from);
      set("scheduled_sampling.max_prob", fmt::format("{}", keys_.sampling_max_prob), from);
    }
  }

  void data() {
    take("DATA_LOADER.NUM_WORKERS", "workers", keys_.num_workers);
    take("DATA_LOADER.PIN_MEMORY", "pin_memory", keys_.pin_memory);
    take("DATA_LOADER.DROP_LAST", "drop_last", keys_.drop_last);
    if (!keys_.shuffle) refuse(keys_, "DATA_LOADER.SHUFFLE", "false", "training always draws a new order each epoch");
    take("DATA_LOADER.TRAIN_ATT_FEATS", "data.features", keys_.train_features);
    take("DATA_LOADER.VAL_ATT_FEATS", "data.test_features", keys_.val_features);
    take("DATA_LOADER.TRAIN_ID", "data.train_ids", keys_.train_id);
    take("DATA_LOADER.VAL_ID", "data.test_ids", keys_.val_id);
    take("DATA_LOADER.SEQ_PER_IMG", "data.captions_per_image", keys_.seq_per_img);
    if (keys_.seq_per_img > 1) take("DATA_LOADER.SEQ_PER_IMG", "self_critical.samples", keys_.seq_per_img);
    take("DATA_LOADER.MAX_FEAT", "data.max_features", keys_.max_feat);
    file("DATA_LOADER.INPUT_SEQ_PATH", "data.train", keys_.input_seq_path,
         "captions come from data.train, COCO's JSON or text");
  }

  void model() {
    if (keys_.has("MODEL.SEQ_LEN")) {
      if (keys_.seq_len < 2) refuse(keys_, "MODEL.SEQ_LEN", std::to_string(keys_.seq_len), "a word and the end need 2");
      set("data.max_words", std::to_string(keys_.seq_len - 1), "MODEL.SEQ_LEN");
    }
    take("MODEL.VOCAB_SIZE", "data.vocabulary_size", keys_.vocab_size);
    take("MODEL.ATT_FEATS_DIM", "model.feature_width", keys_.att_feats_dim);
    take("MODEL.BILINEAR.HEAD", "model.heads", keys_.head);
    take("MODEL.BILINEAR.ENCODE_LAYERS", "model.encoder_layers", keys_.encode_layers);
    take("MODEL.BILINEAR.DECODE_LAYERS", "model.decoder_layers", keys_.decode_layers);
    take("MODEL.BILINEAR.DIM", "model.dim", keys_.bilinear_dim);
    take("MODEL.DROPOUT_LM", "model.dropout", keys_.dropout_lm);
    if (!keys_.has("MODEL.TYPE")) return;
    const std::vector<std::pair<std::string, std::string>> types = {{"PureT", "transformer"}, {"XLAN", "x_linear"}};
    const std::string type = one_of("MODEL.TYPE", keys_.model_type, types);
    set("model.type", type, "MODEL.TYPE");
    set("self_critical.baseline", type == "x_linear" ? "greedy" : "samples", "MODEL.TYPE");
    same_width("MODEL.RNN_SIZE", keys_.rnn_size);
    same_width("MODEL.ATT_FEATS_EMBED_DIM", keys_.att_feats_embed_dim);
    if (type == "transformer") {
      take("MODEL.BILINEAR.DIM", "model.feed_forward", 4 * keys_.bilinear_dim);
      for (const char* key : {"MODEL.WORD_EMBED_DIM", "MODEL.DROPOUT_WORD_EMBED", "MODEL.DROPOUT_ATT_EMBED",
                              "MODEL.BILINEAR.ENCODE_DROPOUT", "MODEL.BILINEAR.ENCODE_ATT_MID_DIM"}) {
        if (keys_.has(key)) unread_.emplace_back(key);
      }
      return;
    }
    take("MODEL.WORD_EMBED_DIM", "model.word_dim", keys_.word_embed_dim);
    take("MODEL.DROPOUT_WORD_EMBED", "model.word_dropout", keys_.dropout_word_embed);
    take("MODEL.DROPOUT_ATT_EMBED", "model.feature_dropout", keys_.dropout_att_embed);
    take("MODEL.BILINEAR.ENCODE_DROPOUT", "model.attention_dropout", keys_.encode_dropout);
    take("MODEL.DROPOUT_LM", "model.output_dropout", keys_.dropout_lm);
    if (keys_.has("MODEL.BILINEAR.ENCODE_ATT_MID_DIM")) {
      if (keys_.encode_att_mid_dim.size() != 3) {
        refuse(keys_, "MODEL.BILINEAR.ENCODE_ATT_MID_DIM", text::join(keys_.encode_att_mid_dim),
               "it must have 3 widths");
      }
      set("model.middle_dim", keys_.encode_att_mid_dim[1], "MODEL.BILINEAR.ENCODE_ATT_MID_DIM");
    }
  }

  /// One width serves all of a network here.
  void same_width(const std::string& key, std::int64_t width) {
    if (!keys_.has(key) || !keys_.has("MODEL.BILINEAR.DIM") || width == keys_.bilinear_dim) return;
    refuse(keys_, key, std::to_string(width), fmt::format("it must be MODEL.BILINEAR.DIM, {}", keys_.bilinear_dim));
  }

  void solver() {
    const std::vector<std::pair<std::string, std::string>> types = {
        {"ADAM", "adam"}, {"SGD", "sgd"}, {"ADAGRAD", "adagrad"}, {"RMSPROP", "rmsprop"}};
    if (keys_.has("SOLVER.TYPE")) set("optimizer.type", one_of("SOLVER.TYPE", keys_.solver_type, types), "SOLVER.TYPE");
    take("SOLVER.MAX_EPOCH", "epochs", keys_.max_epoch);
    take("SOLVER.WEIGHT_DECAY", "optimizer.weight_decay", keys_.weight_decay);
    take("SOLVER.DISPLAY", "log_every_steps", keys_.display);
    take("SOLVER.TEST_INTERVAL", "eval_every_epochs", keys_.test_interval);
    if (keys_.solver_type == "ADAM") {
      take("SOLVER.ADAM.BETAS", "optimizer.betas", "[" + text::join(keys_.betas) + "]");
      take("SOLVER.ADAM.EPS", "optimizer.eps", keys_.eps);
    }
    if (keys_.solver_type == "SGD") take("SOLVER.SGD.MOMENTUM", "optimizer.momentum", keys_.momentum);
    if (keys_.bias_lr_factor != 1 && keys_.has("SOLVER.BIAS_LR_FACTOR")) {
      refuse(keys_, "SOLVER.BIAS_LR_FACTOR", fmt::format("{}", keys_.bias_lr_factor),
             "it must be 1; optimizer.groups gives parameters a rate of their own");
    }
    clipping();
    policy();
  }

  void clipping() {
    if (!keys_.has("SOLVER.GRAD_CLIP")) return;
    const std::vector<std::pair<std::string, std::string>> kinds = {
        {"Clamp", "clip_value"}, {"Norm", "clip_norm"}, {"None", ""}};
    const std::string chosen = one_of("SOLVER.GRAD_CLIP_TYPE", keys_.grad_clip_type, kinds);
    for (const std::string key : {"clip_value", "clip_norm"}) {  // a preset may have set the other one
      set(key, key == chosen ? fmt::format("{}", keys_.grad_clip) : "0", "SOLVER.GRAD_CLIP");
    }
  }

  void policy() {
    take("SOLVER.BASE_LR", "optimizer.lr", keys_.base_lr);
    const std::string type = "SOLVER.LR_POLICY.TYPE";
    if (!keys_.has(type)) return;
    const std::vector<std::pair<std::string, std::string>> kinds = {
        {"Fix", "constant"}, {"Step", "step"}, {"MultiStep", "multi_step"}, {"Noam", "noam"}, {"Plateau", "plateau"}};
    const std::string kind = one_of(type, keys_.lr_policy, kinds);
    set("schedule.type", kind, type);
    if (kind != "noam") {  // warm-up is Noam's alone
      set("schedule.warmup_steps", "0", type);
      set("schedule.warmup_epochs", "0", type);
    }
    if (kind == "noam") {
      set("optimizer.lr", fmt::format("{}", keys_.factor), type);  // BASE_LR has no part in it
      set("schedule.model_size", std::to_string(keys_.model_size), type);
      set("schedule.warmup_steps", std::to_string(keys_.warmup), type);
    }
    if (kind == "plateau") {
      set("schedule.factor", fmt::format("{}", keys_.plateau_factor), type);
      set("schedule.patience", std::to_string(keys_.plateau_patience), type);
      set("schedule.min_lr", "0", type);
    }
    if (kind != "step" && kind != "multi_step") return;
    if (keys_.setp_type != "Epoch")
      refuse(keys_, "SOLVER.LR_POLICY.SETP_TYPE", keys_.setp_type, "steps are counted in epochs");
    set("schedule.gamma", fmt::format("{}", keys_.gamma), type);
    if (kind == "step") set("schedule.step_epochs", std::to_string(keys_.step_size), type);
    if (kind == "multi_step") set("schedule.milestones", "[" + text::join(keys_.steps) + "]", type);
  }

  void losses() {
    const std::vector<std::pair<std::string, std::string>> kinds = {{"CrossEntropy", "0"}, {"LabelSmoothing", ""}};
    if (keys_.has("LOSSES.XE_TYPE")) {
      const std::string none = one_of("LOSSES.XE_TYPE", keys_.xe_type, kinds);
      set("loss.label_smoothing", none.empty() ? fmt::format("{}", keys_.label_smoothing) : none, "LOSSES.XE_TYPE");
    }
    if (keys_.rl_type != "RewardCriterion") refuse(keys_, "LOSSES.RL_TYPE", keys_.rl_type, "there is RewardCriterion");
    for (const std::string& scorer : keys_.scorers) {
      if (scorer != "CIDEr" && scorer != "Cider")
        refuse(keys_, "SCORER.TYPES", scorer, "the reward is CIDEr (CIDEr-D)");
    }
    file("SCORER.CIDER_CACHED", "self_critical.document_frequencies", keys_.cider_cached,
         "document frequencies are counted in the training captions");
  }

  void inference() {
    take("INFERENCE.VOCAB", "data.vocabulary", keys_.vocab);
    take("INFERENCE.VAL_ANNFILE", "data.test", keys_.val_annfile);
    take("INFERENCE.BEAM_SIZE", "eval.beam_size", keys_.beam_size);
    if (!keys_.greedy_decode)
      refuse(keys_, "INFERENCE.GREEDY_DECODE", "false", "captions of an evaluation are not drawn");
  }

  OriginKeys keys_;
  ConfigTree ours_;
  std::vector<std::string> unread_;  ///< what is in the file and no setting of this model
};

bool in_capitals(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return std::none_of(section.begin(), section.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

ConfigTree read_experiment(const std::filesystem::path& file) {
  const ConfigTree all = ConfigTree::from_file(file);
  ConfigTree capitals = all.filtered([](const std::string& key) { return in_capitals(key); });
  const ConfigTree own = all.filtered([](const std::string& key) { return !in_capitals(key); });
  if (capitals.values().empty()) return own;
  ConfigTree ours = Translation(capitals).run();
  // Takes the way to clip that the file names, under Lockstep's name.
  for (const auto& [named, other] : {std::pair("clip_norm", "clip_value"), std::pair("clip_value", "clip_norm")}) {
    if (own.values().count(named) != 0) ours.set(std::string(other) + "=0", file.string());
  }
  ours.merge(own);
  return ours;
}

}  // namespace lockstep::captioning
