// SPDX-License-Identifier: Apache-2.0
// Labels, threads and files of the synthetic captchas. Image i depends on (seed, i) alone.
#include "captcha/synthetic/generate.h"

#include <fmt/format.h>
#include <spng.h>
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "captcha/synthetic/draw.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captcha {
namespace {

namespace fs = std::filesystem;

constexpr int kCompression = 4;               // fixed: it is part of the bytes
constexpr std::int64_t kProgressEvery = 256;  // images

void check(const GenerateOptions& options) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
      throw UsageError(fmt::format("generate captcha: {} is {}, must be {} .. {}", name, value, low, high));
    }
  };
  within("count", options.count, 1, 100'000'000);
  within("length", options.length, 1, 32);
  within("width", options.width, 16, 4096);
  within("height", options.height, 16, 4096);
  within("threads", options.threads, 0, 1024);
  if (options.charset.empty()) throw UsageError("generate captcha: the charset is empty", "--charset 0-9A-Z");
}

void open_folder(const fs::path& folder) {
  std::error_code fault;
  if (fs::exists(folder, fault) && !fs::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is no folder", folder.string()));
  }
  FileSystem::system().make_folder(folder);
  for (const std::string& name : FileSystem::system().list(folder)) {
    if (fs::path(name).extension() == ".png") {
      throw UsageError(fmt::format("folder {} already holds images ({}): two sets would mix", folder.string(), name),
                       "give another folder, or remove it first");
    }
  }
}

struct EncoderDone {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
struct BufferDone {
  void operator()(void* buffer) const noexcept { std::free(buffer); }
};

void write_png(const Canvas& canvas, const fs::path& path) {
  const std::unique_ptr<spng_ctx, EncoderDone> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, kCompression);
  spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_SUB);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(canvas.width());
  header.height = static_cast<std::uint32_t>(canvas.height());
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context.get(), &header);
  int fault = spng_encode_image(context.get(), canvas.pixels().data(), canvas.pixels().size(), SPNG_FMT_PNG,
                                SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  const std::unique_ptr<void, BufferDone> bytes(fault == 0 ? spng_get_png_buffer(context.get(), &size, &fault)
                                                           : nullptr);
  if (fault != 0) throw InternalError(fmt::format("cannot encode {}: {}", path.string(), spng_strerror(fault)));
  FileSystem::system().create(path)->append(bytes.get(), size);
}

Style style_of(StyleChoice choice, std::int64_t index) {
  if (choice == StyleChoice::kMixed) return index % 2 == 0 ? Style::kSimple : Style::kCustom;
  return choice == StyleChoice::kSimple ? Style::kSimple : Style::kCustom;
}

// The threads' shared work list: the next index, the first error, the count of written images.
class Generation {
 public:
  Generation(const GenerateOptions& options, const GenerateProgress& progress)
      : options_(options), progress_(progress), fonts_(options.charset) {}

  void run() {
    const std::int64_t wanted = options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
    const std::int64_t count = std::clamp<std::int64_t>(wanted, 1, options_.count);
    std::vector<std::thread> helpers;
    for (std::int64_t i = 1; i < count; ++i) helpers.emplace_back([this] { draw_all(); });
    draw_all();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
    if (progress_) progress_(options_.count);
  }

 private:
  void draw_all() noexcept {
    try {
      Rasterizer rasterizer;
      for (std::int64_t index = next_++; index < options_.count; index = next_++) {
        draw_one(index, rasterizer);
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = options_.count;  // the others stop
    }
  }

  void draw_one(std::int64_t index, Rasterizer& rasterizer) const {
    SampleRandom random(options_.seed, 0, static_cast<std::uint64_t>(index));
    std::string label;
    for (std::int64_t i = 0; i < options_.length; ++i) label += options_.charset[random.below(options_.charset.size())];
    const Painter painter{fonts_, rasterizer, {options_.width, options_.height}};
    const Canvas canvas = render(label, style_of(options_.style, index), painter, random);
    write_png(canvas, options_.out / fmt::format("{}_{}.png", label, index));
  }

  void report() {
    const std::int64_t written = ++written_;
    if (!progress_ || written % kProgressEvery != 0) return;
    const std::lock_guard lock(mutex_);
    progress_(written);
  }

  const GenerateOptions& options_;
  const GenerateProgress& progress_;
  const FontSet fonts_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> written_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

void append_checked(std::string& charset, char letter, const std::string& ranges) {
  if (letter <= ' ' || letter > '~' || letter == '_' || letter == '/') {
    throw UsageError(fmt::format("charset {}: character code {} cannot be in a label", text::json_quote(ranges),
                                 static_cast<int>(static_cast<unsigned char>(letter))),
                     "printable ASCII but for space, '/' and '_', which ends a label in a file name");
  }
  if (charset.find(letter) != std::string::npos) {
    throw UsageError(fmt::format("charset {}: '{}' comes twice", text::json_quote(ranges), letter));
  }
  charset += letter;
}

}  // namespace

std::string expand_charset(const std::string& ranges) {
  std::string charset;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const char first = ranges[i];
    const bool is_range = i + 2 < ranges.size() && ranges[i + 1] == '-';
    if (!is_range) {
      append_checked(charset, first, ranges);
      continue;
    }
    const char last = ranges[i + 2];
    if (last < first) {
      throw UsageError(
          fmt::format("charset {}: the range {}-{} runs backwards", text::json_quote(ranges), first, last));
    }
    for (int letter = static_cast<unsigned char>(first); letter <= last; ++letter) {
      append_checked(charset, static_cast<char>(letter), ranges);
    }
    i += 2;
  }
  if (charset.empty()) throw UsageError("the charset is empty", "for example 0-9A-Z");
  return charset;
}

StyleChoice parse_style(const std::string& name) {
  if (name == "mixed") return StyleChoice::kMixed;
  if (name == "simple") return StyleChoice::kSimple;
  if (name == "custom") return StyleChoice::kCustom;
  const std::vector<std::string> valid{"mixed", "simple", "custom"};
  throw UsageError(fmt::format("unknown style '{}'{}: {}", name, text::did_you_mean(name, valid), text::join(valid)));
}

void generate_captchas(const GenerateOptions& options, const GenerateProgress& progress) {
  check(options);
  Generation generation(options, progress);
  open_folder(options.out);
  generation.run();
}

}  // namespace lockstep::captcha
