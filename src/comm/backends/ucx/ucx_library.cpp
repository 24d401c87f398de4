// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/ucx/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <cstdarg>
#include <string>
#include <vector>

#include "lockstep/base/env.h"
#include "lockstep/base/function_finder.h"

namespace lockstep::comm {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

// UCX reads these when it is loaded. Without them it would print its own lines, and handle SIGHUP and crash signals.
constexpr std::array kQuiet = {Variable{"UCX_LOG_LEVEL", "fatal"}, Variable{"UCX_HANDLE_ERRORS", "none"},
                               Variable{"UCX_ERROR_SIGNALS", ""}, Variable{"UCX_DEBUG_SIGNO", "0"}};

/// For its lifetime, sets the variables that the user has not set. Programs started later do not inherit them.
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

void find_worker_functions(FunctionFinder& finder, Ucp& ucp) {
  finder.set(ucp.worker_create, "ucp_worker_create");
  finder.set(ucp.worker_destroy, "ucp_worker_destroy");
  finder.set(ucp.worker_get_address, "ucp_worker_get_address");
  finder.set(ucp.worker_release_address, "ucp_worker_release_address");
  finder.set(ucp.worker_get_efd, "ucp_worker_get_efd");
  finder.set(ucp.worker_arm, "ucp_worker_arm");
  finder.set(ucp.worker_signal, "ucp_worker_signal");
  finder.set(ucp.worker_progress, "ucp_worker_progress");
}

/// A handler of UCX's log: drops all but fatal errors. The parameters and values are those of ucs/debug/log_def.h.
int ucs_log_fatal_only(const char* /*file*/, unsigned /*line*/, const char* /*function*/, int level,
                       const void* /*component*/, const char* /*format*/, va_list /*arguments*/) {
  constexpr int kFatal = 0;
  constexpr int kDrop = 0;
  constexpr int kGoOn = 1;
  return level == kFatal ? kGoOn : kDrop;
}

/// Silences a UCX that libtorch loaded before UCX_LOG_LEVEL was set, as on Debian 13, whose libtorch needs MPI.
void silence(void* library) {
  using Push = void (*)(decltype(&ucs_log_fatal_only));
  if (env::get("UCX_LOG_LEVEL")) return;
  const auto push = reinterpret_cast<Push>(::dlsym(library, "ucs_log_push_handler"));
  if (push != nullptr) push(&ucs_log_fatal_only);
}

/// Returns the name of the first function that is missing; empty if all are present.
std::string find_functions(void* library, Ucp& ucp) {
  FunctionFinder finder(library);
  finder.set(ucp.get_version, "ucp_get_version");
  finder.set(ucp.status_string, "ucs_status_string");
  finder.set(ucp.config_read, "ucp_config_read");
  finder.set(ucp.config_modify, "ucp_config_modify");
  finder.set(ucp.config_release, "ucp_config_release");
  finder.set(ucp.init_version, "ucp_init_version");
  finder.set(ucp.cleanup, "ucp_cleanup");
  find_worker_functions(finder, ucp);
  finder.set(ucp.ep_create, "ucp_ep_create");
  finder.set(ucp.ep_close_nbx, "ucp_ep_close_nbx");
  finder.set(ucp.tag_send_nbx, "ucp_tag_send_nbx");
  finder.set(ucp.tag_recv_nbx, "ucp_tag_recv_nbx");
  finder.set(ucp.request_cancel, "ucp_request_cancel");
  finder.set(ucp.request_check_status, "ucp_request_check_status");
  finder.set(ucp.request_free, "ucp_request_free");
  return finder.missing();
}

/// UCX 1.17 and later recognize UCX_TCP_CONN_NB as TCP_CONN_NB, earlier ones only as CONN_NB.
bool takes_full_names(const Ucp& ucp) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp.get_version(&major, &minor, &release);
  return major > 1 || minor >= 17;
}

UcxLibrary load() {
  UcxLibrary library;
  const QuietVariables quiet;
  void* handle = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();  // per thread in glibc
    library.problem = why != nullptr ? why : "libucp.so.0 cannot be loaded";
    return library;
  }
  const std::string missing = find_functions(handle, library.functions);
  if (!missing.empty()) library.problem = fmt::format("libucp.so.0 has no function {}", missing);
  if (missing.empty()) library.takes_full_names = takes_full_names(library.functions);
  silence(handle);
  return library;
}

}  // namespace

const UcxLibrary& ucx_library() {
  static const UcxLibrary library = load();
  return library;
}

}  // namespace lockstep::comm
