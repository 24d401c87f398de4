// SPDX-License-Identifier: Apache-2.0
// The server's response to each request.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dashboard/run_folder.h"
#include "lockstep/http/server.h"

namespace lockstep::dashboard {

/// The page itself is public and has no secret; everything under /api needs the token. Thread-safe.
class Routes {
 public:
  Routes(const std::vector<std::filesystem::path>& runs, std::string token, std::string host);

  /// Returns true if the request has the token and does not come from a foreign page.
  [[nodiscard]] bool is_known(const http::Request& request) const;
  [[nodiscard]] http::Response answer(const http::Request& request);
  /// Ends the streams, which never end on their own.
  void stop() noexcept { stops_ = true; }

 private:
  [[nodiscard]] bool is_named(const http::Request& request) const;
  [[nodiscard]] http::Response answer_api(const http::Request& request);
  [[nodiscard]] http::Response runs() const;
  [[nodiscard]] http::Response verify(const RunFolder& run, const std::string& name);
  [[nodiscard]] http::Response stream();
  [[nodiscard]] std::string moment();

  std::vector<std::unique_ptr<RunFolder>> runs_;
  std::string token_;
  std::string host_;
  std::mutex verifying_;
  std::atomic<bool> stops_ = false;
  std::atomic<int> streams_ = 0;
};

}  // namespace lockstep::dashboard
