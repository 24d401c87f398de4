// SPDX-License-Identifier: Apache-2.0
// The store's server: one thread, one connection object per client, waits kept here so that no client polls. A client
// may send anything and die at any moment; only its own connection ends.
#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <thread>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/store/store.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep {
namespace {

using asio::ip::tcp;
using store::FrameReader;
using store::FrameWriter;
using store::Status;
using store::Verb;

constexpr auto kHelloLimit = std::chrono::seconds(10);
constexpr auto kLongestWait = std::chrono::hours(24 * 365);

// Takes the same time wherever the first difference is, so that an answer's delay tells nothing about the token.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;

// What the connections share. Owned by the server's thread.
struct State {
  std::string token;
  store::Table table;
  std::unordered_set<ConnectionPtr> connections;
  // A waiting client is listed under one key that it misses; when that comes, under the next.
  std::unordered_map<std::string, std::vector<ConnectionPtr>> waiting_for;

  void key_changed(const std::string& key);
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, State& state)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), state_(state) {}

  void start() {
    std::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    timer_.expires_after(kHelloLimit);
    timer_.async_wait([self = shared_from_this()](std::error_code problem) {
      if (!problem && !self->is_known_) self->close();
    });
    read_header();
  }

  // Answers the wait, or lists it under the next key that is missing.
  void go_on_waiting() {
    const auto missing = state_.table.missing(wait_keys_);
    if (missing.empty()) {
      timer_.cancel();
      FrameWriter reply(Status::kOk);
      if (wants_value_) reply.string(*state_.table.find(wait_keys_.front()));
      wait_keys_.clear();
      send(reply.take());
    } else {
      listed_under_ = missing.front();
      state_.waiting_for[listed_under_].push_back(shared_from_this());
    }
  }

 private:
  void close() {
    const auto self = shared_from_this();
    unlist();
    state_.connections.erase(self);
    timer_.cancel();
    std::error_code ignored;
    socket_.close(ignored);
  }

  void unlist() {
    const auto found = state_.waiting_for.find(listed_under_);
    if (found == state_.waiting_for.end()) return;
    auto& list = found->second;
    list.erase(std::remove(list.begin(), list.end(), shared_from_this()), list.end());
    if (list.empty()) state_.waiting_for.erase(found);
  }

  void read_header() {
    asio::async_read(socket_, asio::buffer(header_), [self = shared_from_this()](std::error_code problem, std::size_t) {
      if (problem) return self->close();
      self->read_body();
    });
  }

  void read_body() {
    const std::uint32_t length = store::read_length(header_);
    const std::uint32_t limit = is_known_ ? store::kMaxFrameBytes : store::kMaxHelloBytes;
    // A request while one is waiting would be out of turn: a client waits for each answer.
    if (length == 0 || length > limit || !wait_keys_.empty()) return close();
    body_.resize(length);
    asio::async_read(socket_, asio::buffer(body_), [self = shared_from_this()](std::error_code problem, std::size_t) {
      if (problem) return self->close();
      self->handle();
      if (self->socket_.is_open()) self->read_header();
    });
  }

  void handle() {
    FrameReader request(body_);
    const auto verb = static_cast<Verb>(request.byte());
    if (!is_known_) {
      handle_hello(verb, request);
    } else if (verb == Verb::kGet || verb == Verb::kWait) {
      handle_wait(verb, request);
    } else {
      auto reply = answer(verb, request);
      if (reply.empty()) {
        refuse(Status::kBadRequest, "malformed request");
      } else {
        send(std::move(reply));
      }
    }
  }

  void handle_hello(Verb verb, FrameReader& request) {
    const std::string magic = request.string();
    const std::string token = request.string();
    if (verb != Verb::kHello || !request.complete() || magic != store::kMagic) return close();
    if (!equal_in_constant_time(token, state_.token)) return refuse(Status::kRefused, "wrong token");
    is_known_ = true;
    timer_.cancel();
    send(FrameWriter(Status::kOk).take());
  }

  void handle_wait(Verb verb, FrameReader& request) {
    const auto timeout = std::chrono::milliseconds(request.number());
    auto keys = verb == Verb::kGet ? std::vector<std::string>{request.string()} : request.strings();
    if (!request.complete()) return refuse(Status::kBadRequest, "malformed request");
    if (keys.empty()) return send(FrameWriter(Status::kOk).take());
    wait_keys_ = std::move(keys);
    wants_value_ = verb == Verb::kGet;
    go_on_waiting();
    if (!wait_keys_.empty()) start_wait_timer(timeout);
  }

  void start_wait_timer(std::chrono::milliseconds timeout) {
    timer_.expires_after(std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0), kLongestWait));
    timer_.async_wait([self = shared_from_this(), number = ++wait_number_](std::error_code problem) {
      // A timer that fired just before it was cancelled must not end the next wait.
      if (problem || self->wait_keys_.empty() || number != self->wait_number_) return;
      self->unlist();
      auto reply = FrameWriter(Status::kTimeout).strings(self->state_.table.missing(self->wait_keys_)).take();
      self->wait_keys_.clear();
      self->send(std::move(reply));
    });
  }

  // The verbs that never wait. Empty where the request is malformed.
  std::string answer(Verb verb, FrameReader& request) {
    const std::string key = request.string();
    auto& table = state_.table;
    if (verb == Verb::kTryGet && request.complete()) {
      const auto value = table.find(key);
      return value ? FrameWriter(Status::kOk).string(*value).take() : FrameWriter(Status::kAbsent).take();
    }
    if (verb == Verb::kRemove && request.complete()) {
      return FrameWriter(table.remove(key) ? Status::kOk : Status::kAbsent).take();
    }
    if (verb == Verb::kAdd) {
      const std::int64_t delta = request.number();
      return request.complete() ? answer_add(key, delta) : "";
    }
    std::string first = request.string();
    if (verb == Verb::kSet && request.complete()) {
      table.set(key, std::move(first));
      state_.key_changed(key);
      return FrameWriter(Status::kOk).take();
    }
    const std::string desired = request.string();
    if (verb != Verb::kCompareSet || !request.complete()) return "";
    auto reply = FrameWriter(Status::kOk).string(table.compare_set(key, first, desired)).take();
    state_.key_changed(key);
    return reply;
  }

  std::string answer_add(const std::string& key, std::int64_t delta) {
    const auto sum = state_.table.add(key, delta);
    if (!sum) return FrameWriter(Status::kBadRequest).string(store::not_a_counter_message(key)).take();
    state_.key_changed(key);
    return FrameWriter(Status::kOk).number(*sum).take();
  }

  void refuse(Status status, std::string_view why) {
    closes_after_send_ = true;
    send(FrameWriter(status).string(why).take());
  }

  void send(const std::string& frame) {
    // A client that asks and never reads would make this grow without end.
    if (queued_.size() + frame.size() > 2 * std::size_t{store::kMaxFrameBytes}) return close();
    queued_ += frame;
    if (sending_.empty()) write_queued();
  }

  void write_queued() {
    std::swap(sending_, queued_);
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this()](std::error_code problem, std::size_t) {
                        self->sending_.clear();
                        if (problem || (self->closes_after_send_ && self->queued_.empty())) return self->close();
                        if (!self->queued_.empty()) self->write_queued();
                      });
  }

  tcp::socket socket_;
  asio::steady_timer timer_;  // for the hello, then for the wait
  State& state_;
  bool is_known_ = false;
  bool closes_after_send_ = false;
  bool wants_value_ = false;
  std::uint64_t wait_number_ = 0;
  std::vector<std::string> wait_keys_;  // empty: no wait is going on
  std::string listed_under_;
  char header_[store::kHeaderBytes] = {};
  std::string body_;
  std::string sending_;
  std::string queued_;
};

void State::key_changed(const std::string& key) {
  if (const auto found = waiting_for.find(key); found != waiting_for.end() && table.find(key)) {
    const auto clients = std::move(found->second);
    waiting_for.erase(found);
    for (const auto& client : clients) client->go_on_waiting();
  }
}

tcp::acceptor listen(asio::io_context& io, const StoreServer::Options& options) {
  std::error_code problem;
  const auto found =
      tcp::resolver(io).resolve(options.host, std::to_string(options.port), tcp::resolver::passive, problem);
  if (problem) {
    throw UsageError(fmt::format("the store's host '{}' has no address ({})", options.host, problem.message()),
                     "give a host name or address of this machine");
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol());
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind(endpoint, problem);
  if (!problem) acceptor.listen(asio::socket_base::max_listen_connections, problem);
  if (problem == asio::error::address_in_use) {
    throw UsageError(fmt::format("{}:{} is already in use", options.host, options.port),
                     "choose another port, or end the program that listens there");
  }
  if (problem) {
    throw UsageError(fmt::format("cannot listen on {}:{} ({})", options.host, options.port, problem.message()),
                     "give an address of this machine and a port that you may use");
  }
  return acceptor;
}

}  // namespace

class StoreServer::Impl {
 public:
  explicit Impl(const Options& options)
      : acceptor_(listen(io_, options)), retry_(io_), port_(acceptor_.local_endpoint().port()) {
    state_.token = options.token;
    accept();
    const SignalGuard guard;
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  void run() noexcept {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& problem) {
        log::error("store server: {}", problem.what());
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](std::error_code problem, tcp::socket socket) {
      if (problem == asio::error::operation_aborted) return;
      if (problem) return accept_after_a_pause();
      const auto connection = std::make_shared<Connection>(std::move(socket), state_);
      state_.connections.insert(connection);
      connection->start();
      accept();
    });
  }

  // Out of descriptors: trying again at once would burn the processor.
  void accept_after_a_pause() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](std::error_code problem) {
      if (!problem) accept();
    });
  }

  // Destroyed last: the sockets of the connections belong to it.
  asio::io_context io_{1};
  State state_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::uint16_t port_;
  std::thread thread_;
};

StoreServer::StoreServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
StoreServer::~StoreServer() = default;
std::uint16_t StoreServer::port() const noexcept { return impl_->port(); }

}  // namespace lockstep
