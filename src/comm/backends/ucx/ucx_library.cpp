// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/ucx/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <vector>

#include "lockstep/base/env.h"

namespace lockstep::comm {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

// UCX reads these when it is loaded. Without them it would print lines of its own, and handle the signals of a crash
// and SIGHUP itself.
constexpr std::array kQuiet = {Variable{"UCX_LOG_LEVEL", "fatal"}, Variable{"UCX_HANDLE_ERRORS", "none"},
                               Variable{"UCX_ERROR_SIGNALS", ""}, Variable{"UCX_DEBUG_SIGNO", "0"}};

/// While it lives, sets the variables that the user has not set. Programs that this one starts choose for themselves.
class QuietVariables {
 public:
  QuietVariables() {
    for (const Variable& variable : kQuiet) {
      if (env::get(variable.name)) continue;
      ::setenv(variable.name, variable.value, 1);  // NOLINT(concurrency-mt-unsafe)
      set_.push_back(variable.name);
    }
  }
  ~QuietVariables() {
    for (const char* name : set_) ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  QuietVariables(const QuietVariables&) = delete;
  QuietVariables& operator=(const QuietVariables&) = delete;

 private:
  std::vector<const char*> set_;
};

/// Finds functions and remembers the first missing one.
class Finder {
 public:
  Finder(void* library, std::string& problem) : library_(library), problem_(problem) {}

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && problem_.empty()) problem_ = fmt::format("libucp.so.0 has no {}", name);
  }

 private:
  void* library_;
  std::string& problem_;
};

void find_worker_functions(Finder& finder, Ucp& ucp) {
  finder.find(ucp.worker_create, "ucp_worker_create");
  finder.find(ucp.worker_destroy, "ucp_worker_destroy");
  finder.find(ucp.worker_get_address, "ucp_worker_get_address");
  finder.find(ucp.worker_release_address, "ucp_worker_release_address");
  finder.find(ucp.worker_get_efd, "ucp_worker_get_efd");
  finder.find(ucp.worker_arm, "ucp_worker_arm");
  finder.find(ucp.worker_signal, "ucp_worker_signal");
  finder.find(ucp.worker_progress, "ucp_worker_progress");
}

void find_functions(Finder finder, Ucp& ucp) {
  finder.find(ucp.get_version, "ucp_get_version");
  finder.find(ucp.status_string, "ucs_status_string");
  finder.find(ucp.config_read, "ucp_config_read");
  finder.find(ucp.config_modify, "ucp_config_modify");
  finder.find(ucp.config_release, "ucp_config_release");
  finder.find(ucp.init_version, "ucp_init_version");
  finder.find(ucp.cleanup, "ucp_cleanup");
  find_worker_functions(finder, ucp);
  finder.find(ucp.ep_create, "ucp_ep_create");
  finder.find(ucp.ep_close_nbx, "ucp_ep_close_nbx");
  finder.find(ucp.tag_send_nbx, "ucp_tag_send_nbx");
  finder.find(ucp.tag_recv_nbx, "ucp_tag_recv_nbx");
  finder.find(ucp.request_cancel, "ucp_request_cancel");
  finder.find(ucp.request_check_status, "ucp_request_check_status");
  finder.find(ucp.request_free, "ucp_request_free");
}

UcxLibrary load() {
  UcxLibrary library;
  const QuietVariables quiet;
  void* handle = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();  // glibc's is per thread
    library.problem = why != nullptr ? why : "libucp.so.0 cannot be loaded";
    return library;
  }
  find_functions(Finder(handle, library.problem), library.functions);
  return library;
}

}  // namespace

const UcxLibrary& ucx_library() {
  static const UcxLibrary library = load();
  return library;
}

}  // namespace lockstep::comm
