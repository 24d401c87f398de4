// SPDX-License-Identifier: Apache-2.0
// A small web server for strangers and owners alike: a request has a size limit and a deadline, few connections have a
// place, and a client that has proved who it is keeps its place. For the live page and /metrics.
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
  std::map<std::string, std::string> values;  ///< the query, decoded; only the first value of a repeated name
  std::string host;                           ///< the Host header
  std::string origin;                         ///< the Origin header; empty if it is missing
  std::string token;                          ///< of "Authorization: Bearer TOKEN"; empty if it is missing

  /// Returns a value of the query; empty if it is missing.
  [[nodiscard]] std::string value(const std::string& name) const;
};

/// The response to a request.
struct Response {
  int status = 200;                                ///< the code
  std::string type = "text/plain; charset=utf-8";  ///< Content-Type
  std::string body = {};                           ///< the whole body, unless there is a `next`
  /// Returns the next piece of a body of unknown length; an empty piece ends it. It may block: it runs in its own
  /// thread.
  std::function<std::string()> next = {};
  std::map<std::string, std::string> headers = {};  ///< added to the server's; replace those of the same names
};

/// The address of a server, and the functions that answer.
struct ServerOptions {
  std::string host = "127.0.0.1";                                 ///< an address of this machine, or a name of one
  int port = 0;                                                   ///< 0: any free port
  std::string next_step = "choose another port";                  ///< advice in errors about the port
  std::size_t places = 32;                                        ///< connections of unknown clients
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< with each response
  /// True if the request proves its sender, whose connection then keeps its place. Called in threads of the server.
  std::function<bool(const Request&)> is_known = {};
  /// Makes the response, in a thread of the connection. An exception becomes the status 500.
  std::function<Response(const Request&)> answer = {};
};

/// Serves from construction to destruction, with a thread a connection. It sleeps between requests.
///
/// A request's head has 16 KB and 5 s; a body is refused. If all places are taken, the newest connection gets the
/// place of the oldest unknown client, so silent clients keep none out. Ranges are not served.
///
/// Thread-safe: no.
/// Throws: UsageError if the port is taken or the address is not this machine's.
class Server {
 public:
  /// Starts to listen.
  explicit Server(ServerOptions options);
  ~Server();  ///< Ends all connections; waits for answers that are being made.
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

/// Returns TOKEN of "Bearer TOKEN", an Authorization header; empty if the header is another.
[[nodiscard]] std::string_view bearer_token(std::string_view header);

}  // namespace lockstep::http

#pragma GCC visibility pop
