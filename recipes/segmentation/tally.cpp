// SPDX-License-Identifier: Apache-2.0
#include "segmentation/tally.h"

#include <fmt/format.h>

#include <any>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "segmentation/data/dataset.h"

namespace lockstep::segmentation {
namespace {

constexpr std::size_t kInTable = 2;  // with up to this many classes, the epoch table shows each class's IoU

at::Tensor contiguous_bytes(const at::Tensor& classes) { return classes.to(at::kCPU, at::kByte).contiguous(); }

}  // namespace

SegmentationTally::SegmentationTally(std::vector<std::string> class_names, std::shared_ptr<const ImageSource> source)
    : class_names_(std::move(class_names)),
      source_(std::move(source)),
      confusion_(static_cast<std::int64_t>(class_names_.size())) {}

void SegmentationTally::add(const Outputs& outputs, const Batch& batch) {
  const auto& pictures = std::any_cast<const std::vector<EvalPicture>&>(batch.extra);
  const at::Tensor& classes = outputs.at("classes");
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const at::Tensor mask = contiguous_bytes(pictures[i].mask);
    const std::int64_t height = mask.size(0);
    const std::int64_t width = mask.size(1);
    const at::Tensor predicted =
        contiguous_bytes(classes[static_cast<std::int64_t>(i)].narrow(0, 0, height).narrow(1, 0, width));
    const auto* pixels = predicted.data_ptr<std::uint8_t>();
    Confusion of_picture(confusion_.classes());
    of_picture.add(mask.data_ptr<std::uint8_t>(), pixels, mask.numel());
    confusion_.merge(of_picture);
    if (!source_ || of_picture.pixels() == 0) continue;
    gallery_.add({.index = batch.indices.at(i),
                  .quality = of_picture.mean_iou(),
                  .classes = {{width, height}, 1, {pixels, pixels + mask.numel()}}});
  }
}

std::string SegmentationTally::bytes() const { return confusion_.bytes() + gallery_.bytes(); }

std::vector<Metric> SegmentationTally::metrics(const std::vector<std::string>& parts) {
  const std::int64_t classes = confusion_.classes();
  confusion_ = Confusion(classes);
  gallery_ = Gallery();
  for (const std::string& part : parts) {
    const std::string_view all(part);
    confusion_.merge(Confusion::from_bytes(all.substr(0, Confusion::byte_count(classes)), classes));
    gallery_.merge(all.substr(Confusion::byte_count(classes)));
  }
  if (confusion_.pixels() == 0) throw DataError("there is no labelled pixel to evaluate");
  std::vector<Metric> metrics = {{"miou", confusion_.mean_iou()}, {"pixel_accuracy", confusion_.pixel_accuracy()}};
  const bool in_table = class_names_.size() <= kInTable;
  for (std::int64_t c = 0; c < classes; ++c) {
    if (!confusion_.has(c) && !in_table) continue;
    metrics.push_back(
        {.name = "iou_" + class_names_[static_cast<std::size_t>(c)], .value = confusion_.iou(c), .in_table = in_table});
  }
  return metrics;
}

std::string SegmentationTally::report() const {
  std::string text = fmt::format(" mean IoU {:.4f}, pixel accuracy {:.4f}, {} labelled pixels\n", confusion_.mean_iou(),
                                 confusion_.pixel_accuracy(), text::thousands(confusion_.pixels()));
  for (std::int64_t c = 0; c < confusion_.classes(); ++c) {
    const std::string& name = class_names_[static_cast<std::size_t>(c)];
    if (!confusion_.has(c)) {
      text += fmt::format(" {:<16} absent: excluded from the mean\n", name);
      continue;
    }
    text += fmt::format(" {:<16} IoU {:.4f}   precision {:.4f}   recall {:.4f}\n", name, confusion_.iou(c),
                        confusion_.precision(c), confusion_.recall(c));
  }
  return text;
}

std::vector<std::filesystem::path> SegmentationTally::draw(const std::filesystem::path& folder) const {
  if (!source_) return {};
  return draw_pictures(gallery_, *source_, folder, class_names_);
}

}  // namespace lockstep::segmentation
