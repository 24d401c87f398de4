// SPDX-License-Identifier: Apache-2.0
// Jobs of several ranks over every kind of connection.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "comm/backends/ucx/ucx.h"

namespace lockstep::testing {

/// Returns true for "ucx" and "shm+ucx".
inline bool is_over_ucx(const std::string& backend) { return backend.find("ucx") != std::string::npos; }

/// Returns the variables that choose a backend by its name; "shm+...": for hosts of several ranks.
inline std::map<std::string, std::string> backend_variables(const std::string& backend) {
  std::map<std::string, std::string> variables{{"LOCKSTEP_BACKEND", backend}};
  if (is_over_ucx(backend)) variables = {{"LOCKSTEP_BACKEND", "tcp"}, {"LOCKSTEP_WIRE", "ucx"}};
  if (backend.rfind("shm+", 0) == 0) variables["LOCKSTEP_BACKEND"] = "auto";
  return variables;
}

/// Returns `Suite/Test/shm_ucx`'s last part for a backend.
inline std::string name_of_backend(const ::testing::TestParamInfo<std::string>& backend) {
  std::string name = backend.param;
  for (char& letter : name) letter = letter == '+' ? '_' : letter;
  return name;
}

}  // namespace lockstep::testing

/// Ends a test over UCX if UCX cannot be loaded.
#define SKIP_WITHOUT_UCX(backend)                                                       \
  if (lockstep::testing::is_over_ucx(backend) && lockstep::comm::ucx_version().empty()) \
  GTEST_SKIP() << "libucp.so.0 cannot be loaded, or the build had no headers of UCX"
