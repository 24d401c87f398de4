// SPDX-License-Identifier: Apache-2.0
// The phases of augmentation, batch sizes in pixels, and batch construction.
#include "detection/data/dataset_augment.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/detection.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/turn.h"

namespace lockstep::detection {
namespace {

constexpr std::uint64_t kSizeStream = 0x6d756c7469736361;  // differs from the streams of samples

void check(const AugmentOptions& options) {
  if (options.policy[0] < 0 || !std::ranges::is_sorted(options.policy)) {
    throw UsageError(fmt::format("augmentation policy [{}, {}, {}] is not in ascending order", options.policy[0],
                                 options.policy[1], options.policy[2]));
  }
  const auto share = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1)) throw UsageError(fmt::format("{} is {}, must be 0 .. 1", name, value));
  };
  share("mosaic_prob", options.mosaic_prob);
  share("mixup_prob", options.mixup_prob);
  share("photometric_prob", options.photometric_prob);
  share("zoom_out_prob", options.zoom_out_prob);
  share("iou_crop_prob", options.iou_crop_prob);
  share("flip_prob", options.flip_prob);
  if (!(options.zoom_out_max >= 1))
    throw UsageError(fmt::format("zoom_out_max is {}, must be at least 1", options.zoom_out_max));
  if (!(options.iou_crop_min > 0 && options.iou_crop_min <= 1)) {
    throw UsageError(fmt::format("iou_crop_min is {}, must be above 0 and at most 1", options.iou_crop_min));
  }
  const bool turns =
      options.mosaic_side >= 0 && options.mosaic_min_scale > 0 && options.mosaic_max_scale >= options.mosaic_min_scale;
  if (!turns) throw UsageError("the mosaic's side is negative, or its scales are not positive and ascending");
  (void)scales_of(options.base_size, std::max<std::int64_t>(options.base_size_repeat, 1), options.divisor);
}

}  // namespace

std::vector<std::int64_t> scales_of(std::int64_t base, std::int64_t repeat, std::int64_t divisor) {
  if (base <= 0 || repeat <= 0 || divisor <= 0 || base % divisor != 0) {
    throw UsageError(
        fmt::format("cannot list sizes around {} in steps of {}, with the middle one {} times", base, divisor, repeat),
        "the base size must be a multiple of the divisor, and all must be positive");
  }
  const std::int64_t least = base * 3 / 4 / divisor * divisor;
  const std::int64_t most = base * 5 / 4 / divisor * divisor;
  const std::int64_t steps = (base - least) / divisor;
  std::vector<std::int64_t> scales;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (least > 0) scales.push_back(least + divisor * i);
  }
  scales.insert(scales.end(), static_cast<std::size_t>(repeat), base);
  for (std::int64_t i = 0; i < steps; ++i) scales.push_back(most - divisor * i);
  return scales;
}

std::int64_t batch_side(const AugmentOptions& options, const BatchContext& context) {
  if (options.base_size_repeat <= 0 || context.epoch >= options.policy[2]) return options.base_size;
  const auto scales = scales_of(options.base_size, options.base_size_repeat, options.divisor);
  SampleRandom random(context.seed ^ kSizeStream, static_cast<std::uint64_t>(context.epoch),
                      static_cast<std::uint64_t>(context.step));
  return scales[random.below(scales.size())];
}

Augmenter::Augmenter(const AugmentOptions& options, std::shared_ptr<const ImageSource> source)
    : options_(options), source_(std::move(source)) {
  check(options_);
  if (options_.mosaic_side == 0) options_.mosaic_side = options_.base_size / 2;
}

void Augmenter::operator()(AnnotatedImage& image, SampleContext& context) const {
  const auto [begin, no_mixes, end] = options_.policy;
  if (context.epoch >= begin && context.epoch < end) run_strong(image, context, context.epoch < no_mixes);
  HorizontalFlip{.p = options_.flip_prob}(image, context.random);
  (void)image.pixels.decoded();  // decoded here, so that a damaged image fails this sample rather than its batch
}

void Augmenter::run_strong(AnnotatedImage& image, SampleContext& context, bool with_mixes) const {
  SampleRandom& random = context.random;
  const bool mosaic = with_mixes && random.chance(options_.mosaic_prob);
  if (mosaic) {
    Mosaic{.source = source_,
           .shorter = options_.mosaic_side,
           .degrees = options_.mosaic_degrees,
           .translate = options_.mosaic_translate,
           .min_scale = options_.mosaic_min_scale,
           .max_scale = options_.mosaic_max_scale}(image, context);
  }
  PhotometricDistort{.p = options_.photometric_prob}(image, random);
  if (!mosaic) {
    ZoomOut{.max_side = options_.zoom_out_max, .p = options_.zoom_out_prob}(image, random);
    IoUCrop{.min_scale = options_.iou_crop_min, .p = options_.iou_crop_prob}(image, random);
  }
  SanitizeBoxes{}(image);
  if (with_mixes) BlendPictures{.source = source_, .p = options_.mixup_prob}(image, context);
}

namespace {

Batch training_batch(std::vector<Sample>& samples, std::int64_t side, double min_box) {
  Batch batch;
  const auto count = static_cast<std::int64_t>(samples.size());
  batch.data = at::empty({count, 3, side, side}, c10::ScalarType::Float);
  Targets targets;
  for (std::int64_t i = 0; i < count; ++i) {
    AnnotatedImage& image = *std::any_cast<Unsized&>(samples[static_cast<std::size_t>(i)].extra);
    Resize{.size = {side, side}}(image);
    SanitizeBoxes{.min_size = min_box}(image);
    SampleContext context(0, 0, 0);
    const SampleSpec spec{.data_shape = {3, side, side}};
    context.spec = &spec;
    context.slot.data = batch.data.data_ptr<float>() + i * 3 * side * side;
    Sample sample = ToTensor{.target = DetectionTarget{.centered = true}}(image, context);
    targets.push_back(std::any_cast<Detections>(std::move(sample.extra)));
  }
  batch.extra = std::move(targets);
  return batch;
}

Batch test_batch(std::vector<Sample>& samples) {
  std::vector<at::Tensor> pictures;
  Targets targets;
  for (Sample& sample : samples) {
    pictures.push_back(std::move(sample.data));
    targets.push_back(std::any_cast<Detections>(std::move(sample.extra)));
  }
  Batch batch;
  batch.data = at::stack(pictures);
  batch.extra = std::move(targets);
  return batch;
}

}  // namespace

Collate collate_of(const AugmentOptions& options) {
  check(options);
  return [options](std::vector<Sample> samples, const BatchContext& context) {
    if (samples.empty()) throw InternalError("the batch has no samples");
    const bool training = std::any_cast<Unsized>(&samples.front().extra) != nullptr;
    return training ? training_batch(samples, batch_side(options, context), options.min_box) : test_batch(samples);
  };
}

}  // namespace lockstep::detection
