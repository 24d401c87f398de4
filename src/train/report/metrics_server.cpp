// SPDX-License-Identifier: Apache-2.0
#include "train/report/metrics_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/store/port_holder.h"

namespace lockstep::train {
namespace {

bool is_ipv6(const std::string& host) { return host.find(':') != std::string::npos; }

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const ServerAddress& address, std::function<std::string()> page) {
    // The library shares a port with other processes by default, so that each answers some of the requests.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    constexpr std::size_t kThreads = 2;  // a client that is slow does not keep the other from its page
    constexpr std::time_t kPatience = 2;
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.Get("/metrics", [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
      response.set_content(page(), "text/plain; version=0.0.4; charset=utf-8");
    });
    port_ = bound_port(address);
    const SignalGuard guard;  // the training thread takes the signals
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }

  ~Impl() {
    server_.stop();
    thread_.join();
  }

  [[nodiscard]] int port() const { return port_; }

 private:
  int bound_port(const ServerAddress& address) {
    const int port = address.port == 0                                  ? server_.bind_to_any_port(address.host)
                     : server_.bind_to_port(address.host, address.port) ? address.port
                                                                        : -1;
    if (port > 0) return port;
    const std::string holder = port_holder(static_cast<std::uint16_t>(address.port));
    throw UsageError(fmt::format("cannot listen on {}:{}: {} has the port, or this machine does not have the address",
                                 address.host, address.port, holder.empty() ? "another program" : holder),
                     "choose another port with --metrics PORT; 0 takes any that is free");
  }

  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

MetricsServer::MetricsServer(const ServerAddress& address, std::function<std::string()> page)
    : impl_(std::make_unique<Impl>(address, std::move(page))),
      url_(fmt::format("http://{}:{}/metrics", is_ipv6(address.host) ? "[" + address.host + "]" : address.host,
                       impl_->port())) {}

MetricsServer::~MetricsServer() = default;

}  // namespace lockstep::train
