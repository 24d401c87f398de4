// SPDX-License-Identifier: Apache-2.0
// What the server answers to each request.
#pragma once

#include <httplib.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dashboard/run_folder.h"

namespace lockstep::dashboard {

class Routes {
 public:
  Routes(const std::vector<std::filesystem::path>& runs, std::string token, std::string host);

  /// Adds the answers to `server`. `port` is known only once it listens.
  void add_to(httplib::Server& server, const int& port);
  /// Has the streams end, which would go on for ever.
  void stop() noexcept { stops_ = true; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  [[nodiscard]] bool admits(const Request& request, Response& response, int port) const;
  void add_pages(httplib::Server& server);
  void add_run_pages(httplib::Server& server);
  void add_actions(httplib::Server& server);
  void stream(Response& response);
  [[nodiscard]] std::string moment();
  [[nodiscard]] RunFolder* run_of(const Request& request, Response& response);

  std::vector<std::unique_ptr<RunFolder>> runs_;
  std::string token_;
  std::string host_;
  std::mutex verifying_;
  std::atomic<bool> stops_ = false;
  std::atomic<int> streams_ = 0;
};

}  // namespace lockstep::dashboard
