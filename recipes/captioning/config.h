// SPDX-License-Identifier: Apache-2.0
// The captioning recipe's own settings, its presets, and the original project's experiments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "captioning/data/captions.h"
#include "captioning/model/model.h"
#include "lockstep/base/config.h"
#include "lockstep/train/train_config.h"

namespace lockstep::captioning {

struct CaptioningConfig final : TrainConfig {
  std::string folder;  ///< folder of an experiment, with config.yml; empty if none

  struct Sets {
    std::string train_split;  ///< this and the next three: SetOptions::split and ids for each set
    std::string test_split;
    std::string train_ids;
    std::string test_ids;
    std::string images;  ///< SetOptions::images for both sets
    std::string features;
    std::string test_features;  ///< features of the test set; empty means `features`
    std::string final_test;     ///< set for a last evaluation, with the best weights, after training; empty if none
    std::string final_test_split;
    std::string final_test_ids;
    std::string final_test_features;
    std::string vocabulary;            ///< file with one word per line; if empty, the training captions' words
    std::int64_t vocabulary_size = 0;  ///< required number of words; 0 means any
    std::int64_t min_word_count = 1;
    std::int64_t max_words = 16;
    std::int64_t captions_per_image = 5;
    std::int64_t max_features = -1;
    std::int64_t height = 128;  ///< height in pixels of the network's input images
    std::int64_t width = 128;
  } sets;

  std::string model_type = "transformer";
  std::string backbone = "small";
  std::string word_activation = "none";
  ModelOptions model;  ///< the other settings of the network

  struct Loss {
    double label_smoothing = 0;  ///< fraction of a target spread over the other words; 0 means plain cross entropy
  } loss;

  /// The probability that an input word is the network's own rather than the caption's. It increases by inc_prob every
  /// inc_every epochs from `start`, up to max_prob.
  struct ScheduledSampling {
    std::int64_t start = 0;  ///< epoch, counted from 0; the probability is 0 until start + inc_every
    std::int64_t inc_every = 5;
    double inc_prob = 0.05;
    double max_prob = 0;  ///< maximum probability; 0 means no scheduled sampling
  } scheduled_sampling;

  struct SelfCritical {
    std::string start = "second_stage";  ///< second_stage (stop_epoch) or first_epoch
    std::string baseline = "samples";    ///< samples (mean reward of the image's other samples) or greedy
    std::int64_t samples = 5;            ///< captions drawn for each image
    std::string document_frequencies;    ///< file of the training captions' document frequencies; empty if none
  } self_critical;

  struct Eval {
    std::int64_t beam_size = 3;  ///< 1: greedy
  } eval;

  CaptioningConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;

  [[nodiscard]] bool has_features() const { return !sets.features.empty(); }
  /// True if some epochs may be self-critical.
  [[nodiscard]] bool is_self_critical() const { return self_critical.start == "first_epoch" || has_second_stage(); }
  /// Returns the options for a vocabulary of `ids` ids and, without a backbone, for features of width `feature_width`.
  [[nodiscard]] ModelOptions model_options(std::int64_t ids, std::int64_t feature_width) const;
  [[nodiscard]] SetOptions set_options(const std::string& path, bool training) const;
  /// Returns the settings that replace those of data.test for the final test; empty if there is no final test.
  [[nodiscard]] std::vector<std::string> settings_of_final_test() const override;
  /// Returns the probability of scheduled sampling in an epoch, counted from 0.
  [[nodiscard]] double scheduled_sampling_at(std::int64_t epoch) const;
};

/// The recipe's presets, compiled in from *.yml: the YAML of each, by file name without .yml.
[[nodiscard]] std::map<std::string, std::string> presets();

/// Reads an experiment in its original form: a config.yml with sections in capitals. The result has this program's
/// settings, each with the file and line that it came from.
///
/// Keys in capitals are the original ones (lib/config.py of X-LAN and PureT); all other keys are this program's own;
/// they may be in the same file and take precedence. A key missing from the file keeps this program's default. One note
/// lists the keys that have no effect here. Pickles are not read: captions and document frequencies in .pkl files are
/// skipped, with a note that names the setting to use instead.
///
/// Throws: DataError if the file is missing; UsageError naming file and line of a key that the original does not have
///         (and suggesting the closest one), of a value of the wrong type, or of a value without a counterpart here.
[[nodiscard]] ConfigTree read_experiment(const std::filesystem::path& file);

}  // namespace lockstep::captioning
