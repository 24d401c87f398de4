// SPDX-License-Identifier: Apache-2.0
#include "segmentation/metrics/confusion.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void Confusion::add(const std::uint8_t* truth, const std::uint8_t* predicted, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (truth[i] == kUnlabelled) continue;
    if (truth[i] >= classes_) {
      throw DataError(fmt::format("a mask has class {}, but there are {} classes (0 .. {}; {} is unlabelled)", truth[i],
                                  classes_, classes_ - 1, kUnlabelled),
                      "set num_classes, or fix the mask");
    }
    if (predicted[i] >= classes_) throw InternalError(fmt::format("predicted class {} of {}", predicted[i], classes_));
    ++pixels_[static_cast<std::size_t>(truth[i] * classes_ + predicted[i])];
  }
}

void Confusion::merge(const Confusion& other) {
  if (other.classes_ != classes_) throw InternalError("confusion matrices of different sizes");
  for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] += other.pixels_[i];
}

std::int64_t Confusion::pixels() const { return std::accumulate(pixels_.begin(), pixels_.end(), std::int64_t{0}); }

double Confusion::pixel_accuracy() const {
  std::int64_t right = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += at(c, c);
  return share(right, pixels());
}

namespace {

/// The number of a class's pixels, in the ground truth and in the prediction.
struct Marginals {
  std::int64_t truth = 0;
  std::int64_t predicted = 0;
};

Marginals marginals(const Confusion& confusion, std::int64_t label) {
  Marginals sums;
  for (std::int64_t c = 0; c < confusion.classes(); ++c) {
    sums.truth += confusion.at(label, c);
    sums.predicted += confusion.at(c, label);
  }
  return sums;
}

}  // namespace

bool Confusion::has(std::int64_t label) const {
  const Marginals sums = marginals(*this, label);
  return sums.truth + sums.predicted > 0;
}

double Confusion::iou(std::int64_t label) const {
  const Marginals sums = marginals(*this, label);
  const std::int64_t both = at(label, label);
  return share(both, sums.truth + sums.predicted - both);
}

double Confusion::recall(std::int64_t label) const { return share(at(label, label), marginals(*this, label).truth); }

double Confusion::precision(std::int64_t label) const {
  return share(at(label, label), marginals(*this, label).predicted);
}

double Confusion::mean_iou() const {
  double sum = 0;
  std::int64_t counted = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    if (!has(c)) continue;
    sum += iou(c);
    ++counted;
  }
  return counted == 0 ? 0.0 : sum / static_cast<double>(counted);
}

std::string Confusion::bytes() const {
  std::string bytes(byte_count(classes_), '\0');
  std::memcpy(bytes.data(), pixels_.data(), bytes.size());
  return bytes;
}

Confusion Confusion::from_bytes(std::string_view bytes, std::int64_t classes) {
  Confusion confusion(classes);
  if (bytes.size() != byte_count(classes)) {
    throw InternalError(fmt::format("{} bytes for a confusion matrix of {} classes", bytes.size(), classes));
  }
  std::memcpy(confusion.pixels_.data(), bytes.data(), bytes.size());
  return confusion;
}

}  // namespace lockstep::segmentation
