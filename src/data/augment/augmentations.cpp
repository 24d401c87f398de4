// SPDX-License-Identifier: Apache-2.0
// The table of built-in steps, and the code that reads their settings.
#include "lockstep/data/augment/augmentations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <type_traits>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/detection.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/compose.h"

namespace lockstep {
namespace {

/// Reads settings, and finds those that the step does not know.
class Reader {
 public:
  Reader(std::string_view step, const AugmentationSettings& settings) : step_(step), settings_(settings) {}

  /// Sets each of `members` to one value of setting `name`. If the setting is missing, they keep their values.
  template <class... Members>
  void read(const char* name, Members&... members) {
    known_.emplace_back(name);
    const auto found = settings_.find(name);
    if (found == settings_.end()) return;
    if (found->second.size() != sizeof...(members)) {
      throw UsageError(fmt::format("{} of augmentation {} takes {}, not {}", name, step_,
                                   text::counted(sizeof...(members), "value"), found->second.size()));
    }
    const double* value = found->second.data();
    (set(members, *value++), ...);
  }

  void read(const char* name, ImageSize& size) { read(name, size.width, size.height); }
  void read(const char* name, Color& color) { read(name, color[0], color[1], color[2]); }

  void refuse_others() const {
    for (const auto& [name, values] : settings_) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      throw UsageError(
          fmt::format("augmentation {} has no setting '{}'{}", step_, name, text::did_you_mean(name, known_)),
          fmt::format("it has {}", known_.empty() ? "none" : text::join(known_)));
    }
  }

 private:
  template <class Member>
  static void set(Member& member, double value) {
    if constexpr (std::is_same_v<Member, bool>) {
      member = value != 0;
    } else if constexpr (std::is_same_v<Member, Interpolation>) {
      member = value == 0 ? Interpolation::kNearest : value == 2 ? Interpolation::kBicubic : Interpolation::kBilinear;
    } else if constexpr (std::is_integral_v<Member>) {
      member = static_cast<Member>(std::llround(value));
    } else {
      member = value;
    }
  }

  std::string_view step_;
  const AugmentationSettings& settings_;
  std::vector<std::string> known_;
};

void read(Reader& from, Resize& step) {
  from.read("size", step.size);
  from.read("interpolation", step.interpolation);
}
void read(Reader& from, ResizeShorter& step) {
  from.read("shorter", step.shorter);
  from.read("longest", step.longest);
  from.read("interpolation", step.interpolation);
}
void read(Reader& from, RandomResizedCrop& step) {
  from.read("size", step.size);
  from.read("scale", step.min_scale, step.max_scale);
  from.read("ratio", step.min_ratio, step.max_ratio);
  from.read("interpolation", step.interpolation);
}
void read(Reader& from, CenterCrop& step) {
  from.read("size", step.size);
  from.read("fill", step.fill);
}
void read(Reader& from, RandomCrop& step) {
  from.read("size", step.size);
  from.read("padding", step.padding);
  from.read("fill", step.fill);
}
void read(Reader& from, Pad& step) {
  from.read("border", step.left, step.top, step.right, step.bottom);
  from.read("fill", step.fill);
}
void read(Reader& from, HorizontalFlip& step) { from.read("p", step.p); }
void read(Reader& from, VerticalFlip& step) { from.read("p", step.p); }
void read(Reader& from, Rotation& step) {
  from.read("degrees", step.degrees);
  from.read("interpolation", step.interpolation);
  from.read("fill", step.fill);
  from.read("p", step.p);
}
void read(Reader& from, Affine& step) {
  from.read("degrees", step.degrees);
  from.read("translate", step.translate_x, step.translate_y);
  from.read("scale", step.min_scale, step.max_scale);
  from.read("shear", step.shear_x, step.shear_y);
  from.read("interpolation", step.interpolation);
  from.read("fill", step.fill);
  from.read("p", step.p);
}
void read(Reader& from, Gray& step) { from.read("channels", step.channels); }
void read(Reader& from, ColorJitter& step) {
  from.read("brightness", step.brightness);
  from.read("contrast", step.contrast);
  from.read("saturation", step.saturation);
  from.read("hue", step.hue);
  from.read("p", step.p);
}
void read(Reader& from, PhotometricDistort& step) { from.read("p", step.p); }
void read(Reader& from, GaussianBlur& step) {
  from.read("kernel", step.kernel);
  from.read("sigma", step.min_sigma, step.max_sigma);
  from.read("p", step.p);
}
void read(Reader& from, ZoomOut& step) {
  from.read("side", step.min_side, step.max_side);
  from.read("fill", step.fill);
  from.read("p", step.p);
}
void read(Reader& from, IoUCrop& step) {
  from.read("scale", step.min_scale, step.max_scale);
  from.read("ratio", step.min_ratio, step.max_ratio);
  from.read("p", step.p);
}
void read(Reader& from, SanitizeBoxes& step) { from.read("min_size", step.min_size); }

using Run = std::function<void(AnnotatedImage&, SampleContext&)>;

template <class Step>
Run make(Reader& from) {
  Step step;
  read(from, step);
  return [step](AnnotatedImage& image, SampleContext& context) {
    detail::call_step<AnnotatedImage&>(step, image, context);
  };
}

const std::map<std::string, Run (*)(Reader&), std::less<>>& table() {
  static const std::map<std::string, Run (*)(Reader&), std::less<>> kAll{
      {"affine", make<Affine>},
      {"center_crop", make<CenterCrop>},
      {"color_jitter", make<ColorJitter>},
      {"gaussian_blur", make<GaussianBlur>},
      {"gray", make<Gray>},
      {"horizontal_flip", make<HorizontalFlip>},
      {"iou_crop", make<IoUCrop>},
      {"pad", make<Pad>},
      {"photometric_distort", make<PhotometricDistort>},
      {"random_crop", make<RandomCrop>},
      {"random_resized_crop", make<RandomResizedCrop>},
      {"resize", make<Resize>},
      {"resize_shorter", make<ResizeShorter>},
      {"rotation", make<Rotation>},
      {"sanitize_boxes", make<SanitizeBoxes>},
      {"vertical_flip", make<VerticalFlip>},
      {"zoom_out", make<ZoomOut>},
  };
  return kAll;
}

std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size()) {
      throw UsageError(fmt::format("'{}' is not a number", word), "settings look like size=224,224");
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::vector<std::string> augmentation_names() {
  std::vector<std::string> names;
  for (const auto& entry : table()) names.push_back(entry.first);
  return names;
}

Augmentation make_augmentation(std::string_view name, const AugmentationSettings& settings) {
  const auto found = table().find(name);
  if (found == table().end()) {
    throw UsageError(
        fmt::format("there is no augmentation '{}'{}", name, text::did_you_mean(name, augmentation_names())),
        fmt::format("there are {}", text::join(augmentation_names())));
  }
  Reader from(name, settings);
  Augmentation made{found->first, found->second(from)};
  from.refuse_others();
  return made;
}

Augmentation parse_augmentation(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string name;
  words >> name;
  AugmentationSettings settings;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw UsageError(fmt::format("'{}' is not a setting of augmentation {}", word, name), "settings look like p=0.5");
    }
    settings[word.substr(0, equals)] = numbers(word.substr(equals + 1));
  }
  return make_augmentation(name, settings);
}

}  // namespace lockstep
