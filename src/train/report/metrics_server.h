// SPDX-License-Identifier: Apache-2.0
// A small web server with one page, in threads of its own. It knows nothing of runs.
#pragma once

#include <functional>
#include <string>

#include "lockstep/http/server.h"
#include "train/settings/metrics_address.h"

namespace lockstep::train {

/// Serves GET /metrics until it is destroyed.
class MetricsServer {
 public:
  /// `page` makes the page; it is called in a thread of the server. Throws: UsageError where the address is taken or is
  /// none of this machine.
  MetricsServer(const ServerAddress& address, std::function<std::string()> page);

  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  http::Server server_;
  std::string url_;
};

}  // namespace lockstep::train
