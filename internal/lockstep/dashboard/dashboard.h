// SPDX-License-Identifier: Apache-2.0
// The live page for runs: a small web server that reads run folders and flight rings and serves clients that have its
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
  std::vector<std::filesystem::path> runs;  ///< run folders, or their log folders; they may not exist yet
  std::string host = "127.0.0.1";           ///< the address to listen on
  int port = 0;                             ///< the port to listen on; 0: any free port
  std::string token = {};                   ///< the secret that lets a browser see the page; empty: a random token
};

/// Serves the page on its own threads from construction to destruction. It only reads, and sleeps between requests.
///
/// Thread-safe: no.
/// Throws:      UsageError if the port is in use or the address does not belong to this machine.
class Dashboard {
 public:
  /// Starts serving.
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

/// Returns true if the build included the page, which needs npm; otherwise a plain page explains how to build it.
[[nodiscard]] bool has_page();

}  // namespace lockstep::dashboard

#pragma GCC visibility pop
