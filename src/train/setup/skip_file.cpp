// SPDX-License-Identifier: Apache-2.0
#include "train/setup/skip_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/split.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

constexpr std::uint64_t kMostBytes = 64U << 20U;

using Lines = std::multimap<std::string, std::int64_t>;

/// Returns the lines that name a sample, with their line numbers.
Lines wanted_in(const std::filesystem::path& file) {
  Lines wanted;
  std::int64_t number = 0;
  for (std::string line : text::split(FileSystem::system().read(file, kMostBytes), '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) wanted.emplace(std::move(line), number);
  }
  return wanted;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const Lines::value_type& line, const Dataset& dataset) {
  std::vector<std::string> names;
  for (std::int64_t index = 0; index < dataset.size(); ++index) names.push_back(dataset.describe(index));
  throw DataError(
      fmt::format("{}:{}: data.train has no sample '{}'{}", file.string(), line.second, line.first,
                  text::did_you_mean(line.first, names)),
      fmt::format("each line must be a sample's name, such as {}", names.empty() ? "data/a.png" : names.front()));
}

}  // namespace

std::vector<std::int64_t> read_skip_file(const std::filesystem::path& file, const Dataset& dataset) {
  const Lines wanted = wanted_in(file);
  Lines unknown = wanted;
  std::vector<std::int64_t> indices;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const std::string name = dataset.describe(index);
    if (!wanted.contains(name)) continue;
    indices.push_back(index);
    unknown.erase(name);
  }
  const auto first = std::min_element(unknown.begin(), unknown.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (first != unknown.end()) refuse(file, *first, dataset);
  return indices;
}

}  // namespace lockstep::train
