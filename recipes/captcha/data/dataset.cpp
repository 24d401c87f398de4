// SPDX-License-Identifier: Apache-2.0
#include "captcha/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "lockstep/base/error.h"

namespace lockstep::captcha {
namespace {

std::string label_text(const std::filesystem::path& file, const std::string& label_end) {
  const std::string stem = file.stem().string();
  return label_end.empty() ? stem : stem.substr(0, stem.find(label_end));
}

}  // namespace

std::vector<std::int64_t> label_of(const std::filesystem::path& file, const Labels& labels,
                                   const std::string& characters) {
  const std::string label = label_text(file, labels.label_end);
  if (static_cast<std::int64_t>(label.size()) != labels.length) {
    throw DataError(
        fmt::format("{}: its label '{}' has {} characters, not {}", file.string(), label, label.size(), labels.length),
        "see data.length and data.label_end");
  }
  std::vector<std::int64_t> classes;
  for (const char c : label) {
    const std::size_t at = characters.find(c);
    if (at == std::string::npos) {
      throw DataError(
          fmt::format("{}: '{}' of its label '{}' is not in the charset {}", file.string(), c, label, labels.charset),
          "see data.charset");
    }
    classes.push_back(static_cast<std::int64_t>(at));
  }
  return classes;
}

ImageFolderOptions image_options(const Labels& labels) {
  return {.color = ColorMode::kGray, .size = {labels.width, labels.height}};
}

std::shared_ptr<Dataset> open_dataset(const std::filesystem::path& folder, const Labels& labels,
                                      const std::string& characters) {
  const FileList files = list_files(folder);
  auto classes_of = std::make_shared<std::unordered_map<std::string, std::vector<std::int64_t>>>();
  for (const auto& path : files.paths) classes_of->emplace(path.string(), label_of(path, labels, characters));
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
