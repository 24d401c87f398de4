// SPDX-License-Identifier: Apache-2.0
#include "lockstep/doctor/worker_libraries.h"

#include <filesystem>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/launch/child.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

std::string loaded_by_worker() {
  constexpr auto kTimeToTrace = std::chrono::seconds(5);
  const fs::path worker = fs::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker";
  if (!fs::exists(worker)) return "";
  try {
    return run_child({"/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", worker.string()}, kTimeToTrace).out;
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

nccl::Search search_in(const std::string& loaded) {
  std::vector<std::string> files;
  std::istringstream lines(loaded);
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find("=> /");
    const auto end = line.rfind(" (0x");
    if (arrow != std::string::npos && end != std::string::npos)
      files.push_back(line.substr(arrow + 3, end - arrow - 3));
  }
  return nccl::search_among(files);
}

nccl::Search search_of_worker() {
  nccl::Search search = search_in(loaded_by_worker());
  search.named = nccl::named_by_user();
  return search;
}

}  // namespace lockstep::apps
