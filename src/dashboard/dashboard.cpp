// SPDX-License-Identifier: Apache-2.0
#include "lockstep/dashboard/dashboard.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <thread>

#include "dashboard/access.h"
#include "dashboard/assets.h"
#include "dashboard/routes.h"
#include "lockstep/base/error.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/store/port_holder.h"

namespace lockstep::dashboard {
namespace {

constexpr std::size_t kThreads = 20;
constexpr std::time_t kPatience = 5;
constexpr std::size_t kLargestBody = 4096;

}  // namespace

class Dashboard::Impl {
 public:
  Impl(const DashboardOptions& options, const std::string& token) : routes_(options.runs, token, options.host) {
    // The library shares a port with other processes by default, so that each answers some of the requests.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_keep_alive_timeout(kPatience);
    server_.set_payload_max_length(kLargestBody);
    server_.set_tcp_nodelay(true);
    routes_.add_to(server_, port_);
    port_ = bound_port(options);
    const SignalGuard guard;  // the main thread takes the signals
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }

  ~Impl() {
    routes_.stop();
    server_.stop();
    thread_.join();
  }

  [[nodiscard]] int port() const { return port_; }

 private:
  int bound_port(const DashboardOptions& options) {
    const int port = options.port == 0                                  ? server_.bind_to_any_port(options.host)
                     : server_.bind_to_port(options.host, options.port) ? options.port
                                                                        : -1;
    if (port > 0) return port;
    const std::string holder = port_holder(static_cast<std::uint16_t>(options.port));
    throw UsageError(fmt::format("cannot listen on {}:{}: {} has the port, or this machine does not have the address",
                                 options.host, options.port, holder.empty() ? "another program" : holder),
                     "choose another port; 0 takes any that is free");
  }

  Routes routes_;
  int port_ = 0;
  httplib::Server server_;
  std::thread thread_;
};

Dashboard::Dashboard(const DashboardOptions& options) {
  const std::string token = options.token.empty() ? new_token() : options.token;
  impl_ = std::make_unique<Impl>(options, token);
  const bool is_ipv6 = options.host.find(':') != std::string::npos;
  url_ = fmt::format("http://{}:{}/?token={}", is_ipv6 ? "[" + options.host + "]" : options.host, impl_->port(), token);
}

Dashboard::~Dashboard() = default;

int Dashboard::port() const noexcept { return impl_->port(); }

bool has_page() { return !assets().empty(); }

}  // namespace lockstep::dashboard
