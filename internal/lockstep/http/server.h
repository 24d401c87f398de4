// SPDX-License-Identifier: Apache-2.0
// A small web server for the live page and /metrics. A request has a size limit and a deadline, and the number of
// connections is limited. A connection of a known client is never closed for a new connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::http {

/// A request without a body.
struct Request {
  std::string method;                         ///< "GET" (also for HEAD), "POST"
  std::string path;                           ///< decoded: "/api/run/0/state"
  std::map<std::string, std::string> values;  ///< the query, decoded; a repeated name keeps its first value
  std::string host;                           ///< the Host header
  std::string origin;                         ///< the Origin header; empty if it is missing
  std::string token;                          ///< TOKEN of "Authorization: Bearer TOKEN"; empty if it is missing

  /// Returns a value of the query; empty if it is missing.
  [[nodiscard]] std::string value(const std::string& name) const;
};

/// The response to a request.
struct Response {
  int status = 200;                                ///< HTTP status code
  std::string type = "text/plain; charset=utf-8";  ///< Content-Type
  std::string body = {};                           ///< the whole body, unless `next` is set
  /// Returns the next piece of a body of unknown length; an empty piece ends the body. It may block, because each
  /// connection has its own thread.
  std::function<std::string()> next = {};
  std::map<std::string, std::string> headers = {};  ///< more headers; they replace the server's of the same name
};

/// The address of a server, and its handlers.
struct ServerOptions {
  std::string host = "127.0.0.1";                 ///< an address of this machine, or a name that resolves to one
  int port = 0;                                   ///< 0: any free port
  std::string next_step = "choose another port";  ///< advice in errors about the port
  std::size_t places = 32;                        ///< limit on connections from unknown clients
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< headers for each response
  /// Returns true if the request proves that its client is known. Called on the server's threads.
  std::function<bool(const Request&)> is_known = {};
  /// Creates the response, on the connection's thread. An exception produces status 500.
  std::function<Response(const Request&)> answer = {};
};

/// Serves from construction to destruction, with one thread per connection. It sleeps between requests.
///
/// The head of a request may be 16 KB long and take 5 s; a body is rejected. Once ServerOptions::places connections of
/// unknown clients are open, a new connection replaces the oldest of them, so silent clients cannot block others. Range
/// requests are not supported.
///
/// Thread-safe: no.
/// Throws: UsageError if the port is taken or the address does not belong to this machine.
class Server {
 public:
  /// Starts listening.
  explicit Server(ServerOptions options);
  ~Server();  ///< Ends all connections, and waits for running calls to ServerOptions::answer.
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns the port.
  [[nodiscard]] int port() const noexcept;
  /// Returns "http://host:port", with brackets around an IPv6 address.
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::string url_;
};

/// Returns TOKEN of the Authorization header "Bearer TOKEN"; empty if the header has a different form.
[[nodiscard]] std::string_view bearer_token(std::string_view header);

}  // namespace lockstep::http

#pragma GCC visibility pop
