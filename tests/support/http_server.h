// SPDX-License-Identifier: Apache-2.0
// A server on loopback that sends a test's responses, one request per connection.
#pragma once

#include <fmt/format.h>

#include <asio.hpp>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

struct HttpAnswer {
  std::string bytes;        ///< headers and body, as sent
  bool stays_open = false;  ///< true: the connection stays open, without further bytes, until the server ends
};

/// The value of a request header; "" if it is missing.
inline std::string header_of(const std::string& request, const std::string& name) {
  const std::size_t begin = request.find("\r\n" + name + ": ");
  if (begin == std::string::npos) return "";
  const std::size_t value = begin + name.size() + 4;
  return request.substr(value, request.find("\r\n", value) - value);
}

/// Builds a response. `headers`: each with its line end.
inline HttpAnswer http_answer(const std::string& status, const std::string& headers, const std::string& body) {
  return {fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", status, headers,
                      body.size(), body)};
}

class HttpServer {
 public:
  /// Called on the server's thread for each request (the lines up to the empty one), numbered from 0.
  using Handler = std::function<HttpAnswer(const std::string& request, std::size_t number)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)), thread_([this] { run(); }) {}
  ~HttpServer() {
    ending_ = true;
    asio::error_code ignored;
    asio::ip::tcp::socket(context_).connect(acceptor_.local_endpoint(), ignored);  // wakes accept()
    thread_.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string url(const std::string& path) const { return fmt::format("http://{}{}", host(), path); }
  [[nodiscard]] std::string host() const { return fmt::format("127.0.0.1:{}", acceptor_.local_endpoint().port()); }
  [[nodiscard]] std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void run() {
    while (true) {
      asio::ip::tcp::socket socket = acceptor_.accept();
      if (ending_) return;
      asio::error_code gone;  // the client may disconnect early
      std::string request;
      asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", gone);
      if (gone) continue;
      const HttpAnswer answer = handler_(request, note(request));
      asio::write(socket, asio::buffer(answer.bytes), gone);
      if (answer.stays_open) open_.push_back(std::move(socket));
    }
  }

  std::size_t note(const std::string& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    return requests_.size() - 1;
  }

  Handler handler_;
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
  std::vector<asio::ip::tcp::socket> open_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;  // the last member: it uses all members above
};

}  // namespace lockstep::test
