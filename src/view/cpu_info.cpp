// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/view/banner.h"

namespace lockstep::view {

std::string parse_cpu_name(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    std::istringstream words(line.substr(colon + 1));  // some vendors pad with spaces
    std::string name;
    for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
    if (!name.empty()) return name;
  }
  return "CPU";
}

CpuInfo cpu_info() {
  try {
    return {parse_cpu_name(FileSystem::system().read("/proc/cpuinfo")), usable_cpus()};
  } catch (const Error&) {  // the banner then lacks the name
    return {"CPU", usable_cpus()};
  }
}

}  // namespace lockstep::view
