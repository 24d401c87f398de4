// SPDX-License-Identifier: Apache-2.0
#include "detection/data/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "detection/metrics/byte_reader.h"
#include "detection/metrics/coco_eval.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/draw_boxes.h"

namespace lockstep::detection {
namespace {

namespace fs = std::filesystem;

using Ink = std::array<std::uint8_t, 3>;
constexpr Ink kFoundInk{255, 255, 255};
constexpr Ink kMissedInk{255, 40, 40};
constexpr Ink kCrowdInk{160, 160, 160};

std::string class_text(std::int64_t label, const DrawOptions& options) {
  const bool named = label >= 0 && label < std::ssize(options.class_names);
  return named ? options.class_names[static_cast<std::size_t>(label)] : fmt::format("{}", label);
}

/// The kinds of frames and their meanings, in drawing order.
BoxMark found_mark() { return {.ink = kFoundInk, .text = "object found"}; }
BoxMark missed_mark() { return {.ink = kMissedInk, .thick = 3, .corners = true, .text = "missed", .plate = true}; }
BoxMark crowd_mark() { return {.ink = kCrowdInk, .thick = 2, .dashed = true, .text = "group, not counted"}; }
BoxMark guess_mark() { return {.ink = mark_ink(0), .text = fmt::format("best guess below {}", kConfident)}; }
BoxMark answer_mark() {
  return {.ink = mark_ink(0), .thick = 2, .text = "detection, in its class's colour, with its percentage"};
}
BoxMark false_mark() { return {.ink = mark_ink(0), .thick = 2, .dashed = true, .text = "false answer"}; }

Box corners(const CocoBox& box) {
  return {static_cast<float>(box.x), static_cast<float>(box.y), static_cast<float>(box.x + box.width),
          static_cast<float>(box.y + box.height)};
}

/// Marks the objects that have a detection, and the detections that have an object or a crowd, at an overlap of 0.5.
struct Pairs {
  std::vector<bool> truths;
  std::vector<bool> found;
};

Pairs pairs_of(const JudgedImage& judged) {
  Pairs pairs{std::vector<bool>(judged.truth.objects.size()), std::vector<bool>(judged.found.size())};
  for (std::size_t i = 0; i < judged.found.size(); ++i) {
    const FoundObject& one = judged.found[i];
    std::tuple<bool, double> best{false, overlap_thresholds()[0]};
    std::size_t match = judged.truth.objects.size();
    for (std::size_t k = 0; k < judged.truth.objects.size(); ++k) {
      const TruthObject& object = judged.truth.objects[k];
      if (object.label != one.label || (pairs.truths[k] && !object.crowd)) continue;
      const std::tuple<bool, double> fit{!object.crowd, box_overlap(one.box, object.box, object.crowd)};
      if (std::get<1>(fit) < overlap_thresholds()[0] || fit < best) continue;
      best = fit;
      match = k;
    }
    if (match == judged.truth.objects.size()) continue;
    pairs.found[i] = true;
    pairs.truths[match] = true;
  }
  return pairs;
}

/// Returns `mark` at a box, with a label.
BoxMark placed(BoxMark mark, const CocoBox& box, std::string text) {
  mark.box = corners(box);
  mark.text = std::move(text);
  return mark;
}

BoxMark truth_mark(const TruthObject& object, bool found, const DrawOptions& options) {
  if (object.crowd) return placed(crowd_mark(), object.box, "");
  if (found) return placed(found_mark(), object.box, "");
  return placed(missed_mark(), object.box, "missed: " + class_text(object.label, options));
}

/// A detection in the colour of its class; guesses are those with a score below kConfident.
BoxMark detection_mark(const BoxMark& kind, const FoundObject& one, const DrawOptions& options) {
  const char* doubt = one.score < kConfident ? "?" : "";
  BoxMark mark =
      placed(kind, one.box, fmt::format("{}{} {:.0f} %", class_text(one.label, options), doubt, 100 * one.score));
  mark.ink = mark_ink(one.label);
  return mark;
}

std::vector<BoxMark> marks_of(const JudgedImage& judged, const DrawOptions& options) {
  const Pairs pairs = pairs_of(judged);
  std::vector<BoxMark> marks;
  for (const FoundObject& guess : judged.guesses) marks.push_back(detection_mark(guess_mark(), guess, options));
  for (std::size_t k = 0; k < judged.truth.objects.size(); ++k) {
    marks.push_back(truth_mark(judged.truth.objects[k], pairs.truths[k], options));
  }
  for (std::size_t i = 0; i < judged.found.size(); ++i) {
    marks.push_back(detection_mark(pairs.found[i] ? answer_mark() : false_mark(), judged.found[i], options));
  }
  return marks;
}

/// Chooses from `unsure`, for each missed object, the most certain guess that overlaps it, preferably of its class. If
/// the image has no confident detections, it chooses at least the most certain guess of all.
std::vector<FoundObject> guesses_of(const JudgedImage& judged, const std::vector<FoundObject>& unsure) {
  const Pairs pairs = pairs_of(judged);
  std::vector<bool> used(unsure.size());
  std::vector<FoundObject> guesses;
  for (std::size_t k = 0; k < pairs.truths.size(); ++k) {
    const TruthObject& object = judged.truth.objects[k];
    if (pairs.truths[k] || object.crowd) continue;
    std::tuple<bool, double> best{false, -1};
    std::size_t match = unsure.size();
    for (std::size_t i = 0; i < unsure.size(); ++i) {
      const std::tuple<bool, double> fit{unsure[i].label == object.label, unsure[i].score};
      if (used[i] || fit <= best || box_overlap(unsure[i].box, object.box, false) < overlap_thresholds()[0]) continue;
      best = fit;
      match = i;
    }
    if (match == unsure.size()) continue;
    used[match] = true;
    guesses.push_back(unsure[match]);
  }
  if (guesses.empty() && judged.found.empty() && !judged.truth.objects.empty() && !unsure.empty()) {
    guesses.push_back(*std::ranges::max_element(unsure, {}, &FoundObject::score));
  }
  return guesses;
}

std::string caption_of(const JudgedImage& judged, const std::string& name) {
  const Pairs pairs = pairs_of(judged);
  const auto false_ones = std::ranges::count(pairs.found, false);
  std::int64_t missed = 0;
  for (std::size_t k = 0; k < pairs.truths.size(); ++k) {
    missed += !pairs.truths[k] && !judged.truth.objects[k].crowd ? 1 : 0;
  }
  return fmt::format("{}: quality {:.2f}, {} found, {} false, {} missed", fs::path(name).filename().string(),
                     judged.quality, std::ssize(pairs.found) - false_ones, false_ones, missed);
}

ImageSize enlarged(ImageSize size, std::int64_t longest) {
  const double factor = static_cast<double>(longest) / static_cast<double>(std::max(size.width, size.height));
  const auto side = [&](std::int64_t length) {
    return std::max<std::int64_t>(std::llround(factor * static_cast<double>(length)), 1);
  };
  return {side(size.width), side(size.height)};
}

fs::path write_sheet(const std::vector<JudgedImage>& images, const ImageSource& source, const fs::path& path,
                     const DrawOptions& options) {
  std::vector<AnnotatedImage> cells;
  for (const JudgedImage& judged : images) {
    AnnotatedImage picture = source.get(judged.index);
    AnnotatedImage cell;
    cell.captions = {caption_of(judged, picture.name)};
    cell.pixels = draw_result(std::move(picture), judged, options);
    cells.push_back(std::move(cell));
  }
  const std::vector<BoxMark> legend = {answer_mark(), false_mark(), found_mark(),
                                       missed_mark(), guess_mark(), crowd_mark()};
  write_png(contact_sheet(std::move(cells), {.cell = options.side, .legend = legend}), path);
  return path;
}

std::size_t countable(const JudgedImage& image) {
  return static_cast<std::size_t>(std::ranges::count(image.truth.objects, false, &TruthObject::crowd));
}

/// Keeps `images` sorted, at most `most` of them, and each image once.
template <class Key>
void insert(std::vector<JudgedImage>& images, const JudgedImage& image, std::size_t most, const Key& key) {
  const bool there =
      std::ranges::any_of(images, [&](const JudgedImage& one) { return one.truth.id == image.truth.id; });
  if (there) return;
  const auto place = std::ranges::upper_bound(images, key(image), {}, key);
  if (place == images.end() && images.size() >= most) return;
  images.insert(place, image);
  if (images.size() > most) images.pop_back();
}

void append_box(std::string& bytes, const CocoBox& box) {
  for (const double value : {box.x, box.y, box.width, box.height}) append_bytes(bytes, value);
}

CocoBox take_box(ByteReader& reader) {
  CocoBox box;
  for (double* value : {&box.x, &box.y, &box.width, &box.height}) *value = reader.take<double>();
  return box;
}

void append_found(std::string& bytes, const std::vector<FoundObject>& found) {
  append_bytes(bytes, static_cast<std::uint32_t>(found.size()));
  for (const FoundObject& one : found) {
    append_box(bytes, one.box);
    append_bytes(bytes, one.label);
    append_bytes(bytes, one.score);
  }
}

void append_image(std::string& bytes, const JudgedImage& image) {
  append_bytes(bytes, image.index);
  append_bytes(bytes, image.quality);
  append_bytes(bytes, image.truth.id);
  append_bytes(bytes, static_cast<std::uint32_t>(image.truth.objects.size()));
  for (const TruthObject& object : image.truth.objects) {
    append_box(bytes, object.box);
    append_bytes(bytes, object.label);
    append_bytes(bytes, object.area);
    append_bytes(bytes, object.crowd);
  }
  append_found(bytes, image.found);
  append_found(bytes, image.guesses);
}

std::vector<FoundObject> take_found(ByteReader& reader) {
  std::vector<FoundObject> found;
  for (auto left = reader.take<std::uint32_t>(); left > 0; --left) {
    FoundObject& one = found.emplace_back();
    one.box = take_box(reader);
    one.label = reader.take<std::int64_t>();
    one.score = reader.take<double>();
  }
  return found;
}

JudgedImage take_image(ByteReader& reader) {
  JudgedImage image;
  image.index = reader.take<std::int64_t>();
  image.quality = reader.take<double>();
  image.truth.id = reader.take<std::int64_t>();
  for (auto left = reader.take<std::uint32_t>(); left > 0; --left) {
    TruthObject& object = image.truth.objects.emplace_back();
    object.box = take_box(reader);
    object.label = reader.take<std::int64_t>();
    object.area = reader.take<double>();
    object.crowd = reader.take<bool>();
  }
  image.found = take_found(reader);
  image.guesses = take_found(reader);
  return image;
}

}  // namespace

void Gallery::keep(const JudgedImage& image) {
  insert(worst_, image, each_, [](const JudgedImage& one) { return std::tuple(one.quality, one.truth.id); });
  if (countable(image) == 0) return;
  insert(best_, image, each_, [](const JudgedImage& one) {
    return std::tuple(-one.quality, -static_cast<double>(countable(one)), one.truth.id);
  });
}

void Gallery::add(std::int64_t index, const ImageTruth& truth, const std::vector<FoundObject>& found,
                  const ImageResult& result) {
  JudgedImage image{.index = index, .quality = image_quality(result), .truth = truth, .found = {}};
  std::vector<FoundObject> unsure;
  for (const FoundObject& one : found) (one.score >= kConfident ? image.found : unsure).push_back(one);
  std::ranges::stable_sort(image.found, std::greater<>(), &FoundObject::score);
  image.guesses = guesses_of(image, unsure);
  keep(image);
}

std::string Gallery::bytes() const {
  std::string bytes;
  for (const JudgedImage& image : worst_) append_image(bytes, image);
  for (const JudgedImage& image : best_) append_image(bytes, image);
  return bytes;
}

void Gallery::merge(std::string_view bytes) {
  for (ByteReader reader(bytes); !reader.done();) keep(take_image(reader));
}

Image draw_result(AnnotatedImage picture, const JudgedImage& judged, const DrawOptions& options) {
  const PixelView view = picture.pixels.view();
  return draw_boxes(view, enlarged(view.size, options.side), marks_of(judged, options));
}

std::vector<fs::path> draw_results(const Gallery& gallery, const ImageSource& source, const fs::path& folder,
                                   const DrawOptions& options) {
  std::vector<fs::path> files;
  if (!gallery.worst().empty()) files.push_back(write_sheet(gallery.worst(), source, folder / "worst.png", options));
  if (!gallery.best().empty()) files.push_back(write_sheet(gallery.best(), source, folder / "best.png", options));
  return files;
}

}  // namespace lockstep::detection
