// SPDX-License-Identifier: Apache-2.0
// Labels, threads and files of the synthetic captchas. Image i depends only on (seed, i).
#include "captcha/synthetic/generate.h"

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <vector>

#include "captcha/synthetic/draw.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captcha {
namespace {

namespace fs = std::filesystem;

void check(const GenerateOptions& options) {
  common::require_within("captcha: count", options.count, 1, 100'000'000);
  common::require_within("captcha: length", options.length, 1, 32);
  common::require_within("captcha: width", options.width, 16, 4096);
  common::require_within("captcha: height", options.height, 16, 4096);
  common::require_within("captcha: threads", options.threads, 0, 1024);
  if (options.charset.empty()) throw UsageError("generate captcha: the charset is empty", "--charset 0-9A-Z");
}

void open_folder(const fs::path& folder) {
  common::refuse_file(folder);
  FileSystem::system().make_folder(folder);
  for (const std::string& name : FileSystem::system().list(folder)) {
    if (fs::path(name).extension() == ".png") {
      throw UsageError(
          fmt::format("folder {} already holds images ({}): two sets would be mixed", folder.string(), name),
          "choose another folder, or remove this one first");
    }
  }
}

Style style_of(StyleChoice choice, std::int64_t index) {
  if (choice == StyleChoice::kMixed) return index % 2 == 0 ? Style::kSimple : Style::kCustom;
  return choice == StyleChoice::kSimple ? Style::kSimple : Style::kCustom;
}

void draw_one(const GenerateOptions& options, std::int64_t index, const FontSet& fonts, Rasterizer& rasterizer) {
  SampleRandom random(options.seed, 0, static_cast<std::uint64_t>(index));
  std::string label;
  for (std::int64_t i = 0; i < options.length; ++i) label += options.charset[random.below(options.charset.size())];
  const Painter painter{fonts, rasterizer, {options.width, options.height}};
  const Canvas canvas = render(label, style_of(options.style, index), painter, random);
  PixelView pixels{.owner = nullptr, .data = canvas.pixels().data()};
  pixels.size = {canvas.width(), canvas.height()};
  common::write_set_picture(pixels, options.out / fmt::format("{}_{}.png", label, index));
}

void append_checked(std::string& charset, char letter, const std::string& ranges) {
  if (letter <= ' ' || letter > '~' || letter == '_' || letter == '/') {
    throw UsageError(fmt::format("charset {}: character code {} cannot be in a label", text::json_quote(ranges),
                                 static_cast<int>(static_cast<unsigned char>(letter))),
                     "use printable ASCII except space, '/' and '_' ('_' ends the label in a file name)");
  }
  if (charset.find(letter) != std::string::npos) {
    throw UsageError(fmt::format("charset {}: '{}' occurs twice", text::json_quote(ranges), letter));
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
      throw UsageError(fmt::format("charset {}: the range {}-{} is reversed", text::json_quote(ranges), first, last));
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

void generate_captchas(const GenerateOptions& options, const common::IndexProgress& progress) {
  check(options);
  const FontSet fonts(options.charset);
  open_folder(options.out);
  common::IndexLoop loop{.count = options.count, .threads = options.threads};
  loop.make_worker = [&] {
    const auto rasterizer = std::make_shared<Rasterizer>();
    return [&, rasterizer](std::int64_t index) { draw_one(options, index, fonts, *rasterizer); };
  };
  loop.progress = progress;
  common::run_indices(loop);
}

}  // namespace lockstep::captcha
