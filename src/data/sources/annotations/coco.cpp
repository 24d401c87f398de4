// SPDX-License-Identifier: Apache-2.0
// COCO as a source.
#include "lockstep/data/sources/coco.h"
#include "lockstep/base/text.h"

#include <fmt/format.h>

#include <utility>

#include "data/sources/annotations/coco_json.h"
#include "data/sources/files/files.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep {
namespace fs = std::filesystem;

CocoImages::CocoImages(const fs::path& annotations, const CocoOptions& options)
    : path_(annotations), options_(options) {
  if (options_.images.empty()) options_.images = annotations.parent_path();
  Result<data::Coco> parsed = data::parse_coco(
      read_text(annotations), {.masks = options.masks, .remap = options.remap, .strict = options.strict});
  if (!parsed) throw DataError(fmt::format("cannot read {}: {}", path_.string(), parsed.error()));
  for (data::CocoImage& image : parsed->images) {
    image.file = name_inside(options_.images, image.file, path_, options.allow_outside);
  }
  std::string first_missing;
  const auto missing = std::erase_if(parsed->images, [&](const data::CocoImage& image) {
    const bool gone = !FileSystem::system().exists(options_.images / image.file);
    if (gone && first_missing.empty()) first_missing = (options_.images / image.file).string();
    return gone;
  });
  if (missing > 0 && (options.strict || parsed->images.empty())) {
    throw DataError(fmt::format("{} of the {} images of {} are missing; the first: {}", missing,
                                missing + parsed->images.size(), path_.string(), first_missing),
                    "pass the folder that contains the images, or set strict to false to skip missing images");
  }
  if (parsed->images.empty()) throw DataError(fmt::format("{} lists no images", path_.string()));
  left_out_ = parsed->left_out + static_cast<std::int64_t>(missing);
  if (left_out_ > 0) {
    log::note("{}: {} and {} skipped; the first: {}", path_.string(),
              text::counted(static_cast<std::int64_t>(missing), "missing image"),
              text::counted(parsed->left_out, "bad annotation"),
              parsed->left_out > 0 ? parsed->first_left_out : first_missing);
  }
  coco_ = std::make_shared<const data::Coco>(std::move(parsed).value());
}

std::int64_t CocoImages::size() const { return std::ssize(coco_->images); }
const std::vector<std::string>& CocoImages::class_names() const { return coco_->class_names; }
const std::vector<std::int64_t>& CocoImages::category_ids() const noexcept { return coco_->category_ids; }

std::string CocoImages::describe(std::int64_t index) const {
  return (options_.images / coco_->images[static_cast<std::size_t>(index)].file).string();
}
const std::vector<Object>& CocoImages::objects(std::int64_t index) const {
  return coco_->images[static_cast<std::size_t>(index)].objects;
}
ImageSize CocoImages::stated_size(std::int64_t index) const {
  return coco_->images[static_cast<std::size_t>(index)].size;
}

AnnotatedImage CocoImages::get(std::int64_t index) const {
  const data::CocoImage& image = coco_->images[static_cast<std::size_t>(index)];
  AnnotatedImage picture = data::picture_of(options_.images / image.file, image.id);
  picture.pixels.fit_to(image.size);
  picture.objects = image.objects;
  picture.captions = image.captions;
  if (!options_.masks || image.objects.empty()) return picture;
  const ImageSize size = picture.pixels.size();
  const bool stated = image.size != ImageSize{};
  if (stated && size != image.size) {
    throw DataError(fmt::format("{} is {} x {} pixels, but {} says {} x {}", picture.name, size.width, size.height,
                                path_.string(), image.size.width, image.size.height));
  }
  if (image.outlines.size() * static_cast<std::uint64_t>(size.width * size.height) > data::kMaxMaskBytes) {
    throw DataError(fmt::format("{}: the masks of the {} objects of image {} exceed 1 GiB", path_.string(),
                                image.outlines.size(), image.id));
  }
  for (std::size_t i = 0; i < image.outlines.size(); ++i) {
    Result<std::optional<Image>> mask = data::draw_outline(image.outlines[i], size);
    if (!mask)
      throw DataError(
          fmt::format("cannot read {}: object {} of image {}: {}", path_.string(), i, image.id, mask.error()));
    picture.objects[i].mask = std::move(mask).value();
  }
  return picture;
}

}  // namespace lockstep
