// SPDX-License-Identifier: Apache-2.0
#include "captioning/task.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <array>
#include <cstring>

#include "captioning/data/collate.h"
#include "captioning/model/losses.h"
#include "captioning/model/origin_names.h"
#include "captioning/model/search.h"
#include "captioning/tally.h"
#include "common/imagenet_values.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/autocast.h"

namespace lockstep::captioning {
namespace {

constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kFeatureWidth = "feature_width";

const CaptionBatch& captions_of(const Batch& batch) {
  const auto* captions = std::any_cast<CaptionBatch>(&batch.extra);
  if (captions == nullptr) throw InternalError("the batch has no captions: the loader must use the task's collate()");
  return *captions;
}

/// Turns dropout off during its lifetime, so that captions are drawn from, and scored under, the same distribution. The
/// encoder has already run, in the model's own mode, with the norms and dropout of training.
class DecoderAtRest {
 public:
  explicit DecoderAtRest(Captioner& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~DecoderAtRest() { model_.train(was_training_); }
  DecoderAtRest(const DecoderAtRest&) = delete;
  DecoderAtRest& operator=(const DecoderAtRest&) = delete;

 private:
  Captioner& model_;
  bool was_training_;
};

/// The network's inputs when it predicts each of `words`.
at::Tensor inputs_of(const at::Tensor& words) {
  const at::Tensor begin = at::zeros({words.size(0), 1}, words.options());
  return at::cat({begin, words.narrow(1, 0, words.size(1) - 1)}, 1);
}

at::Tensor bytes_of(const std::string& text) {
  auto* bytes = const_cast<char*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast): from_blob only reads
  return at::from_blob(bytes, {static_cast<std::int64_t>(text.size())}, at::kByte).clone();
}

std::string text_of(const at::Tensor& bytes) {
  const at::Tensor here = bytes.to(at::kCPU, at::kByte).contiguous();
  return {reinterpret_cast<const char*>(here.data_ptr<std::uint8_t>()), static_cast<std::size_t>(here.numel())};
}

const at::Tensor* tensor_of(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  return found == state.end() ? nullptr : std::get_if<at::Tensor>(&found->second);
}

}  // namespace

void CaptioningTask::make_vocabulary(const std::vector<CaptionedImage>& images) {
  const auto& sets = config_.sets;
  auto vocabulary =
      sets.vocabulary.empty() ? Vocabulary::of(images, sets.min_word_count) : Vocabulary::from_file(sets.vocabulary);
  const std::int64_t words = vocabulary.size() - 1;
  if (sets.vocabulary_size > 0 && words != sets.vocabulary_size) {
    throw UsageError(
        fmt::format("the vocabulary has {} words, but data.vocabulary_size is {}", words, sets.vocabulary_size),
        "set data.vocabulary to the file with those words");
  }
  vocabulary_ = std::make_shared<const Vocabulary>(std::move(vocabulary));
}

std::shared_ptr<Dataset> CaptioningTask::make_training_set(const std::string& folder) {
  const SetOptions options = config_.set_options(folder, true);
  std::vector<CaptionedImage> images = read_captions(options);
  make_vocabulary(images);
  const auto set = CaptionDataset::open(options, std::move(images), vocabulary_, true);
  feature_width_ = set->feature_width();
  require_final_test();
  if (config_.is_self_critical()) {
    reward_.emplace(frequencies_of(*set, config_.self_critical.document_frequencies));
  }
  return set;
}

/// Rejects a missing file before training rather than after it.
void CaptioningTask::require_final_test() const {
  if (config_.sets.final_test.empty()) return;
  const auto& sets = config_.sets;
  SetOptions options = config_.set_options(sets.final_test, false);
  options.split = sets.final_test_split;
  options.ids = sets.final_test_ids;
  options.features = sets.final_test_features.empty() ? sets.features : sets.final_test_features;
  (void)read_captions(options);
}

std::shared_ptr<Dataset> CaptioningTask::make_dataset(const std::string& folder) {
  SetOptions options = config_.set_options(folder, false);
  if (config_.has_features()) options.feature_width = feature_width_;
  test_set_ = CaptionDataset::open(options, vocabulary(), false);
  return test_set_;
}

Collate CaptioningTask::collate() const { return captioning::collate(); }

std::shared_ptr<const Vocabulary> CaptioningTask::vocabulary() const {
  if (vocabulary_) return vocabulary_;
  throw UsageError("there is no vocabulary yet: it comes from a training set or a checkpoint");
}

void CaptioningTask::check_model_state(const StateDict& state) {
  const at::Tensor* bytes = tensor_of(state, kVocabulary);
  if (bytes == nullptr) return;  // weights without a vocabulary are not checked here
  auto theirs =
      std::make_shared<const Vocabulary>(Vocabulary::from_text(text_of(*bytes), "the checkpoint's vocabulary"));
  if (const at::Tensor* width = tensor_of(state, kFeatureWidth)) check_feature_width(width->item<std::int64_t>());
  if (!vocabulary_) {
    vocabulary_ = theirs;
    return;
  }
  const std::string difference = vocabulary_->difference(*theirs);
  if (difference.empty()) return;
  throw DataError(fmt::format("the vocabulary differs from the checkpoint's: {}", difference),
                  "train with the checkpoint's words: data.vocabulary=FILE, one per line, in order");
}

void CaptioningTask::check_feature_width(std::int64_t theirs) {
  if (feature_width_ > 0 && feature_width_ != theirs) {
    throw DataError(fmt::format("the features are {} wide, but the checkpoint's were {}", feature_width_, theirs),
                    "set data.features to the features that the checkpoint was trained with");
  }
  feature_width_ = theirs;
}

std::shared_ptr<torch::nn::Module> CaptioningTask::make_model() {
  const auto words = vocabulary();
  const auto model = make_captioner(config_.model_options(words->size(), feature_width_));
  model->register_buffer(kVocabulary, bytes_of(words->to_text()));
  if (config_.has_features()) model->register_buffer(kFeatureWidth, at::full({1}, feature_width_, at::kLong));
  return model;
}

/// Requires data.vocabulary to have as many words as the weights, because ids are line numbers in the original
/// vocabulary.
void CaptioningTask::require_origins_words(const StateDict& weights, const NamedTensors& model) const {
  const char* name = model_type_from_name(config_.model_type) == ModelType::kXLinear ? "word_embed.0.weight"
                                                                                     : "decoder.word_embed.weight";
  const at::Tensor* theirs = tensor_of(weights, name);
  const auto ours =
      std::find_if(model.begin(), model.end(), [](const auto& item) { return item.first == "words.weight"; });
  if (theirs == nullptr || ours == model.end()) return;
  if (theirs->size(0) != ours->second.size(0)) {
    throw DataError(fmt::format("the weights are for {} words, but the vocabulary has {}", theirs->size(0) - 1,
                                ours->second.size(0) - 1),
                    "set data.vocabulary to the original vocabulary file (INFERENCE.VOCAB)");
  }
  if (config_.sets.vocabulary.empty()) {
    throw DataError(
        "the weights identify words by their lines in the original vocabulary, but data.vocabulary is not set",
        "set data.vocabulary to the original vocabulary file (INFERENCE.VOCAB)");
  }
}

std::vector<std::string> CaptioningTask::fit_weights(StateDict& weights, const NamedTensors& model) {
  const ModelType type = model_type_from_name(config_.model_type);
  if (!are_origins(weights, type)) return {};
  require_origins_words(weights, model);
  return take_origin_names(weights, model, type);
}

std::optional<TorchValue> CaptioningTask::origin_file(const ModelStates& states) const {
  StateDict model = states.best();
  for (const char* own : {kVocabulary, kFeatureWidth}) model.erase(own);
  const StateDict theirs = give_origin_names(model, config_.model_options(vocabulary()->size(), feature_width_));
  if (model_type_from_name(config_.model_type) == ModelType::kTransformer) {
    log::note(
        "the file does not contain PureT's frozen Swin-L, which PureT reads from a separate file: load it with "
        "load_state_dict(..., strict=False)");
  }
  return to_torch_value(theirs);
}

std::int64_t CaptioningTask::feature_rows() const {
  if (config_.model.grid_height > 0) return config_.model.grid_height * config_.model.grid_width;
  if (config_.sets.max_features > 0) return config_.sets.max_features;
  throw UsageError(
      "an exported network takes a fixed number of feature rows, but no setting defines it",
      fmt::format("{} {} for 49", setting_words("model.grid_height=7"), setting_words("model.grid_width=7")));
}

std::optional<nn::NetworkFunction> CaptioningTask::network_function(torch::nn::Module& model) {
  auto& captioner = dynamic_cast<Captioner&>(model);
  const bool features = config_.has_features();
  nn::NetworkFunction function{.inputs = {features ? "features" : "pictures"}, .outputs = {"words", "log_probs"}};
  const std::vector<std::int64_t> sizes = features
                                              ? std::vector{feature_rows(), feature_width_}
                                              : std::vector{std::int64_t{3}, config_.sets.height, config_.sets.width};
  function.example = [sizes](std::int64_t batch) -> std::vector<at::Tensor> {
    std::vector<std::int64_t> all = {batch};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return {at::rand(all)};
  };
  function.run = [&captioner, features, max_words = config_.sets.max_words,
                  values = ImageNetValues()](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor seen = features ? arguments[0] : values.normalized(arguments[0]);
    const Said said = greedy_in_all_steps(captioner, captioner.encode(seen, {}), max_words);
    return {said.words, said.log_probs};
  };
  if (!features) function.page = R"({"picture": "resized", "answer": "words"})";
  const auto words = vocabulary();
  for (std::int64_t id = 0; id < words->size(); ++id) function.names.push_back(words->word(id));
  return function;
}

void CaptioningTask::begin_epoch(const EpochInfo& info) { now_ = info; }

bool CaptioningTask::is_self_critical() const noexcept {
  return config_.self_critical.start == "first_epoch" || now_.stage == 2;
}

Outputs CaptioningTask::run_self_critical(Captioner& model, const Memory& memory, const Batch& batch) {
  const DecoderAtRest no_dropout(model);
  const std::int64_t samples = config_.self_critical.samples;
  const CaptionBatch& captions = captions_of(batch);
  SampledCaptions drawn;
  {
    const NoGrad no_grad;
    const Memory seen = detached(memory);
    drawn.words = sample(model, repeated(seen, samples), config_.sets.max_words);
    drawn.chosen = chosen(drawn.words);
    drawn.reward = (*reward_)(drawn.words, captions);
    const at::Tensor by_image = drawn.reward.view({-1, samples});
    const at::Tensor baseline = config_.self_critical.baseline == "greedy"
                                    ? (*reward_)(greedy(model, seen, config_.sets.max_words), captions).unsqueeze(1)
                                    : mean_of_others(by_image);
    const auto beside_words = [&](const at::Tensor& numbers) {
      return numbers.to(drawn.words.device(), numbers.scalar_type(), /*non_blocking=*/true);
    };
    drawn.advantage = beside_words((by_image - baseline).flatten());
    drawn.reward = beside_words(drawn.reward);
  }
  return {{"logits", model.logits(repeated(memory, samples), inputs_of(drawn.words), 0)},
          {"words", drawn.words},
          {"chosen", drawn.chosen},
          {"reward", drawn.reward},
          {"advantage", drawn.advantage}};
}

Outputs CaptioningTask::run(torch::nn::Module& model, const Batch& batch) {
  auto& captioner = dynamic_cast<Captioner&>(model);
  const CaptionBatch& captions = captions_of(batch);
  const Memory memory = captioner.encode(batch.data, captions.lengths);
  if (!model.is_training()) {
    return {{"words",
             beam_search(captioner, memory, {.beam = config_.eval.beam_size, .max_words = config_.sets.max_words})}};
  }
  if (is_self_critical()) return run_self_critical(captioner, memory, batch);
  const at::Tensor inputs = batch.target.select(1, 0).flatten(0, 1).narrow(1, 0, captions.words);
  const double own_words = config_.scheduled_sampling_at(now_.epoch);
  return {{"logits", captioner.logits(repeated(memory, batch.target.size(2)), inputs, own_words)}};
}

Outputs CaptioningTask::run_exported(const nn::TensorFunction& network, const Batch& batch) {
  if (!config_.has_features()) return {{"words", network({ImageNetValues().restored(batch.data)}).at(0)}};
  for (const std::int64_t rows : captions_of(batch).lengths) {
    if (rows == feature_rows()) continue;
    throw UsageError(
        fmt::format("the exported network takes {} rows of features, but an image has {}", feature_rows(), rows),
        "evaluate the checkpoint instead");
  }
  return {{"words", network({batch.data}).at(0)}};
}

std::vector<LossTerm> CaptioningTask::loss_terms(const Outputs& outputs, const Batch& batch) {
  const at::Tensor& logits = outputs.at("logits");
  if (outputs.count("words") != 0) {
    const SampledCaptions drawn{.words = outputs.at("words"),
                                .chosen = outputs.at("chosen"),
                                .reward = outputs.at("reward"),
                                .advantage = outputs.at("advantage")};
    return {{"self_critical", self_critical_loss(logits, drawn)}};
  }
  const at::Tensor targets = batch.target.select(1, 1).flatten(0, 1).narrow(1, 0, logits.size(1));
  return {{"cross_entropy", word_loss(logits, targets, config_.loss.label_smoothing)}};
}

std::optional<std::string> CaptioningTask::recording_key(const Batch& batch) const {
  const CaptionBatch& captions = captions_of(batch);
  const bool draws = is_self_critical() || config_.scheduled_sampling_at(now_.epoch) > 0;
  if (draws || !captions.lengths.empty()) return std::nullopt;
  return fmt::format("{} words", captions.words);
}

std::unique_ptr<Tally> CaptioningTask::make_tally() const {
  return std::make_unique<CaptionTally>(vocabulary(), test_set_);
}

std::string CaptioningTask::model_name() const {
  const std::int64_t words = vocabulary_ ? vocabulary_->size() - 1 : 0;
  const std::string features =
      config_.has_features()
          ? fmt::format("features of width {}", feature_width_)
          : fmt::format("{} backbone on images of {} x {}", config_.backbone, config_.sets.width, config_.sets.height);
  return fmt::format("{}, {}, {} words", config_.model_type, features, text::thousands(words));
}

}  // namespace lockstep::captioning
