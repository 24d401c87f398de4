// SPDX-License-Identifier: Apache-2.0
#include "captioning/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr ConfigRange kProbability{.least = 0, .most = 1, .below = true};
constexpr ConfigRange kProbabilityOrNone{.most = 1, .below = true};  // below 0, another setting applies
constexpr ConfigRange kShare{0, 1};
constexpr ConfigRange kWidth{1, 65536};
constexpr ConfigRange kWidthOrNone{0, 65536};
constexpr ConfigRange kLayersOrNone{0, 100};
constexpr ConfigRange kSide{1, 8192};
constexpr double kMostFeatures = 1e6;
constexpr double kMostSamples = 1000;
constexpr double kMostEpochs = 1e6;

void describe_sets(ConfigFields& fields, CaptioningConfig::Sets& sets) {
  fields.add("data.train_split", &sets.train_split, "Karpathy's split, or NLVR's train or test; empty: all");
  fields.add("data.test_split", &sets.test_split, "the same for data.test");
  fields.add("data.train_ids", &sets.train_ids, "file with the ids to use, one per line or JSON; empty: all");
  fields.add("data.test_ids", &sets.test_ids, "the same for data.test");
  fields.add("data.images", &sets.images,
             "folder of images; empty: images/ beside the captions, or the captions' own folder");
  fields.add("data.features", &sets.features, "folder of ID.npz with feat [L, D], instead of images");
  fields.add("data.test_features", &sets.test_features, "the same for data.test; empty: data.features");
  fields.add("data.final_test", &sets.final_test,
             "set on which the best weights are evaluated once, after training; empty: none");
  fields.add("data.final_test_split", &sets.final_test_split, "like data.test_split, but for data.final_test");
  fields.add("data.final_test_ids", &sets.final_test_ids, "like data.test_ids, but for data.final_test");
  fields.add("data.final_test_features", &sets.final_test_features, "like data.test_features, but for data.final_test");
  fields.add("data.vocabulary", &sets.vocabulary,
             "file with one word per line; empty: the words of the training captions");
  fields.add("data.vocabulary_size", &sets.vocabulary_size, "required number of words in the vocabulary; 0: any")
      .in({0, 1e7}, "words");
  fields.add("data.min_word_count", &sets.min_word_count, "words that are rarer in the training captions become UNK")
      .in({1, 1e6});
  fields
      .add("data.max_words", &sets.max_words,
           "maximum words in a caption; longer ones are truncated, in training and in generation")
      .in({1, 1000}, "words");
  fields.add("data.captions_per_image", &sets.captions_per_image, "captions per image in a training step")
      .in({1, kMostSamples}, "captions");
  fields.add("data.max_features", &sets.max_features, "number of rows of an image's features to use; -1: all")
      .in({-1, kMostFeatures}, "rows");
  fields.add("data.height", &sets.height, "height that images are scaled to").in(kSide, "pixels");
  fields.add("data.width", &sets.width, "width that images are scaled to").in(kSide, "pixels");
}

void describe_model(ConfigFields& fields, ModelOptions& model) {
  fields.add("model.layers", &model.backbone.layers, "layers of the ResNet: 18, 34, 50, 101 or 152")
      .in({18, 152}, "layers");
  fields.add("model.output_stride", &model.backbone.output_stride, "side of a grid cell in pixels")
      .in({4, 32}, "pixels");
  fields.add("model.width", &model.backbone.width, "channels of the small backbone's first convolution")
      .in(kWidth, "channels");
  fields
      .add("model.feature_width", &model.feature_width, "width D of features without a backbone; 0: the first image's")
      .in({0, kMostFeatures});
  fields.add("model.dim", &model.dim, "width of the encoder and the decoder").in({2, 65536});
  fields.add("model.heads", &model.heads, "attention heads").in({1, 1024});
  fields.add("model.encoder_layers", &model.encoder_layers, "encoder layers; 0: 3 for transformer, 4 for x_linear")
      .in(kLayersOrNone, "layers");
  fields.add("model.decoder_layers", &model.decoder_layers, "decoder layers; 0: 3 for transformer, 1 for x_linear")
      .in(kLayersOrNone, "layers");
  fields.add("model.feed_forward", &model.feed_forward, "inner width of the transformer layers").in(kWidth);
  fields.add("model.dropout", &model.dropout, "dropout wherever no other is set").in(kProbability);
  fields.add("model.window", &model.window, "side of the transformer's windows in grid cells; 0: global attention")
      .in({0, 8192}, "cells");
  fields
      .add("model.grid_height", &model.grid_height,
           "grid height of features given as rows; both 0: the square root of their number")
      .in({0, 8192}, "cells");
  fields.add("model.grid_width", &model.grid_width, "grid width of features given as rows").in({0, 8192}, "cells");
  fields.add("model.word_dim", &model.x_linear.word_dim, "x_linear: width of the word embedding; 0: model.dim")
      .in(kWidthOrNone);
  fields
      .add("model.middle_dim", &model.x_linear.middle_dim,
           "x_linear: inner width of attention per head; 0: half a head")
      .in(kWidthOrNone);
  fields.add("model.word_dropout", &model.x_linear.word_dropout, "x_linear: dropout on words; below 0: model.dropout")
      .in(kProbabilityOrNone);
  fields
      .add("model.feature_dropout", &model.x_linear.feature_dropout,
           "x_linear: dropout on features; below 0: model.dropout")
      .in(kProbabilityOrNone);
  fields
      .add("model.attention_dropout", &model.x_linear.attention_dropout,
           "x_linear: dropout on the attention's result; below 0: model.dropout")
      .in(kProbabilityOrNone);
  fields
      .add("model.middle_dropout", &model.x_linear.middle_dropout,
           "x_linear: dropout on the input of the attention weights; below 0: model.dropout")
      .in(kProbabilityOrNone);
  fields
      .add("model.update_dropout", &model.x_linear.update_dropout,
           "x_linear: dropout on the updates of regions; below 0: model.dropout")
      .in(kProbabilityOrNone);
  fields
      .add("model.output_dropout", &model.x_linear.output_dropout,
           "x_linear: dropout before the classifier; below 0: model.dropout")
      .in(kProbabilityOrNone);
}

}  // namespace

CaptioningConfig::CaptioningConfig() {
  batch_size = 10;
  epochs = 20;
  model.feature_width = 0;
  optimizer = {.type = "adam", .lr = 5e-4, .weight_decay = 0};
  schedule.type = "constant";
}

void CaptioningConfig::describe(ConfigFields& fields) {
  TrainConfig::describe(fields);
  fields.add("folder", &folder, "an experiment's folder, with config.yml; the run is written there")
      .at_resume(OnResume::kFree);
  describe_sets(fields, sets);
  fields.add("model.type", &model_type, "transformer (window attention) or x_linear (LSTM)",
             {"transformer", "x_linear"});
  fields.add("model.backbone", &backbone, "network that computes image features, trained with the rest of the model",
             {"small", "resnet"});
  describe_model(fields, model);
  fields.add("model.word_activation", &word_activation, "x_linear: activation of the word embedding", {"none", "celu"});
  fields.add("loss.label_smoothing", &loss.label_smoothing, "label smoothing of the cross entropy").in(kProbability);
  fields.add("scheduled_sampling.start", &scheduled_sampling.start, "epochs before the first inc_every interval")
      .in({0, kMostEpochs}, "epochs");
  fields.add("scheduled_sampling.inc_every", &scheduled_sampling.inc_every, "epochs between increases")
      .in({1, kMostEpochs}, "epochs");
  fields.add("scheduled_sampling.inc_prob", &scheduled_sampling.inc_prob, "size of each increase").in(kShare);
  fields
      .add("scheduled_sampling.max_prob", &scheduled_sampling.max_prob,
           "maximum share of input words that the network predicted itself; 0: none")
      .in(kShare);
  fields.add("self_critical.start", &self_critical.start,
             "when self-critical training starts: second_stage (after stop_epoch or stages.patience) or first_epoch",
             {"second_stage", "first_epoch"});
  fields.add("self_critical.baseline", &self_critical.baseline,
             "baseline of a sample: the mean of the image's other samples, or the greedy caption",
             {"samples", "greedy"});
  fields.add("self_critical.samples", &self_critical.samples, "captions sampled per image")
      .in({1, kMostSamples}, "captions");
  fields.add("self_critical.document_frequencies", &self_critical.document_frequencies,
             "file for the document frequencies of the training captions for CIDEr, created if missing; empty: none");
  fields.add("eval.beam_size", &eval.beam_size, "beam width; 1: greedy").in({1, 1024}, "captions");
}

void CaptioningConfig::validate() const {
  TrainConfig::validate();
  if (!sets.test_features.empty() && sets.features.empty()) {
    throw UsageError("data.test_features is set, but data.features is not", "set both or neither");
  }
  const bool alone = self_critical.baseline == "samples" && is_self_critical();
  if (alone && self_critical.samples < 2) {
    throw UsageError("self_critical.samples is 1, but a sample must beat the image's other samples",
                     "self_critical.samples=2, or self_critical.baseline=greedy");
  }
}

ModelOptions CaptioningConfig::model_options(std::int64_t ids, std::int64_t feature_width) const {
  ModelOptions options = model;
  options.type = model_type_from_name(model_type);
  options.vocabulary = ids;
  options.x_linear.celu_of_words = word_activation == "celu";
  options.backbone.type = has_features() ? BackboneType::kNone : backbone_type_from_name(backbone);
  if (has_features()) options.feature_width = feature_width;
  return options;
}

SetOptions CaptioningConfig::set_options(const std::string& path, bool training) const {
  const bool own_features = !training && !sets.test_features.empty();
  return {.path = path,
          .split = training ? sets.train_split : sets.test_split,
          .ids = training ? sets.train_ids : sets.test_ids,
          .images = sets.images,
          .features = own_features ? sets.test_features : sets.features,
          .allow_outside = data.allow_outside,
          .feature_width = model.feature_width,
          .max_features = sets.max_features,
          .max_words = sets.max_words,
          .captions_per_image = sets.captions_per_image,
          .height = sets.height,
          .width = sets.width,
          .min_word_count = sets.min_word_count};
}

std::vector<std::string> CaptioningConfig::settings_of_final_test() const {
  if (sets.final_test.empty()) return {};
  return {"data.test=" + sets.final_test, "data.test_split=" + sets.final_test_split,
          "data.test_ids=" + sets.final_test_ids, "data.test_features=" + sets.final_test_features};
}

double CaptioningConfig::scheduled_sampling_at(std::int64_t epoch) const {
  if (epoch < scheduled_sampling.start) return 0;
  const std::int64_t rises = (epoch - scheduled_sampling.start) / scheduled_sampling.inc_every;
  return std::min(scheduled_sampling.max_prob, scheduled_sampling.inc_prob * static_cast<double>(rises));
}

}  // namespace lockstep::captioning
