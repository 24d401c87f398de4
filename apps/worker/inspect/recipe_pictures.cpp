// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/recipe_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "captcha/config.h"
#include "captcha/data/dataset.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "segmentation/config.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kNoClass = 255;

/// Captchas with the labels from their file names; a file whose name is not a valid label has none.
class CaptchaPictures final : public ImageSource {
 public:
  CaptchaPictures(std::shared_ptr<ImageSource> files, const captcha::CaptchaConfig& config)
      : files_(std::move(files)), config_(config), characters_(config.characters()) {}

  [[nodiscard]] std::int64_t size() const override { return files_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return files_->describe(index); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image = files_->get(index);
    try {
      image.captions = {text_of(image.name)};
    } catch (const DataError&) {  // remark() counts the label
    }
    return image;
  }

  /// The number of labels that do not match the settings, with the error that training would report for the first;
  /// empty: all match.
  [[nodiscard]] std::string remark() const {
    std::int64_t count = 0;
    std::string first;
    for (std::int64_t i = 0; i < size(); ++i) {
      try {
        (void)text_of(describe(i));
      } catch (const DataError& fault) {
        if (count++ == 0) first = fault.what();
      }
    }
    if (count == 0) return "";
    return fmt::format("{} of {} labels do not match the settings; the first: {}", text::thousands(count),
                       text::thousands(size()), first);
  }

 private:
  [[nodiscard]] std::string text_of(const std::string& file) const {
    std::string text;
    for (const std::int64_t letter : captcha::label_of(file, config_.labels, characters_)) {
      text += characters_[static_cast<std::size_t>(letter)];
    }
    return text;
  }

  std::shared_ptr<ImageSource> files_;
  const captcha::CaptchaConfig& config_;
  std::string characters_;
};

/// Maps the values of masks to class ids.
class RenumberedMasks final : public ImageSource {
 public:
  RenumberedMasks(std::shared_ptr<ImageSource> inner, const segmentation::MaskValues& values)
      : inner_(std::move(inner)), values_(values) {}

  [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return inner_->describe(index); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return inner_->class_names(); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image = inner_->get(index);
    for (LabelMap& map : image.maps) {
      for (std::uint8_t& pixel : map.image.pixels) pixel = values_[pixel];
    }
    return image;
  }

 private:
  std::shared_ptr<ImageSource> inner_;
  segmentation::MaskValues values_;
};

/// A mapping of values to classes in order, such as "{0: 0, 128: 1, 255: 2}".
std::string numbered(const std::vector<std::int64_t>& values) {
  std::vector<std::string> pairs;
  for (const std::int64_t value : values) pairs.push_back(fmt::format("{}: {}", value, pairs.size()));
  return "{" + text::join(pairs) + "}";
}

}  // namespace

RecipePictures as_recipe_reads(std::shared_ptr<ImageSource> source, const TrainConfig& config) {
  if (const auto* captchas = dynamic_cast<const captcha::CaptchaConfig*>(&config)) {
    const auto pictures = std::make_shared<CaptchaPictures>(std::move(source), *captchas);
    const std::string remark = pictures->remark();
    return {pictures, remark.empty() ? std::vector<std::string>{} : std::vector<std::string>{remark}};
  }
  const auto* masks = dynamic_cast<const segmentation::SegmentationConfig*>(&config);
  if (masks == nullptr || masks->sets.mask_values.empty()) return {std::move(source)};
  return {
      std::make_shared<RenumberedMasks>(std::move(source), masks->set_options(config.data.train, true).mask_values)};
}

std::string remark_on_masks(const Survey& survey) {
  if (survey.maps == 0 || survey.pixels.empty()) return "";
  std::vector<std::int64_t> values;
  for (const auto& [value, count] : survey.pixels) values.push_back(value);
  const bool has_none = values.back() == kNoClass;
  const std::int64_t classes = std::ssize(values) - (has_none ? 1 : 0);
  // Gray levels are far apart. Class ids are not, even if a data set has only some of them.
  constexpr std::int64_t kHigh = 32;
  constexpr std::int64_t kApart = 8;
  const std::int64_t highest = has_none && values.size() > 1 ? values[values.size() - 2] : values.back();
  const bool are_levels = classes > 1 && highest >= kHigh && highest >= kApart * classes;
  if (!(has_none && classes < 2) && !are_levels) return "";
  const std::string meaning = has_none ? ", and 255 means that a pixel has no class" : "";
  return fmt::format(
      "the masks contain only the value{} {}{}\n  next  if these are classes, map them for training: --set "
      "data.mask_values='{}'",
      values.size() == 1 ? "" : "s", fmt::join(values, ", "), meaning, numbered(values));
}

void show_all_values(AnnotatedImage& picture) {
  for (LabelMap& map : picture.maps) map.fill = 0;
}

}  // namespace lockstep::worker
