// SPDX-License-Identifier: Apache-2.0
#include "captioning/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "captioning/data/caption_files.h"
#include "captioning/origin_keys.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

[[noreturn]] void refuse(const OriginKeys& keys, const std::string& key, const std::string& value,
                         const std::string& instead) {
  throw UsageError(fmt::format("{}: {} is '{}': {}", keys.origin(key), key, value, instead));
}

/// A key for which this program supports a single value.
struct Fixed {
  enum Network { kBoth, kXLan, kPureT } of;
  const char* key;
  const char* here;
};

constexpr std::array kFixed = {Fixed{Fixed::kBoth, "MODEL.ATT_FEATS_EMBED_ACT", "CELU"},
                               Fixed{Fixed::kBoth, "MODEL.ATT_FEATS_NORM", "false"},
                               Fixed{Fixed::kBoth, "MODEL.BILINEAR.ELU_ALPHA", "1.3"},
                               Fixed{Fixed::kXLan, "MODEL.WORD_EMBED_NORM", "false"},
                               Fixed{Fixed::kXLan, "MODEL.GVFEAT_EMBED_DIM", "-1"},
                               Fixed{Fixed::kXLan, "MODEL.GVFEAT_EMBED_ACT", "NONE"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.ACT", "CELU"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.BIFEAT_EMB_ACT", "RELU"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.TYPE", "LowRank"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.ATTTYPE", "SCAtt"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.ENCODE_BLOCK", "LowRankBilinearEnc"},
                               Fixed{Fixed::kXLan, "MODEL.BILINEAR.DECODE_BLOCK", "LowRankBilinearDec"},
                               Fixed{Fixed::kPureT, "MODEL.BILINEAR.ENCODE_FF_DROPOUT", "0.1"},
                               Fixed{Fixed::kPureT, "MODEL.BILINEAR.DECODE_FF_DROPOUT", "0.1"},
                               Fixed{Fixed::kBoth, "SCORER.WEIGHTS", "[1.0]"},
                               Fixed{Fixed::kBoth, "DATA_LOADER.TRAIN_GV_FEAT", ""},
                               Fixed{Fixed::kBoth, "DATA_LOADER.VAL_GV_FEAT", ""},
                               Fixed{Fixed::kBoth, "DATA_LOADER.TEST_GV_FEAT", ""}};

/// Keys that have no effect on these two networks in the original code either.
constexpr std::array<std::string_view, 11> kUnusedThere = {"SOLVER.MAX_ITER",
                                                           "MODEL.GVFEAT_DIM",
                                                           "MODEL.DROPOUT_GV_EMBED",
                                                           "MODEL.ATT_HIDDEN_SIZE",
                                                           "MODEL.ATT_HIDDEN_DROP",
                                                           "MODEL.ATT_ACT",
                                                           "MODEL.BILINEAR.ATT_DIM",
                                                           "MODEL.TRANSFORMER.PE_MAX_LEN",
                                                           "MODEL.BOTTOM_UP.DROPOUT_FIRST_INPUT",
                                                           "MODEL.BOTTOM_UP.DROPOUT_SEC_INPUT",
                                                           "MODEL.BILINEAR.DECODE_BIFEAT_EMB_DROPOUT"};

bool is_same(const std::string& a, const std::string& b) {
  const auto number = text::parse_number(a);
  return a == b || (number && number == text::parse_number(b)) || (b.empty() && a == "\"\"");
}

/// Rejects networks other than the two in this recipe, before any other message about the file.
void require_known_network(const ConfigTree& file) {
  const auto type = file.values().find("MODEL.TYPE");
  if (type == file.values().end() || type->second.yaml == "PureT" || type->second.yaml == "XLAN") return;
  throw UsageError(fmt::format("{}: MODEL.TYPE is '{}', but only PureT and XLAN are available here",
                               type->second.origin, type->second.yaml));
}

bool is_picture(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".JPG";
}

/// True if a folder given for features holds images, judging by the list of files or by the first file in the folder.
bool names_pictures(const std::string& folder, const std::string& ids) {
  namespace fs = std::filesystem;
  std::error_code problem;
  if (!ids.empty() && fs::is_regular_file(ids, problem)) {
    const IdList list = read_ids(ids);
    if (!list.files.empty()) return is_picture(list.files.front());
  }
  if (folder.empty() || !fs::is_directory(folder, problem)) return false;
  const std::vector<std::string> files = FileSystem::system().list(folder);
  return std::any_of(files.begin(), files.end(), is_picture);
}

/// Translates the values of an original file into this program's settings.
class OriginSettings {
 public:
  explicit OriginSettings(const ConfigTree& capitals) { keys_.read(capitals); }

 protected:
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
  /// Translates a file that this program reads, unless it is a pickle.
  void file(const std::string& from, const std::string& to, const std::string& value, const char* instead) {
    if (!keys_.has(from) || value.empty()) return;
    if (!value.ends_with(".pkl")) return set(to, value, from);
    replaced_.push_back(fmt::format("{}: {} is a pickle, which is not read: {}", keys_.origin(from), from, instead));
  }

  /// Adds a note if `value` differs from `here`, the value of `other`, which this program uses for both keys.
  void same_as(const std::string& key, double value, const std::string& other, double here) {
    if (!keys_.has(key) || !keys_.has(other) || value == here) return;
    different_.push_back(
        fmt::format("{}: {} is {}, which changes the result: here the value of {} is used for both: {}",
                    keys_.origin(key), key, value, other, here));
  }

  [[nodiscard]] bool is_x_lan() const { return keys_.model_type == "XLAN"; }

  /// Adds notes on the values that this program handles differently: first those that change the result, then the rest.
  void say_what_is_different() const {
    for (const Fixed& fixed : kFixed) {
      const bool counts = fixed.of == Fixed::kBoth || (fixed.of == Fixed::kXLan) == is_x_lan();
      if (!counts || !keys_.has(fixed.key) || is_same(keys_.text_of(fixed.key), fixed.here)) continue;
      log::note("{}: {} is {}, which changes the result: here it is always {}", keys_.origin(fixed.key), fixed.key,
                quoted(keys_.text_of(fixed.key)), quoted(fixed.here));
    }
    for (const auto& notes : {different_, replaced_}) {
      for (const std::string& note : notes) log::note("{}", note);
    }
    for (const std::string& key : keys_.others()) {
      const bool fixed = std::any_of(kFixed.begin(), kFixed.end(), [&](const Fixed& each) { return key == each.key; });
      const bool unused = std::find(kUnusedThere.begin(), kUnusedThere.end(), key) != kUnusedThere.end();
      if (!fixed && !unused) log::note("this setting has no effect here: {}", key);
    }
  }
  static std::string quoted(const std::string& text) { return text.empty() ? "''" : text; }

  OriginKeys keys_;                     // NOLINT(*-non-private-member-variables-in-classes): the classes below use it
  ConfigTree ours_;                     // NOLINT(*-non-private-member-variables-in-classes)
  std::vector<std::string> different_;  ///< notes on values that change the result there, but not here  NOLINT
  std::vector<std::string> replaced_;   ///< notes on files that this program replaces with others  NOLINT
};

/// The settings of the network.
class NetworkSettings : public OriginSettings {
 public:
  using OriginSettings::OriginSettings;

 protected:
  void model() {
    if (keys_.has("MODEL.SEQ_LEN")) {
      if (keys_.seq_len < 2)
        refuse(keys_, "MODEL.SEQ_LEN", std::to_string(keys_.seq_len),
               "it must be at least 2, for a word and the end mark");
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
    set("model.type", is_x_lan() ? "x_linear" : "transformer", "MODEL.TYPE");
    set("self_critical.baseline", is_x_lan() ? "greedy" : "samples", "MODEL.TYPE");
    same_width("MODEL.RNN_SIZE", keys_.rnn_size);
    same_width("MODEL.ATT_FEATS_EMBED_DIM", keys_.att_feats_embed_dim);
    if (is_x_lan()) {
      x_lan();
    } else {
      take("MODEL.BILINEAR.DIM", "model.feed_forward", 4 * keys_.bilinear_dim);
      pure_t_dropouts();
    }
  }

 private:
  /// PureT has separate probabilities for its decoder, words and features; its encoder's is always 0.1.
  void pure_t_dropouts() {
    const std::string decoder = "MODEL.BILINEAR.DECODE_DROPOUT";
    if (!keys_.has(decoder)) return;
    take(decoder, "model.dropout", keys_.decode_dropout);
    same_as("MODEL.DROPOUT_WORD_EMBED", keys_.dropout_word_embed, decoder, keys_.decode_dropout);
    same_as("MODEL.DROPOUT_ATT_EMBED", keys_.dropout_att_embed, decoder, keys_.decode_dropout);
  }

  void x_lan() {
    const std::vector<std::pair<std::string, std::string>> activations = {{"NONE", "none"}, {"CELU", "celu"}};
    const std::string words = "MODEL.WORD_EMBED_ACT";
    if (keys_.has(words)) set("model.word_activation", one_of(words, keys_.word_embed_act, activations), words);
    take("MODEL.WORD_EMBED_DIM", "model.word_dim", keys_.word_embed_dim);
    take("MODEL.DROPOUT_WORD_EMBED", "model.word_dropout", keys_.dropout_word_embed);
    take("MODEL.DROPOUT_ATT_EMBED", "model.feature_dropout", keys_.dropout_att_embed);
    take("MODEL.DROPOUT_LM", "model.output_dropout", keys_.dropout_lm);
    const std::string encoder = "MODEL.BILINEAR.ENCODE_";
    take(encoder + "DROPOUT", "model.attention_dropout", keys_.encode_dropout);
    take(encoder + "ATT_MID_DROPOUT", "model.middle_dropout", keys_.encode_mid_dropout);
    take(encoder + "BIFEAT_EMB_DROPOUT", "model.update_dropout", keys_.fusion_dropout);
    const std::string decoder = "MODEL.BILINEAR.DECODE_";
    same_as(decoder + "DROPOUT", keys_.decode_dropout, encoder + "DROPOUT", keys_.encode_dropout);
    same_as(decoder + "ATT_MID_DROPOUT", keys_.decode_mid_dropout, encoder + "ATT_MID_DROPOUT",
            keys_.encode_mid_dropout);
    middle_width();
  }

  void middle_width() {
    const std::string key = "MODEL.BILINEAR.ENCODE_ATT_MID_DIM";
    if (!keys_.has(key)) return;
    if (keys_.encode_att_mid_dim.size() != 3) {
      refuse(keys_, key, text::join(keys_.encode_att_mid_dim), "it must have 3 widths");
    }
    const std::string decoder = "MODEL.BILINEAR.DECODE_ATT_MID_DIM";
    if (keys_.has(decoder) && keys_.decode_att_mid_dim != keys_.encode_att_mid_dim) {
      refuse(keys_, decoder, text::join(keys_.decode_att_mid_dim), "it must match the encoder's");
    }
    set("model.middle_dim", keys_.encode_att_mid_dim[1], key);
  }

  /// Rejects a second width: in this program, the whole network has one width.
  void same_width(const std::string& key, std::int64_t width) {
    if (!keys_.has(key) || !keys_.has("MODEL.BILINEAR.DIM") || width == keys_.bilinear_dim) return;
    refuse(keys_, key, std::to_string(width), fmt::format("it must be MODEL.BILINEAR.DIM, {}", keys_.bilinear_dim));
  }
};

/// All settings.
class Translation final : public NetworkSettings {
 public:
  using NetworkSettings::NetworkSettings;

  ConfigTree run() {
    training();
    data();
    model();
    solver();
    losses();
    inference();
    say_what_is_different();
    return std::move(ours_);
  }

 private:
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

  /// Translates scheduled sampling. If one of its keys is set, the other keys get the original defaults.
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

  /// Translates the folder of features, or of images if the original backbone computes the features.
  void features() {
    if (!names_pictures(keys_.train_features, keys_.train_id)) {
      take("DATA_LOADER.TRAIN_ATT_FEATS", "data.features", keys_.train_features);
      take("DATA_LOADER.VAL_ATT_FEATS", "data.test_features", keys_.val_features);
      return;
    }
    const std::string from = "DATA_LOADER.TRAIN_ATT_FEATS";
    if (keys_.val_features != keys_.train_features) {
      refuse(keys_, "DATA_LOADER.VAL_ATT_FEATS", keys_.val_features,
             fmt::format("it must be the folder of the training images, {}", keys_.train_features));
    }
    set("data.images", keys_.train_features, from);
    for (const auto& [key, value] :
         {std::pair("data.height", "384"), std::pair("data.width", "384"), std::pair("model.backbone", "resnet"),
          std::pair("model.layers", "50"), std::pair("model.output_stride", "32")}) {
      set(key, value, from);
    }
    different_.push_back(
        fmt::format("{}: {} contains images, which the original passes to a frozen Swin-L; here a ResNet-50 is trained "
                    "with the rest of the model instead (model.backbone), so the result differs. For the same network, "
                    "use Swin's features: --set data.features=FOLDER of ID.npz",
                    keys_.origin(from), keys_.train_features));
  }

  void data() {
    take("DATA_LOADER.NUM_WORKERS", "workers", keys_.num_workers);
    take("DATA_LOADER.PIN_MEMORY", "pin_memory", keys_.pin_memory);
    take("DATA_LOADER.DROP_LAST", "drop_last", keys_.drop_last);
    if (!keys_.shuffle)
      refuse(keys_, "DATA_LOADER.SHUFFLE", "false", "training always draws a new order in each epoch");
    features();
    take("DATA_LOADER.TRAIN_ID", "data.train_ids", keys_.train_id);
    take("DATA_LOADER.VAL_ID", "data.test_ids", keys_.val_id);
    if (keys_.has("INFERENCE.TEST_ANNFILE")) {
      take("INFERENCE.TEST_ANNFILE", "data.final_test", keys_.test_annfile);
      take("DATA_LOADER.TEST_ID", "data.final_test_ids", keys_.test_id);
      const bool pictures = names_pictures(keys_.test_features, keys_.test_id);
      if (!pictures) take("DATA_LOADER.TEST_ATT_FEATS", "data.final_test_features", keys_.test_features);
    }
    take("DATA_LOADER.SEQ_PER_IMG", "data.captions_per_image", keys_.seq_per_img);
    if (keys_.seq_per_img > 1) take("DATA_LOADER.SEQ_PER_IMG", "self_critical.samples", keys_.seq_per_img);
    take("DATA_LOADER.MAX_FEAT", "data.max_features", keys_.max_feat);
    file("DATA_LOADER.INPUT_SEQ_PATH", "data.train", keys_.input_seq_path,
         "captions come from data.train: COCO's JSON or text");
  }

  void solver() {
    const std::vector<std::pair<std::string, std::string>> types = {
        {"ADAM", "adam"}, {"SGD", "sgd"}, {"ADAGRAD", "adagrad"}, {"RMSPROP", "rmsprop"}};
    if (keys_.has("SOLVER.TYPE")) set("optimizer.type", one_of("SOLVER.TYPE", keys_.solver_type, types), "SOLVER.TYPE");
    take("SOLVER.MAX_EPOCH", "epochs", keys_.max_epoch);
    take("SOLVER.WEIGHT_DECAY", "optimizer.weight_decay", keys_.weight_decay);
    same_as("SOLVER.WEIGHT_DECAY_BIAS", keys_.weight_decay_bias, "SOLVER.WEIGHT_DECAY", keys_.weight_decay);
    take("SOLVER.SNAPSHOT_ITERS", "checkpoint.every_epochs", keys_.snapshot_iters);
    take("SOLVER.DISPLAY", "log_every_steps", keys_.display);
    take("SOLVER.TEST_INTERVAL", "eval_every_epochs", keys_.test_interval);
    if (keys_.solver_type == "ADAM") {
      take("SOLVER.ADAM.BETAS", "optimizer.betas", "[" + text::join(keys_.betas) + "]");
      take("SOLVER.ADAM.EPS", "optimizer.eps", keys_.eps);
    }
    if (keys_.solver_type == "SGD") take("SOLVER.SGD.MOMENTUM", "optimizer.momentum", keys_.momentum);
    if (keys_.bias_lr_factor != 1 && keys_.has("SOLVER.BIAS_LR_FACTOR")) {
      refuse(keys_, "SOLVER.BIAS_LR_FACTOR", fmt::format("{}", keys_.bias_lr_factor),
             "it must be 1; use optimizer.groups to give parameters their own rate");
    }
    clipping();
    policy();
  }

  void clipping() {
    if (!keys_.has("SOLVER.GRAD_CLIP")) return;
    const std::vector<std::pair<std::string, std::string>> kinds = {
        {"Clamp", "clip_value"}, {"Norm", "clip_norm"}, {"None", ""}};
    const std::string chosen = one_of("SOLVER.GRAD_CLIP_TYPE", keys_.grad_clip_type, kinds);
    for (const std::string key : {"clip_value", "clip_norm"}) {  // a preset may have set the other kind of clipping
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
    if (kind != "noam") {  // only Noam has a warm-up
      set("schedule.warmup_steps", "0", type);
      set("schedule.warmup_epochs", "0", type);
    }
    if (kind == "noam") {
      set("optimizer.lr", fmt::format("{}", keys_.factor), type);  // Noam ignores BASE_LR
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
    if (keys_.rl_type != "RewardCriterion")
      refuse(keys_, "LOSSES.RL_TYPE", keys_.rl_type, "only RewardCriterion is available");
    for (const std::string& scorer : keys_.scorers) {
      if (scorer != "CIDEr" && scorer != "Cider")
        refuse(keys_, "SCORER.TYPES", scorer, "the reward is CIDEr (CIDEr-D)");
    }
    file("SCORER.CIDER_CACHED", "self_critical.document_frequencies", keys_.cider_cached,
         "document frequencies are counted from the training captions");
  }

  void inference() {
    take("INFERENCE.VOCAB", "data.vocabulary", keys_.vocab);
    take("INFERENCE.VAL_ANNFILE", "data.test", keys_.val_annfile);
    take("INFERENCE.BEAM_SIZE", "eval.beam_size", keys_.beam_size);
    if (!keys_.greedy_decode)
      refuse(keys_, "INFERENCE.GREEDY_DECODE", "false", "captions are not sampled in an evaluation");
  }
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
  require_known_network(capitals);
  ConfigTree ours = Translation(capitals).run();
  // Lockstep's own key for one kind of clipping turns off the other kind.
  for (const auto& [named, other] : {std::pair("clip_norm", "clip_value"), std::pair("clip_value", "clip_norm")}) {
    if (own.values().count(named) != 0) ours.set(std::string(other) + "=0", file.string());
  }
  ours.merge(own);
  return ours;
}

}  // namespace lockstep::captioning
