// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/masked_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

std::vector<std::filesystem::path> picture_paths(const std::vector<SampleFiles>& samples) {
  std::vector<std::filesystem::path> paths;
  for (const SampleFiles& sample : samples) paths.push_back(sample.picture);
  return paths;
}

/// A count, and the first occurrence.
struct Counted {
  std::int64_t count = 0;
  std::string first = {};

  void add(const std::string& where) {
    if (count++ == 0) first = where;
  }
};

/// Replaces values with class ids.
void take_values(Image& map, const MaskValues& values, SeenValues* seen) {
  for (std::uint8_t& pixel : map.pixels) {
    const std::uint8_t id = values[pixel];
    if (seen != nullptr) seen->values[pixel] = seen->classes[id] = true;
    pixel = id;
  }
}

}  // namespace

std::string SeenValues::text() const {
  std::vector<std::string> words;
  for (std::size_t value = 0; value < values.size(); ++value) {
    if (values[value]) words.push_back(std::to_string(value));
  }
  return text::join(words);
}

MaskedPictures::MaskedPictures(std::vector<SampleFiles> samples, MaskedPicturesOptions options)
    : samples_(std::move(samples)), options_(std::move(options)), pictures_(ImageFiles::of(picture_paths(samples_))) {}

AnnotatedImage MaskedPictures::read(std::int64_t index, SeenValues* seen) const {
  AnnotatedImage picture = pictures_.get(index);
  const SampleFiles& files = sample(index);
  for (std::size_t i = 0; i < files.maps.size(); ++i) {
    const MapMeaning meaning = options_.meanings[i];
    LabelMap map{read_map(files.maps[i], meaning), meaning == MapMeaning::kWeights ? std::uint8_t{0} : kUnlabelled};
    if (i == 0) picture.pixels.fit_to(map.image.size);
    const ImageSize size = picture.pixels.size();
    if (map.image.size != size) {
      throw DataError(
          fmt::format("map {} is {} x {} pixels, but image {} is {} x {}", files.maps[i].string(), map.image.size.width,
                      map.image.size.height, files.picture.string(), size.width, size.height),
          "both must have the same size: regenerate the map, or remove the image from the set");
    }
    if (i == 0) take_values(map.image, options_.values, seen);
    if (meaning != MapMeaning::kWeights) require_classes(map.image, options_.classes, files.maps[i]);
    picture.maps.push_back(std::move(map));
  }
  return picture;
}

MaskedPictures::Odd MaskedPictures::odd_in(const AnnotatedImage& picture, std::int64_t index) const {
  Odd odd;
  if (is_deep_png(picture.pixels.encoded_image()->bytes)) odd.deep = describe(index);
  for (std::size_t k = 0; k < picture.maps.size(); ++k) {
    if (options_.meanings[k] == MapMeaning::kWeights) continue;
    const auto& pixels = picture.maps[k].image.pixels;
    const bool none = std::ranges::all_of(pixels, [](std::uint8_t value) { return value == kUnlabelled; });
    if (none) odd.unlabelled.push_back(sample(index).maps[k].string());
  }
  return odd;
}

AnnotatedImage MaskedPictures::get(std::int64_t index) const {
  AnnotatedImage picture = read(index);
  if (survey_step_ > 0 && index % survey_step_ == 0) return picture;
  const Odd odd = odd_in(picture, index);
  if (!odd.unlabelled.empty() && !told_unlabelled_.exchange(true)) {
    log::note("{} has no labelled pixel; others like it are not reported", odd.unlabelled.front());
  }
  if (!odd.deep.empty() && !told_deep_.exchange(true)) {
    log::note("{} has 16 bits per channel, of which the upper 8 are used; others like it are not reported", odd.deep);
  }
  return picture;
}

std::vector<std::string> MaskedPictures::survey(std::int64_t most) {
  Counted unlabelled;
  Counted deep;
  std::int64_t looked_at = 0;
  survey_step_ = (size() + most - 1) / most;
  for (std::int64_t i = 0; i < size(); i += survey_step_, ++looked_at) {
    const Odd odd = odd_in(read(i, &seen_), i);
    if (!odd.deep.empty()) deep.add(odd.deep);
    for (const std::string& map : odd.unlabelled) unlabelled.add(map);
  }
  seen_.classes[kUnlabelled] = false;
  seen_.looked_at = looked_at;
  seen_.all = survey_step_ == 1;
  std::vector<std::string> notes;
  if (unlabelled.count > 0) {
    notes.push_back(fmt::format("{} without any labelled pixel among the {} images checked, the first: {}",
                                text::counted(unlabelled.count, "map"), looked_at, unlabelled.first));
  }
  if (deep.count > 0) {
    notes.push_back(fmt::format(
        "{} of the {} images checked have 16 bits per channel, of which the upper 8 are used, the first: {}",
        deep.count, looked_at, deep.first));
  }
  return notes;
}

}  // namespace lockstep::segmentation
