// SPDX-License-Identifier: Apache-2.0
// A Python whose PyTorch version matches this build's libtorch: a 2.x client cannot join the store of torchrun 1.13.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "support/shell.h"

namespace lockstep::testing {

/// The active environment's Python, or the system's; "" if neither has that version.
inline std::string python_of_this_torch() {
  const std::string version = LOCKSTEP_TEST_TORCH_VERSION;
  const std::string minor = version.substr(0, version.rfind('.') + 1);
  const char* environment = std::getenv("VIRTUAL_ENV");
  const std::string of_environment = environment == nullptr ? "" : std::string(environment) + "/bin/python3";
  for (const std::string& python : {of_environment, std::string("/usr/bin/python3")}) {
    const std::string script =
        fmt::format("import sys, torch.distributed.run; sys.exit(not torch.__version__.startswith(\"{}\"))", minor);
    if (!python.empty() && run_shell(fmt::format("'{}' -c '{}'", python, script)).code == 0) return python;
  }
  return "";
}

}  // namespace lockstep::testing
