// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "captioning/data/npz.h"
#include "captioning/metrics/tokens.h"
#include "captioning/synthetic/scene.h"
#include "common/scene_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/decode.h"

namespace lockstep::captioning {
namespace {

constexpr std::int64_t kMostCachedBytes = 512'000'000;

/// The scenes of a set, drawn on first use and then kept if the whole set is small enough.
class SceneShelf {
 public:
  SceneShelf(std::uint64_t seed, ImageSize size, std::int64_t count) : seed_(seed), size_(size) {
    if (count > kMostCachedBytes / (3 * size.width * size.height)) return;
    drawn_ = std::vector<std::once_flag>(static_cast<std::size_t>(count));
    kept_.resize(static_cast<std::size_t>(count));
  }

  /// Scene `number`, at index `place` of the set. Lifetime: the shelf outlives any kept scene.
  [[nodiscard]] Pixels get(std::size_t place, std::int64_t number) {
    if (kept_.empty()) return paint(number);
    std::call_once(drawn_[place], [&] { kept_[place] = paint(number); });
    return view_of(kept_[place]);
  }
  [[nodiscard]] Image paint(std::int64_t number) const { return paint_scene(make_scene(seed_, number), size_); }

 private:
  std::uint64_t seed_;
  ImageSize size_;
  std::vector<std::once_flag> drawn_;
  std::vector<Image> kept_;
};

/// Converts captions to ids, counting the captions that it truncates and the unknown words.
class CaptionReader {
 public:
  CaptionReader(const SetOptions& options, const Vocabulary& vocabulary, bool training)
      : options_(options), vocabulary_(vocabulary), training_(training) {}

  std::shared_ptr<const ImageCaptions> read(std::int64_t index, const CaptionedImage& image) {
    auto read = std::make_shared<ImageCaptions>(
        ImageCaptions{.index = index, .id = image.id, .captions = image.captions, .references = {}});
    for (const std::string& caption : image.captions) read->references.push_back(ids_of(caption, image.id));
    return read;
  }

  /// Logs truncated captions and unknown words, once.
  void note() const {
    if (unspaced_ > 0) {
      log::warn(
          "{}: words are separated by spaces, but {} more than {} Chinese characters or hiragana, such as '{}': "
          "segment the captions first",
          options_.path, text::counted(unspaced_, "word has", "words have"), kMostInAWord, unspaced_word_);
    }
    if (unknown_ > 0) {
      log::note("{}: {} of {} words are not in the vocabulary, such as '{}'", options_.path, text::thousands(unknown_),
                text::thousands(words_), example_);
    }
    if (cut_ > 0) {
      log::note("{}: {} of {} captions are truncated to {} words", options_.path, text::thousands(cut_),
                text::thousands(captions_), options_.max_words);
    }
  }

 private:
  Ids ids_of(const std::string& caption, const std::string& id) {
    std::vector<std::string> words = words_of(caption);
    ++captions_;
    for (const std::string& word : words) note_unspaced(word);
    if (std::ssize(words) > options_.max_words) {
      ++cut_;
      words.resize(static_cast<std::size_t>(options_.max_words));
    }
    Ids ids;
    ids.reserve(words.size() + 1);
    for (const std::string& word : words) ids.push_back(id_of(word, id));
    ids.push_back(0);
    return ids;
  }

  /// Counts a training caption's long text without spaces, as in Chinese.
  void note_unspaced(const std::string& word) {
    if (!training_ || unspaced_letters(word) <= kMostInAWord) return;
    if (unspaced_++ == 0) unspaced_word_ = shown(word);
  }

  std::int64_t id_of(const std::string& word, const std::string& image) {
    ++words_;
    if (vocabulary_.has(word)) return *vocabulary_.find(word);
    if (unknown_++ == 0) example_ = shown(word);
    if (const auto unknown = vocabulary_.find(word)) return *unknown;
    if (!training_) return vocabulary_.size();
    throw DataError(
        fmt::format("{}: a caption of {} has the word '{}', which is not among the {} in the vocabulary", options_.path,
                    shown(image), shown(word), vocabulary_.size() - 1),
        fmt::format("add the word to the vocabulary, or add a last line {} for all such words", kUnknownWord));
  }

  static constexpr std::int64_t kMostInAWord = 4;  // characters of a language that is written without spaces

  const SetOptions& options_;
  const Vocabulary& vocabulary_;
  bool training_;
  std::int64_t unspaced_ = 0;
  std::string unspaced_word_;
  std::int64_t captions_ = 0;
  std::int64_t words_ = 0;
  std::int64_t cut_ = 0;
  std::int64_t unknown_ = 0;
  std::string example_;
};

/// Selects `wanted` of an image's `count` captions: all different, or every caption with some of them repeated.
std::vector<std::size_t> draw_captions(std::size_t count, std::size_t wanted, SampleRandom& random) {
  std::vector<std::size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (count > wanted) {
    for (std::size_t i = 0; i < wanted; ++i) std::swap(chosen[i], chosen[i + random.below(count - i)]);
    chosen.resize(wanted);
  }
  while (chosen.size() < wanted) chosen.push_back(random.below(count));
  return chosen;
}

/// Writes the input row 0 w1 .. wn 0 .. and the target row w1 .. wn 0 -1 .. for words that end with 0.
void write_rows(const Ids& reference, std::int64_t columns, std::int64_t* input, std::int64_t* target) {
  std::fill_n(input, columns, 0);
  std::fill_n(target, columns, -1);
  std::copy(reference.begin(), reference.end() - 1, input + 1);
  std::ranges::copy(reference, target);
}

std::int64_t number_of_scene(const std::string& id) {
  std::int64_t number = 0;
  std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

}  // namespace

class CaptionDataset::Impl {
 public:
  Impl(const SetOptions& options, std::vector<CaptionedImage> images, std::shared_ptr<const Vocabulary> vocabulary,
       bool training)
      : options_(options), vocabulary_(std::move(vocabulary)), training_(training) {
    if (images.empty()) throw DataError(fmt::format("{} has no images", options.path));
    CaptionReader reader(options_, *vocabulary_, training);
    for (CaptionedImage& image : images) {
      captions_.push_back(reader.read(std::ssize(captions_), image));
      files_.push_back(std::move(image.file));
    }
    reader.note();
    if (common::names_scenes(options.path)) {
      shelf_ = std::make_unique<SceneShelf>(common::parse_scene_set(options.path).seed, wanted_size(), size());
    } else if (!options.features.empty()) {
      width_ = options.feature_width;
      width_ = features(0).width;
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(captions_); }
  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  [[nodiscard]] const std::shared_ptr<const ImageCaptions>& captions(std::int64_t index) const {
    return captions_.at(static_cast<std::size_t>(index));
  }

  [[nodiscard]] std::string describe(std::int64_t index) const {
    return shelf_ ? fmt::format("scene {}", captions(index)->id) : files_.at(static_cast<std::size_t>(index));
  }

  Sample get(std::int64_t index, SampleContext& context) {
    Sample sample = options_.features.empty() ? picture_sample(index, context) : feature_sample(index, context);
    sample.target = training_ ? targets(*captions(index), context) : at::Tensor();
    sample.extra = captions(index);
    return sample;
  }

  [[nodiscard]] Image picture(std::int64_t index) const {
    if (!options_.features.empty()) {
      throw DataError(fmt::format("{} has features, not images", options_.path),
                      "pages can only be drawn from a data set of images");
    }
    const auto place = static_cast<std::size_t>(index);
    return shelf_ ? shelf_->paint(number_of_scene(captions(index)->id)) : read_image(files_.at(place), ColorMode::kRgb);
  }

 private:
  [[nodiscard]] ImageSize wanted_size() const noexcept { return {options_.width, options_.height}; }

  [[nodiscard]] FeatureRows features(std::int64_t index) const {
    const std::string& file = files_.at(static_cast<std::size_t>(index));
    FeatureRows rows = read_features(file, options_.max_features);
    if (width_ == 0 || rows.width == width_) return rows;
    throw DataError(fmt::format("features {}: array 'feat' is {} wide, must be {}", file, rows.width, width_),
                    options_.feature_width > 0 ? "feature_width sets the expected width"
                                               : fmt::format("{} has {}", files_.front(), width_));
  }

  Sample feature_sample(std::int64_t index, const SampleContext& context) const {
    const FeatureRows rows = features(index);
    Sample sample;
    sample.data = context.empty_data({rows.rows, rows.width});
    std::ranges::copy(rows.values, sample.data.data_ptr<float>());
    return sample;
  }

  Sample picture_sample(std::int64_t index, const SampleContext& context) const {
    AnnotatedImage image;
    image.name = describe(index);
    if (shelf_) {
      image.pixels = shelf_->get(static_cast<std::size_t>(index), number_of_scene(captions(index)->id));
    } else {
      image.pixels = encoded(image.name);
    }
    if (image.pixels.size() != wanted_size()) Resize{.size = wanted_size(), .shrink_while_decoding = true}(image);
    return ToTensor{.normalize = Normalize{}}(image, context);
  }

  static EncodedImage encoded(const std::string& file) {
    const auto bytes = std::make_shared<const std::string>(FileSystem::system().read(file, kMostPictureBytes));
    return {bytes, *bytes, file};
  }

  at::Tensor targets(const ImageCaptions& image, SampleContext& context) const {
    const std::int64_t columns = options_.max_words + 1;
    const std::int64_t rows = options_.captions_per_image;
    at::Tensor both = context.empty_target({2, rows, columns});
    auto* input = both.data_ptr<std::int64_t>();
    for (const std::size_t k : draw_captions(image.references.size(), static_cast<std::size_t>(rows), context.random)) {
      write_rows(image.references[k], columns, input, input + rows * columns);
      input += columns;
    }
    return both;
  }

  const SetOptions options_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const bool training_;
  std::int64_t width_ = 0;
  std::vector<std::shared_ptr<const ImageCaptions>> captions_;
  std::vector<std::string> files_;
  std::unique_ptr<SceneShelf> shelf_;
};

CaptionDataset::CaptionDataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CaptionDataset::~CaptionDataset() = default;

std::shared_ptr<CaptionDataset> CaptionDataset::open(const SetOptions& options,
                                                     std::shared_ptr<const Vocabulary> vocabulary, bool training) {
  return open(options, read_captions(options), std::move(vocabulary), training);
}

std::shared_ptr<CaptionDataset> CaptionDataset::open(const SetOptions& options, std::vector<CaptionedImage> images,
                                                     std::shared_ptr<const Vocabulary> vocabulary, bool training) {
  auto impl = std::make_unique<Impl>(options, std::move(images), std::move(vocabulary), training);
  return std::shared_ptr<CaptionDataset>(new CaptionDataset(std::move(impl)));
}

std::int64_t CaptionDataset::size() const { return impl_->size(); }
Sample CaptionDataset::get(std::int64_t index, SampleContext& context) { return impl_->get(index, context); }
std::string CaptionDataset::describe(std::int64_t index) const { return impl_->describe(index); }
const ImageCaptions& CaptionDataset::captions(std::int64_t index) const { return *impl_->captions(index); }
std::int64_t CaptionDataset::feature_width() const noexcept { return impl_->width(); }
Image CaptionDataset::picture(std::int64_t index) const { return impl_->picture(index); }

}  // namespace lockstep::captioning
