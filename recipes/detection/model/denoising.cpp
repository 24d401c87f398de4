// SPDX-License-Identifier: Apache-2.0
#include "detection/model/denoising.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "detection/model/sent.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

/// When added to a score, makes the attention weight 0; sums of it stay finite in bfloat16.
constexpr float kNever = -1e9F;
/// The random numbers per slot: four for the size and four for the sign of a box's moves, one for whether the label
/// changes, one for the new label.
constexpr std::int64_t kDraws = 10;

/// The slots of one image.
class ImageSlots {
 public:
  ImageSlots(const DenoisingOptions& options, const Detections& objects, float start)
      : options_(options),
        labels_(objects.labels.to(at::kLong).contiguous()),
        boxes_(objects.boxes.to(at::kFloat).contiguous()) {
    count_ = labels_.numel();
    kept_ = std::min(count_, options.slots / 2);
    groups_ = kept_ == 0 ? 0 : options.slots / (2 * kept_);
    // If all objects of an image fit, it does not matter where the range starts.
    start_ =
        std::min(static_cast<std::int64_t>(start * static_cast<float>(count_)), std::max<std::int64_t>(count_ - 1, 0));
  }

  [[nodiscard]] std::int64_t used() const { return groups_ * 2 * kept_; }
  [[nodiscard]] float weight() const { return 1 / static_cast<float>(groups_); }
  [[nodiscard]] std::int64_t group(std::int64_t slot) const { return slot < used() ? slot / (2 * kept_) : groups_; }
  [[nodiscard]] bool negative(std::int64_t slot) const { return slot % (2 * kept_) >= kept_; }
  [[nodiscard]] std::int64_t object(std::int64_t slot) const { return (start_ + slot % kept_) % count_; }

  [[nodiscard]] std::int64_t label(std::int64_t slot, const float* draws) const {
    const std::int64_t right = labels_.data_ptr<std::int64_t>()[object(slot)];
    if (draws[8] >= 0.5 * options_.label_noise) return right;
    const auto other = static_cast<std::int64_t>(draws[9] * static_cast<float>(options_.classes));
    return std::min(other, options_.classes - 1);
  }

  /// Each side moves by its own fraction of half the size; those of negative boxes move by an additional half of the
  /// size.
  [[nodiscard]] std::array<float, 4> box(std::int64_t slot, const float* draws) const {
    const float* from = boxes_.data_ptr<float>() + 4 * object(slot);
    std::array<float, 4> sides{};
    for (std::size_t i = 0; i < 4; ++i) {
      const float half = 0.5F * from[2 + i % 2];
      // The sides of a negative box must not both move inwards: they might swap and restore the object's box.
      const bool follows = negative(slot) && i >= 2 && draws[2 + i] >= 0.5F;
      const float sign = follows || draws[4 + i] >= 0.5F ? 1.0F : -1.0F;
      const float share = (draws[i] + (negative(slot) ? 1.0F : 0.0F)) * sign;
      const float side = from[i % 2] + (i < 2 ? -half : half);
      sides[i] = std::clamp(side + share * half * static_cast<float>(options_.box_noise), 0.0F, 1.0F);
    }
    return {0.5F * (sides[0] + sides[2]), 0.5F * (sides[1] + sides[3]), std::abs(sides[2] - sides[0]),
            std::abs(sides[3] - sides[1])};
  }

 private:
  const DenoisingOptions& options_;
  at::Tensor labels_;
  at::Tensor boxes_;
  std::int64_t count_ = 0;
  std::int64_t kept_ = 0;
  std::int64_t groups_ = 0;
  std::int64_t start_ = 0;
};

void fill_slots(Denoising& all, std::int64_t image, const ImageSlots& slots, const at::Tensor& draws) {
  auto* labels = all.labels[image].data_ptr<std::int64_t>();
  auto* boxes = all.boxes[image].data_ptr<float>();
  auto* index = all.index[image].data_ptr<std::int64_t>();
  auto* weight = all.weight[image].data_ptr<float>();
  const float* numbers = draws[image].data_ptr<float>();
  for (std::int64_t slot = 0; slot < slots.used(); ++slot) {
    labels[slot] = slots.label(slot, numbers + kDraws * slot);
    std::ranges::copy(slots.box(slot, numbers + kDraws * slot), boxes + 4 * slot);
    index[slot] = slots.negative(slot) ? -1 : slots.object(slot);
    weight[slot] = slots.weight();
  }
}

void fill_mask(const at::Tensor& mask, const ImageSlots& slots, std::int64_t count) {
  const std::int64_t side = mask.size(-1);
  std::vector<std::int64_t> groups;
  for (std::int64_t slot = 0; slot < count; ++slot) groups.push_back(slots.group(slot));
  auto* numbers = mask.data_ptr<float>();
  for (std::int64_t row = 0; row < side; ++row) {
    const std::int64_t own_group = row < count ? groups[static_cast<std::size_t>(row)] : -1;
    for (std::int64_t column = 0; column < count; ++column) {
      numbers[row * side + column] = groups[static_cast<std::size_t>(column)] == own_group ? 0 : kNever;
    }
  }
}

}  // namespace

Denoising make_denoising(const Targets& targets, std::int64_t images, const DenoisingOptions& options) {
  if (static_cast<std::int64_t>(targets.size()) != images) {
    throw UsageError(fmt::format("there are {} images, but objects for {}", images, targets.size()));
  }
  const std::int64_t slots = options.slots;
  const std::int64_t side = slots + options.queries;
  Denoising all{.labels = at::full({images, slots}, options.classes, at::kLong),
                .boxes = at::full({images, slots, 4}, 0.5, at::kFloat),
                .mask = at::zeros({images, 1, side, side}),
                .index = at::full({images, slots}, -1, at::kLong),
                .weight = at::zeros({images, slots})};
  const at::Tensor starts = at::rand({images});
  const at::Tensor draws = at::rand({images, slots, kDraws});
  for (std::int64_t i = 0; i < images; ++i) {
    const ImageSlots of_image(options, targets[static_cast<std::size_t>(i)], starts.data_ptr<float>()[i]);
    fill_slots(all, i, of_image, draws);
    fill_mask(all.mask[i], of_image, slots);
  }
  return all;
}

Denoising on_device(const Denoising& denoising, const at::Device& device) {
  Denoising there = denoising;
  const std::vector<at::Tensor> all = sent({denoising.labels, denoising.boxes, denoising.mask}, device);
  there.labels = all[0];
  there.boxes = all[1];
  there.mask = all[2];
  return there;
}

}  // namespace lockstep::detection
