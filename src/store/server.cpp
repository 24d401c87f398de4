// SPDX-License-Identifier: Apache-2.0
// The store's server: one thread, and an object for each client's connection. It keeps track of waits, so clients need
// not poll.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <asio.hpp>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/port_holder.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/store.h"
#include "lockstep/store/strangers.h"
#include "lockstep/store/trusted_network.h"
#include "store/connection.h"
#include "store/inner_door.h"
#include "store/server_state.h"
#include "store/socket.h"

namespace lockstep {
namespace {

using asio::ip::tcp;
using store::Connection;
using store::say;

// The number of connections to accept before existing connections are served again.
constexpr int kAcceptedAtOnce = 16;
constexpr auto kOwnConnect = std::chrono::milliseconds(100);

// Raises the limit on open files and returns limits that leave descriptors for the rest of the process.
store::DoorLimits use_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return store::door_limits(0);
  constexpr rlim_t kPlenty = 65'536;
  const rlim_t wanted = std::max(limit.rlim_cur, std::min(limit.rlim_max, kPlenty));
  const rlimit raised{wanted, limit.rlim_max};
  if (wanted != limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return store::door_limits(limit.rlim_cur);
}

// Sets close-on-exec, so that programs started by this process do not keep the port or connections open.
void close_on_exec(int socket) { (void)::fcntl(socket, F_SETFD, FD_CLOEXEC); }

tcp::acceptor listen(asio::io_context& io, const StoreServer::Options& options) {
  std::error_code problem;
  const auto found =
      tcp::resolver(io).resolve(options.host, std::to_string(options.port), tcp::resolver::passive, problem);
  if (problem) {
    throw UsageError(fmt::format("the store's host '{}' cannot be resolved ({})", options.host, problem.message()),
                     "use a host name or address of this machine");
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol());
  close_on_exec(acceptor.native_handle());
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind(endpoint, problem);
  if (!problem) acceptor.listen(asio::socket_base::max_listen_connections, problem);
  acceptor.non_blocking(true);
  if (problem == asio::error::address_in_use) {
    const std::string holder = port_holder(options.port);
    throw UsageError(fmt::format("{}:{} is already in use{}", options.host, options.port,
                                 holder.empty() ? "" : fmt::format(" by {}", holder)),
                     "choose another port (--master-port, MASTER_PORT), or stop the program that listens there");
  }
  if (problem.value() == EADDRNOTAVAIL) {
    throw UsageError(fmt::format("cannot listen on {}:{}: the address does not belong to this machine ({})",
                                 options.host, options.port, problem.message()),
                     "use an address of this machine; ip -br address lists them");
  }
  if (problem) {
    throw UsageError(fmt::format("cannot listen on {}:{} ({})", options.host, options.port, problem.message()),
                     "use an address of this machine and a port that you may listen on");
  }
  return acceptor;
}

// Throws if the loopback interface is down: clients in this process would not notice that ranks cannot connect.
void require_loopback(const std::string& host, std::uint16_t port) {
  if (lockstep::is_loopback(host)) (void)store::Socket::connect(host, port, AwakeClock::instance().now() + kOwnConnect);
}

}  // namespace

class StoreServer::Impl {
 public:
  explicit Impl(const Options& options)
      : state_(io_, options, use_file_limit()),
        acceptor_(listen(io_, options)),
        retry_(io_),
        port_(acceptor_.local_endpoint().port()),
        door_(std::make_shared<StoreDoor>([this](UniqueFd socket) { admit(std::move(socket)); })) {
    require_loopback(options.host, port_);
    accept();
    thread_ = start_thread("that serves the store", [this] { run(); });
  }

  ~Impl() {
    door_->close();
    io_.stop();
    thread_.join();
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::shared_ptr<StoreDoor> door() const noexcept { return door_; }

  void remove_all(const std::string& prefix) {
    asio::post(io_, [this, prefix] { state_.table.remove_all(prefix); });
  }

 private:
  void run() noexcept {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& problem) {
        say(problem);
      }
    }
  }

  void accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](std::error_code problem) {
      if (problem == asio::error::operation_aborted) return;
      for (int i = 0; !problem && i < kAcceptedAtOnce; ++i) problem = accept_one();
      if (!problem || problem == asio::error::would_block || problem == asio::error::connection_aborted ||
          state_.close_one_stranger()) {
        return accept();
      }
      accept_after_a_pause();
    });
  }

  std::error_code accept_one() {
    std::error_code problem;
    tcp::endpoint peer;
    auto socket = acceptor_.accept(peer, problem);
    if (problem) return problem;
    close_on_exec(socket.native_handle());
    if (trusted_ && !trusted_->contains(peer.address().to_string())) return {};
    try {
      state_.arrived(std::make_shared<Connection>(std::move(socket), state_, Connection::From::kNetwork),
                     peer.address().to_string());
    } catch (const std::exception& reason) {  // there is no memory for this connection
      say(reason);
    }
    return {};
  }

  // If no descriptor is free, retrying immediately would waste CPU time.
  void accept_after_a_pause() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](std::error_code problem) {
      if (!problem) accept();
    });
  }

  // Admits a client of this process. Any thread may call it.
  void admit(UniqueFd socket) {
    asio::post(io_, [this, socket = std::move(socket)]() mutable {
      asio::generic::stream_protocol::socket adopted(io_);
      adopted.assign(asio::generic::stream_protocol(AF_UNIX, 0), socket.get());
      (void)socket.release();
      const auto connection = std::make_shared<Connection>(std::move(adopted), state_, Connection::From::kThisProcess);
      state_.connections.insert(connection);
      connection->start(0, "");
    });
  }

  // Destroyed last: the connections' sockets belong to it.
  asio::io_context io_{1};
  store::ServerState state_;
  tcp::acceptor acceptor_;
  const std::optional<store::TrustedNetwork> trusted_ = store::trusted_network();
  asio::steady_timer retry_;
  std::uint16_t port_;
  std::shared_ptr<StoreDoor> door_;
  std::thread thread_;
};

StoreServer::StoreServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
StoreServer::~StoreServer() = default;
std::uint16_t StoreServer::port() const noexcept { return impl_->port(); }
std::shared_ptr<StoreDoor> StoreServer::door() const noexcept { return impl_->door(); }
void StoreServer::remove_all(const std::string& prefix) { impl_->remove_all(prefix); }

}  // namespace lockstep
