// SPDX-License-Identifier: Apache-2.0
// Jobs of several ranks on every backend.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "comm/backends/ucx/ucx.h"

namespace lockstep::testing {

/// Returns true for "ucx" and "shm+ucx".
inline bool is_over_ucx(const std::string& backend) { return backend.find("ucx") != std::string::npos; }

/// Returns the environment variables that choose a backend by its name; "shm+..." is for hosts with several ranks.
inline std::map<std::string, std::string> backend_variables(const std::string& backend) {
  std::map<std::string, std::string> variables{{"LOCKSTEP_BACKEND", backend}};
  if (is_over_ucx(backend)) variables = {{"LOCKSTEP_BACKEND", "tcp"}, {"LOCKSTEP_WIRE", "ucx"}};
  if (backend.rfind("shm+", 0) == 0) variables["LOCKSTEP_BACKEND"] = "auto";
  return variables;
}

/// Returns the last part of a test's name for a backend: shm_ucx in `Suite/Test/shm_ucx`.
inline std::string name_of_backend(const ::testing::TestParamInfo<std::string>& backend) {
  std::string name = backend.param;
  for (char& letter : name) letter = letter == '+' ? '_' : letter;
  return name;
}

}  // namespace lockstep::testing

/// Skips a test over UCX if UCX cannot be loaded.
#define SKIP_WITHOUT_UCX(backend)                                                       \
  if (lockstep::testing::is_over_ucx(backend) && lockstep::comm::ucx_version().empty()) \
  GTEST_SKIP() << "libucp.so.0 cannot be loaded, or the UCX headers were missing at build time"
