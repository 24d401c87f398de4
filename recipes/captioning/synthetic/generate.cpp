// SPDX-License-Identifier: Apache-2.0
#include "captioning/synthetic/generate.h"

#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "captioning/synthetic/grammar.h"
#include "captioning/synthetic/scene_paint.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;

constexpr int kPictureCompression = 4;       // fixed: it is part of the bytes
constexpr std::int64_t kReportedEvery = 16;  // pictures

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

struct PngEncoderDone {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
struct PngBufferDone {
  void operator()(void* buffer) const noexcept { std::free(buffer); }
};

void write_picture(const Image& image, const fs::path& file) {
  const std::unique_ptr<spng_ctx, PngEncoderDone> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, kPictureCompression);
  spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_SUB);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.size.width);
  header.height = static_cast<std::uint32_t>(image.size.height);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context.get(), &header);
  int fault =
      spng_encode_image(context.get(), image.pixels.data(), image.pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  const std::unique_ptr<void, PngBufferDone> bytes(fault == 0 ? spng_get_png_buffer(context.get(), &size, &fault)
                                                              : nullptr);
  if (fault != 0) throw InternalError(fmt::format("cannot encode {}: {}", file.string(), spng_strerror(fault)));
  FileSystem::system().create(file)->append(bytes.get(), size);
}

std::string picture_name(std::int64_t index) { return fmt::format("{:06}.png", index); }

/// The threads' shared list of work: the next picture, the first error, the count of what is done.
class PictureWork {
 public:
  PictureWork(const GenerateOptions& options, const GenerateProgress& progress)
      : options_(options), progress_(progress) {}

  void run() {
    const std::int64_t wanted = options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
    std::vector<std::thread> helpers;
    try {
      for (std::int64_t i = 1; i < std::min(wanted, options_.count); ++i) {
        helpers.emplace_back([this] { take_all(); });
      }
    } catch (const std::exception&) {
      // The machine gives no more threads: those that run do the work.
    }
    take_all();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take_all() noexcept {
    try {
      for (std::int64_t index = next_++; index < options_.count; index = next_++) {
        write_picture(paint_scene(make_scene(options_.seed, index), {options_.size, options_.size}),
                      options_.out / "images" / picture_name(index));
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = options_.count;  // the others stop
    }
  }

  void report() {
    const std::lock_guard lock(mutex_);
    if (++done_ % kReportedEvery == 0 && progress_) progress_(done_, options_.count);
  }

  const GenerateOptions& options_;
  const GenerateProgress& progress_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::exception_ptr error_;
};

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
  PictureWork(options, progress).run();
  const bool coco = options.format == CaptionFormat::kCoco;
  write_file_atomically(FileSystem::system(), options.out / (coco ? "captions.json" : "captions.txt"),
                        coco ? coco_captions(options) : text_lines(options));
  if (progress) progress(options.count, options.count);
}

}  // namespace lockstep::captioning
