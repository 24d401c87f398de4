// SPDX-License-Identifier: Apache-2.0
// A small web server for strangers and owners alike: a request has a size and a deadline, few connections have a place,
// and whoever has proved who he is keeps his. For the live page and /metrics.
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
  std::map<std::string, std::string> values;  ///< the query, decoded; of a name that comes twice, the first
  std::string host;                           ///< the Host header
  std::string origin;                         ///< the Origin header; empty if it is missing
  std::string token;                          ///< of "Authorization: Bearer TOKEN"; empty if it is missing

  /// Returns a value of the query; empty if it is missing.
  [[nodiscard]] std::string value(const std::string& name) const;
};

/// What goes back.
struct Response {
  int status = 200;                                ///< the code
  std::string type = "text/plain; charset=utf-8";  ///< Content-Type
  std::string body = {};                           ///< all of it, where there is no `next`
  /// Returns the next piece of a body that goes on; an empty one ends it. It may wait, in a thread of its own.
  std::function<std::string()> next = {};
  std::map<std::string, std::string> headers = {};  ///< instead of the server's of the same names, beside the others
};

/// Where to listen, and what to answer.
struct ServerOptions {
  std::string host = "127.0.0.1";                                 ///< an address of this machine, or a name of one
  int port = 0;                                                   ///< 0: any free port
  std::string next_step = "choose another port";                  ///< what an error about the port says to do
  std::size_t places = 32;                                        ///< connections of those who are not known
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< with each response
  /// Whether the request proves who sent it: his connection then keeps its place. Called in threads of the server.
  std::function<bool(const Request&)> is_known = {};
  /// Makes the response, in a thread of the connection. What it throws becomes the status 500.
  std::function<Response(const Request&)> answer = {};
};

/// Serves from construction to destruction, in threads of its own, one a connection. It sleeps while nobody asks.
///
/// A request's head has 16 KB and 5 s; a body is refused. Where all places are taken, the newest connection gets that
/// of the oldest that is not known: who is silent keeps nobody out. Ranges are not served.
///
/// Thread-safe: no.
/// Throws:      UsageError where the port is taken or the address is not this machine's.
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

/// Returns TOKEN of "Bearer TOKEN", an Authorization header; empty where it is another.
[[nodiscard]] std::string_view bearer_token(std::string_view header);

}  // namespace lockstep::http

#pragma GCC visibility pop
