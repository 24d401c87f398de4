// SPDX-License-Identifier: Apache-2.0
#include "captioning/synthetic/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "captioning/synthetic/scene.h"
#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;

void check_generate(const GenerateOptions& options) {
  if (options.count < 1 || options.count > 1'000'000) {
    throw UsageError(fmt::format("generate captioning: count is {}, must be 1 .. 1000000", options.count));
  }
  if (options.size < 32 || options.size > 4096) {
    throw UsageError(fmt::format("generate captioning: size is {} pixels, must be 32 .. 4096", options.size));
  }
}

void open_empty_folder(const fs::path& folder) {
  std::error_code fault;
  if (fs::exists(folder, fault) && !fs::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is no folder", folder.string()));
  }
  if (const auto names = FileSystem::system().list(folder); !names.empty()) {
    throw UsageError(fmt::format("folder {} is not empty: it holds {}", folder.string(), names.front()),
                     "give another folder, or empty it first");
  }
  FileSystem::system().make_folder(folder / "images");
}

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
  throw UsageError(fmt::format("caption format '{}' is none{}", name, text::did_you_mean(name, {"text", "coco"})),
                   "text or coco");
}

void generate_captioned_scenes(const GenerateOptions& options, const GenerateProgress& progress) {
  check_generate(options);
  open_empty_folder(options.out);
  const auto paint = [&](std::int64_t index) {
    const Image picture = paint_scene(make_scene(options.seed, index), {options.size, options.size});
    common::write_set_picture(view_of(picture), options.out / "images" / picture_name(index));
  };
  common::run_indices(
      {.count = options.count, .threads = options.threads, .make_worker = [&] { return paint; }, .progress = progress});
  const bool coco = options.format == CaptionFormat::kCoco;
  write_file_atomically(FileSystem::system(), options.out / (coco ? "captions.json" : "captions.txt"),
                        coco ? coco_captions(options) : text_lines(options));
  if (progress) progress(options.count, options.count);
}

}  // namespace lockstep::captioning
