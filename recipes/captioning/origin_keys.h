// SPDX-License-Identifier: Apache-2.0
// The keys in the original experiments' config.yml, with their types and original defaults.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::captioning {

/// The members are the keys that become settings here. Source: lib/config.py of X-LAN and PureT (their defaults).
class OriginKeys {
 public:
  OriginKeys();
  OriginKeys(const OriginKeys&) = delete;
  OriginKeys& operator=(const OriginKeys&) = delete;

  /// Throws: UsageError that names the file and line of an unknown key, and suggests the closest match, or of a value
  /// of the wrong type.
  void read(const ConfigTree& file);

  /// True if `key` was in the file.
  [[nodiscard]] bool has(const std::string& key) const { return origin(key) != "default"; }
  /// The place of a key, such as "experiments/x/config.yml:12", or "default".
  [[nodiscard]] std::string origin(const std::string& key) const;
  /// The keys of the file that have no member.
  [[nodiscard]] const std::vector<std::string>& others() const noexcept { return others_; }
  /// The value of a key in the file, in readable form.
  [[nodiscard]] std::string text_of(const std::string& key) const;

  double seed = -1;
  std::int64_t batch_size = 10;
  std::int64_t sampling_start = 0;
  std::int64_t sampling_inc_every = 5;
  double sampling_inc_prob = 0.05;
  double sampling_max_prob = 0.25;
  std::int64_t reinforcement_start = 30;

  std::int64_t num_workers = 4;
  bool pin_memory = true;
  bool drop_last = true;
  bool shuffle = true;
  std::string train_features;
  std::string val_features;
  std::string train_id;
  std::string val_id;
  std::string test_features;
  std::string test_id;
  std::string input_seq_path;
  std::int64_t seq_per_img = 5;
  std::int64_t max_feat = -1;

  std::string model_type;
  std::int64_t seq_len = 17;
  std::int64_t vocab_size = 9487;
  std::int64_t word_embed_dim = 1000;
  std::string word_embed_act = "NONE";
  double dropout_word_embed = 0;
  std::int64_t att_feats_dim = 2048;
  std::int64_t att_feats_embed_dim = -1;
  double dropout_att_embed = 0;
  std::int64_t rnn_size = 1000;
  double dropout_lm = 0.5;
  std::int64_t bilinear_dim = -1;
  std::vector<std::string> encode_att_mid_dim;
  std::vector<std::string> decode_att_mid_dim;
  double encode_dropout = 0.1;
  double decode_dropout = 0.1;
  double encode_mid_dropout = 0;
  double decode_mid_dropout = 0;
  double fusion_dropout = 0.3;
  std::int64_t encode_layers = 1;
  std::int64_t decode_layers = 1;
  std::int64_t head = 8;

  double base_lr = 0.0005;
  std::string solver_type = "ADAM";
  std::int64_t max_epoch = 30;
  double grad_clip = 0.1;
  std::string grad_clip_type = "Clamp";
  double weight_decay = 0.0005;
  double weight_decay_bias = 0;
  double bias_lr_factor = 1;
  std::int64_t display = 100;
  std::int64_t test_interval = 1;
  std::int64_t snapshot_iters = 3;
  double momentum = 0.9;
  std::vector<std::string> betas;
  double eps = 1e-8;
  std::string lr_policy = "Step";
  double gamma = 0.8;
  std::int64_t step_size = 3;
  std::vector<std::string> steps;
  std::string setp_type = "Epoch";
  std::int64_t warmup = 20000;
  double factor = 1;
  std::int64_t model_size = 1024;
  double plateau_factor = 0.5;
  std::int64_t plateau_patience = 3;

  std::string xe_type = "CrossEntropy";
  std::string rl_type = "RewardCriterion";
  double label_smoothing = 0;
  std::vector<std::string> scorers;
  std::string cider_cached;
  std::string vocab;
  std::string val_annfile;
  std::string test_annfile;
  std::int64_t beam_size = 1;
  bool greedy_decode = true;

 private:
  using Unused = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

  void add(const char* key, ConfigFields::Target target);
  void add_training();
  void add_data();
  void add_model();
  void add_solver();
  void add_scores();
  /// Adds keys that are accepted but have no effect here.
  template <class T>
  void without_meaning(const std::vector<const char*>& keys);

  ConfigFields fields_;
  std::deque<Unused> unused_;
  std::vector<std::string> unused_names_;
  std::vector<std::string> others_;
};

}  // namespace lockstep::captioning
