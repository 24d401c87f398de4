// SPDX-License-Identifier: Apache-2.0
#include "captioning/synthetic/generate.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "captioning/synthetic/scene.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

std::string picture_name(std::int64_t index) { return fmt::format("{:06}.png", index); }

std::string text_lines(const GenerateOptions& options) {
  std::string text;
  for (std::int64_t i = 0; i < options.count; ++i) {
    const std::vector<std::string> captions = scene_captions(make_scene(options.seed, i));
    for (std::size_t k = 0; k < captions.size(); ++k) {
      fmt::format_to(std::back_inserter(text), "{}#{}\t{}\n", picture_name(i), k, captions[k]);
    }
  }
  return text;
}

std::string coco_captions(const GenerateOptions& options) {
  std::string images;
  std::string annotations;
  for (std::int64_t i = 0; i < options.count; ++i) {
    fmt::format_to(std::back_inserter(images),
                   "{}\n{{\"id\": {}, \"file_name\": \"{}\", \"width\": {}, \"height\": {}}}", i == 0 ? "" : ",", i,
                   picture_name(i), options.size, options.size);
    const std::vector<std::string> captions = scene_captions(make_scene(options.seed, i));
    for (std::size_t k = 0; k < captions.size(); ++k) {
      fmt::format_to(std::back_inserter(annotations), "{}\n{{\"id\": {}, \"image_id\": {}, \"caption\": {}}}",
                     i == 0 && k == 0 ? "" : ",", static_cast<std::size_t>(i) * kSceneCaptions + k, i,
                     text::json_quote(captions[k]));
    }
  }
  return fmt::format(
      "{{\n\"info\": {{\"description\": \"synthetic scenes\", \"seed\": {}}},\n\"images\": [{}\n],\n"
      "\"annotations\": [{}\n]\n}}\n",
      options.seed, images, annotations);
}

}  // namespace

CaptionFormat parse_caption_format(const std::string& name) {
  if (name == "text") return CaptionFormat::kText;
  if (name == "coco") return CaptionFormat::kCoco;
  throw UsageError(fmt::format("unknown caption format '{}'{}", name, text::did_you_mean(name, {"text", "coco"})),
                   "use text or coco");
}

void generate_captioned_scenes(const GenerateOptions& options, const common::IndexProgress& progress) {
  common::require_within("captioning: count", options.count, 1, 1'000'000);
  common::require_within("captioning: size", options.size, 32, 4096);
  common::make_empty_folder(options.out);
  FileSystem::system().make_folder(options.out / "images");
  const auto paint = [&](std::int64_t index) {
    const Image picture = paint_scene(make_scene(options.seed, index), {options.size, options.size});
    common::write_set_picture(picture, options.out / "images" / picture_name(index));
  };
  common::run_indices(options.count, options.threads, paint, progress);
  const bool coco = options.format == CaptionFormat::kCoco;
  write_file_atomically(FileSystem::system(), options.out / (coco ? "captions.json" : "captions.txt"),
                        coco ? coco_captions(options) : text_lines(options));
}

}  // namespace lockstep::captioning
