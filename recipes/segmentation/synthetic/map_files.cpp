// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/map_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::segmentation {
void run_indices(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& work,
                 const WriteProgress& progress) {
  common::run_indices({.count = count, .threads = threads, .make_worker = [&] { return work; }, .progress = progress});
  if (progress) progress(count, count);
}

void write_map(const Image& image, const std::filesystem::path& file) {
  common::write_set_picture(view_of(image), file);
}

void make_empty_folder(const std::filesystem::path& folder) {
  std::error_code fault;
  if (std::filesystem::exists(folder, fault) && !std::filesystem::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is no folder", folder.string()));
  }
  if (const auto names = FileSystem::system().list(folder); !names.empty()) {
    throw UsageError(fmt::format("folder {} is not empty: it holds {}", folder.string(), names.front()),
                     "give another folder, or empty it first");
  }
  FileSystem::system().make_folder(folder);
}

}  // namespace lockstep::segmentation
