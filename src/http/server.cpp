// SPDX-License-Identifier: Apache-2.0
// GNU libmicrohttpd reads requests into fixed-size memory and sends responses, with one thread per connection. Guests
// decides which connections to close; shutdown() of the socket then ends the connection's thread.
#include "lockstep/http/server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "http/guests.h"
#include "http/request.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/store/port_holder.h"

namespace lockstep::http {
namespace {

// The listening socket of the server.

UniqueFd try_listen(const addrinfo& at) {
  UniqueFd socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) return {};
  return socket;
}

/// Returns a listening socket. Other processes cannot share its port. Throws: UsageError, with `next_step`, if the port
/// is taken or the address is not this machine's.
UniqueFd listen_at(const std::string& host, int port, const std::string& next_step) {
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) found = nullptr;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, [](addrinfo* all) {
    if (all != nullptr) ::freeaddrinfo(all);
  });
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    if (UniqueFd socket = try_listen(*at); socket.valid()) return socket;
  }
  const std::string holder = port == 0 ? "" : port_holder(static_cast<std::uint16_t>(port));
  throw UsageError(
      fmt::format("cannot listen on {}:{}: {} uses the port, or the address does not belong to this machine", host,
                  port, holder.empty() ? "another program" : holder),
      next_step);
}

/// Returns the port of a listening socket.
int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

constexpr std::size_t kMemory = 32 << 10;  // memory per connection, half of it for the request's head
constexpr std::size_t kPiece = 16 << 10;
constexpr unsigned kPatience = 5;  // seconds without a byte in either direction
constexpr unsigned kRoom = 4;      // limit on all connections as a multiple of ServerOptions::places; it includes known
                                   // clients and connections that are ending
constexpr auto kLook = std::chrono::milliseconds(250);

int socket_of(MHD_Connection* connection) {
  return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

void end(const std::vector<int>& sockets) {
  for (const int socket : sockets) ::shutdown(socket, SHUT_RDWR);
}

/// A body of unknown length.
struct Stream {
  std::function<std::string()> next;
  std::string piece = {};
  std::size_t at = 0;

  static ssize_t read(void* self, std::uint64_t /*at*/, char* to, std::size_t most) {
    auto& stream = *static_cast<Stream*>(self);
    try {
      if (stream.at == stream.piece.size()) {
        stream.piece = stream.next();
        stream.at = 0;
      }
    } catch (...) {
      return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (stream.piece.empty()) return MHD_CONTENT_READER_END_OF_STREAM;
    const std::size_t size = std::min(most, stream.piece.size() - stream.at);
    std::memcpy(to, stream.piece.data() + stream.at, size);
    stream.at += size;
    return static_cast<ssize_t>(size);
  }

  static void free(void* self) { delete static_cast<Stream*>(self); }
};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerOptions options) : options_(std::move(options)), guests_(options_.places) {
    UniqueFd listening = listen_at(options_.host, options_.port, options_.next_step);
    port_ = port_of(listening.get());
    const SignalGuard guard;  // signals must go to the program's threads
    start(listening.get());
    if (daemon_ == nullptr) throw ResourceError("cannot start the web server: out of threads or memory", "try again");
    (void)listening.release();  // the daemon now owns the socket
    watch_ = std::thread([this] { watch(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      end(guests_.all());
    }
    changed_.notify_all();
    watch_.join();
    MHD_stop_daemon(daemon_);
  }

  [[nodiscard]] int port() const { return port_; }

 private:
  static TimePoint now() { return SystemClock::instance().now(); }

  void start(int listening) {
    const MHD_AccessHandlerCallback ask = [](void* self, MHD_Connection* connection, const char* path,
                                             const char* method, const char*, const char*, std::size_t* body_size,
                                             void** state) {
      *body_size = 0;
      return static_cast<Impl*>(self)->asked(connection, path, method, std::exchange(*state, self) != nullptr);
    };
    daemon_ = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr,
                               nullptr, ask, this, MHD_OPTION_LISTEN_SOCKET, listening,
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMemory, MHD_OPTION_CONNECTION_LIMIT,
                               static_cast<unsigned>(options_.places) * kRoom, MHD_OPTION_CONNECTION_TIMEOUT, kPatience,
                               MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, &Impl::changed, this,
                               MHD_OPTION_NOTIFY_COMPLETED, &Impl::completed, this, MHD_OPTION_END);
  }

  static void changed(void* self, MHD_Connection* connection, void** /*context*/,
                      MHD_ConnectionNotificationCode notification) {
    auto& server = *static_cast<Impl*>(self);
    const std::lock_guard lock(server.mutex_);
    const int socket = socket_of(connection);
    if (notification == MHD_CONNECTION_NOTIFY_CLOSED) return server.guests_.leave(socket);
    end(server.guests_.add(socket, now()));
    if (server.ends_) end({socket});
    server.changed_.notify_all();
  }

  static void completed(void* self, MHD_Connection* connection, void** /*request*/,
                        MHD_RequestTerminationCode /*code*/) {
    auto& server = *static_cast<Impl*>(self);
    const std::lock_guard lock(server.mutex_);
    server.guests_.answered(socket_of(connection), now());
  }

  // Called when the head has been read, and again when the request is complete.
  MHD_Result asked(MHD_Connection* connection, const char* path, const char* method, bool is_whole) {
    try {
      if (is_whole) return send(connection, response_to(connection, path, method));
      if (!has_body(connection)) return MHD_YES;
      return send(connection, {.status = MHD_HTTP_CONTENT_TOO_LARGE, .body = "requests must not have a body\n"});
    } catch (...) {
      return MHD_NO;  // out of memory: the connection is closed
    }
  }

  Response response_to(MHD_Connection* connection, const char* path, const char* method) {
    const auto request = read_request(connection, path, method);
    const bool is_known = request && options_.is_known && options_.is_known(*request);
    {
      const std::lock_guard lock(mutex_);
      guests_.ask(socket_of(connection), is_known, now());
    }
    if (!request) return {.status = MHD_HTTP_BAD_REQUEST, .body = "a header occurs twice\n"};
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              0U);  // creating the response may take a long time
    Response response;
    try {
      response = options_.answer(*request);
    } catch (...) {
      response = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR, .body = "the response could not be created; try again\n"};
    }
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, kPatience);
    return response;
  }

  MHD_Result send(MHD_Connection* connection, Response response) {
    MHD_Response* out =
        response.next
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kPiece, &Stream::read,
                                                new Stream{.next = std::move(response.next)}, &Stream::free)
            : MHD_create_response_from_buffer(response.body.size(), response.body.data(), MHD_RESPMEM_MUST_COPY);
    if (out == nullptr) return MHD_NO;
    MHD_add_response_header(out, "Content-Type", response.type.c_str());
    for (const auto& [name, value] : options_.headers) response.headers.emplace(name, value);
    for (const auto& [name, value] : response.headers) MHD_add_response_header(out, name.c_str(), value.c_str());
    const MHD_Result done = MHD_queue_response(connection, static_cast<unsigned>(response.status), out);
    MHD_destroy_response(out);
    return done;
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      changed_.wait(lock, [this] { return ends_ || !guests_.empty(); });
      end(guests_.late(now()));
      changed_.wait_for(lock, kLook, [this] { return ends_; });
    }
  }

  ServerOptions options_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Guests guests_;      ///< guarded by mutex_
  bool ends_ = false;  ///< guarded by mutex_
  MHD_Daemon* daemon_ = nullptr;
  std::thread watch_;
};

Server::Server(ServerOptions options) {
  const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  impl_ = std::make_unique<Impl>(std::move(options));
  url_ = fmt::format("http://{}:{}", host, impl_->port());
}

Server::~Server() = default;

int Server::port() const noexcept { return impl_->port(); }

}  // namespace lockstep::http
