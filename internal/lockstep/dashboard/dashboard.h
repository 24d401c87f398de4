// SPDX-License-Identifier: Apache-2.0
// The live page of runs: a small web server that reads run folders and flight rings, and shows them to clients with its
// token.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::dashboard {

/// The runs on the page, and its address.
struct DashboardOptions {
  std::vector<std::filesystem::path> runs;  ///< run folders, or folders of logs; they may still be missing
  std::string host = "127.0.0.1";           ///< the address to listen at
  int port = 0;                             ///< 0: any free port
  std::string token = {};                   ///< a browser with it sees the page; empty: a random one
};

/// Serves the page on its own threads from construction to destruction. It only reads, and sleeps between requests.
///
/// Thread-safe: no.
/// Throws:      UsageError if the port is taken or the address is not this machine's.
class Dashboard {
 public:
  /// Starts to serve.
  explicit Dashboard(const DashboardOptions& options);
  ~Dashboard();  ///< Ends all connections.
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  /// Returns the address of the page with the token: "http://127.0.0.1:41234/#token=...".
  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  /// Returns the port.
  [[nodiscard]] int port() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::string url_;
};

/// Returns true if the program was built with npm and so has the page; without it a plain page explains how to build
/// it.
[[nodiscard]] bool has_page();

}  // namespace lockstep::dashboard

#pragma GCC visibility pop
