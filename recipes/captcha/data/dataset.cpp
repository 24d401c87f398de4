// SPDX-License-Identifier: Apache-2.0
#include "captcha/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/option_words.h"
#include "lockstep/data/decode.h"

namespace lockstep::captcha {
namespace {

std::string label_text(const std::filesystem::path& file, const std::string& label_end) {
  const std::string stem = file.stem().string();
  return label_end.empty() ? stem : stem.substr(0, stem.find(label_end));
}

/// The characters of a UTF-8 text.
std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (const char byte : text) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
    if (!continues || characters.empty()) characters.emplace_back();
    characters.back() += byte;
  }
  return characters;
}

bool is_sign(const std::string& character) {
  return character.size() == 1 && std::isalnum(static_cast<unsigned char>(character.front())) == 0;
}

/// Explains how a label is found, and names the setting that would fit this label: data.label_end or data.length.
std::string length_hint(const std::vector<std::string>& label, const Labels& labels) {
  const std::string end = labels.label_end.empty() ? "the extension" : fmt::format("'{}'", labels.label_end);
  const auto length = static_cast<std::size_t>(labels.length);
  std::string fix;
  if (label.size() > length && is_sign(label[length])) {
    fix = ": " + setting_words(fmt::format("data.label_end='{}'", label[length]));
  } else if (!label.empty()) {
    fix = ": if all labels have a different length, " + setting_words(fmt::format("data.length={}", label.size()));
  }
  return fmt::format("a file's label is its name up to {} (data.label_end), {} characters long (data.length){}", end,
                     labels.length, fix);
}

}  // namespace

std::vector<std::int64_t> label_of(const std::filesystem::path& file, const Labels& labels,
                                   const std::string& characters) {
  const std::string label = label_text(file, labels.label_end);
  const std::vector<std::string> letters = characters_of(label);
  if (std::ssize(letters) != labels.length) {
    throw DataError(fmt::format("{}: its label '{}' has {} characters, not {}", file.string(), label, letters.size(),
                                labels.length),
                    length_hint(letters, labels));
  }
  std::vector<std::int64_t> classes;
  for (const std::string& c : letters) {
    const std::size_t at = c.size() == 1 ? characters.find(c) : std::string::npos;
    if (at == std::string::npos) {
      throw DataError(
          fmt::format("{}: '{}' of its label '{}' is not in the charset {}", file.string(), c, label, labels.charset),
          fmt::format("valid characters are {} (data.charset)", labels.charset));
    }
    classes.push_back(static_cast<std::int64_t>(at));
  }
  return classes;
}

ImageFolderOptions image_options(const Labels& labels) {
  return {.color = ColorMode::kGray, .size = {labels.width, labels.height}};
}

DataError other_size(const std::filesystem::path& file, ImageSize size, const Labels& labels,
                     const std::string& remedy) {
  return DataError(fmt::format("image {} is {} x {} pixels, but the model expects {} x {}", file.string(), size.width,
                               size.height, labels.width, labels.height),
                   fmt::format("{} {} {}", remedy, setting_words(fmt::format("data.width={}", size.width)),
                               setting_words(fmt::format("data.height={}", size.height))));
}

namespace {

/// All images in a set have the same size. If the first file cannot be read, the loader reports it when it reads the
/// file.
void require_size(const std::filesystem::path& file, const Labels& labels) {
  const Result<ImageSize> size = image_size(FileSystem::system().read(file, kMostPictureBytes));
  if (!size || size.value() == ImageSize{labels.width, labels.height}) return;
  throw other_size(file, size.value(), labels, "the model works for one image size only; to use this one, add");
}

}  // namespace

std::shared_ptr<Dataset> open_dataset(const std::filesystem::path& folder, const Labels& labels,
                                      const std::string& characters) {
  const FileList files = list_files(folder);
  auto classes_of = std::make_shared<std::unordered_map<std::string, std::vector<std::int64_t>>>();
  for (const auto& path : files.paths) classes_of->emplace(path.string(), label_of(path, labels, characters));
  require_size(files.paths.front(), labels);
  ImageFolderOptions options = image_options(labels);
  options.target = {.shape = {labels.length},
                    .type = c10::ScalarType::Long,
                    .write = [classes_of](const std::filesystem::path& file, void* out) {
                      const auto& classes = classes_of->at(file.string());
                      std::copy(classes.begin(), classes.end(), static_cast<std::int64_t*>(out));
                    }};
  return std::make_shared<ImageFolder>(files.paths, std::move(options));
}

}  // namespace lockstep::captcha
