// SPDX-License-Identifier: Apache-2.0
// UCX's functions, from a library that is loaded on first use. Private to this folder.
#pragma once

#include <string>

#include <ucp/api/ucp.h>

namespace lockstep::comm {

/// The UCX functions that Lockstep calls, without the prefix.
struct Ucp {
  decltype(&::ucp_get_version) get_version = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_signal) worker_signal = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&::ucp_tag_recv_nbx) tag_recv_nbx = nullptr;
  decltype(&::ucp_request_cancel) request_cancel = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
};

struct UcxLibrary {
  Ucp functions;
  std::string problem;            ///< reason why UCX cannot be used; empty if it can
  bool takes_full_names = false;  ///< the name of a transport's setting begins with the transport
};

/// Loads the library on the first call. It is never unloaded. Thread-safe: yes.
[[nodiscard]] const UcxLibrary& ucx_library();

}  // namespace lockstep::comm
