// SPDX-License-Identifier: Apache-2.0
#include "common/class_lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::common {

std::string counted_names(std::int64_t classes, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> some(names.begin(),
                                names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  if (some.size() < names.size()) some.emplace_back("...");
  const std::string count = fmt::format("{} {}", classes, classes == 1 ? "class" : "classes");
  return some.empty() ? count : fmt::format("{} ({})", count, text::join(some));
}

void require_same_classes(const std::vector<std::string>& training, const std::vector<std::string>& here,
                          const std::string& path) {
  if (training.empty() || here.empty() || training == here) return;
  const auto [a, b] = std::mismatch(training.begin(), training.end(), here.begin(), here.end());
  throw DataError(
      fmt::format("{} has different classes from those the model was trained on: class {} is {} in the model and {} in "
                  "the data; the model has {}, the data has {}",
                  path, a - training.begin(), a == training.end() ? "none" : *a, b == here.end() ? "none" : *b,
                  counted_names(std::ssize(training), training), counted_names(std::ssize(here), here)),
      "both sets need the same list of classes");
}

void require_same_labels(const std::vector<std::string>& model, const std::vector<std::string>& here,
                         const std::string& path) {
  for (auto name = here.begin(); name != here.end(); ++name) {
    const auto known = std::find(model.begin(), model.end(), *name);
    if (known == model.end() || known - model.begin() == name - here.begin()) continue;
    throw DataError(
        fmt::format("{} numbers its classes differently from the model: {} is class {} in the model and {} in the data",
                    path, *name, known - model.begin(), name - here.begin()),
        fmt::format("the model's classes are {}", text::join(model)));
  }
}

}  // namespace lockstep::common
