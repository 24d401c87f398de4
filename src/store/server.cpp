// SPDX-License-Identifier: Apache-2.0
// The store's server: one thread, one connection object per client, waits kept here so that no client polls. A client
// may send anything and die at any moment; only its own connection ends.
#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <asio.hpp>
#include <functional>
#include <thread>
#include <unordered_set>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/port_holder.h"
#include "lockstep/store/rare_warning.h"
#include "lockstep/store/store.h"
#include "store/handshake.h"
#include "store/stepped_timer.h"
#include "store/strangers.h"
#include "store/stream.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep {
namespace {

using asio::ip::tcp;
using store::FrameReader;
using store::FrameWriter;
using store::Status;
using store::Verb;

// A rank answers within milliseconds; a stranger that says nothing is gone after this.
constexpr auto kProofLimit = std::chrono::seconds(5);
constexpr auto kLongestWait = std::chrono::hours(24 * 365);

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;

// What the connections share. Owned by the server's thread.
struct State {
  State(asio::io_context& io, const StoreServer::Options& options, store::Strangers::Limits limits)
      : token(options.token), strangers(limits), warning_timer(io) {
    if (options.certificate.empty()) return;
    const store::TlsContext context = store::server_tls(options.certificate, options.key);
    ::SSL_CTX_up_ref(context.get());  // asio's context gives one reference back
    tls.emplace(context.get());
  }

  const std::string token;
  std::optional<asio::ssl::context> tls;  // none: connections are not encrypted. Outlives them.
  store::Table table;
  std::unordered_set<ConnectionPtr> connections;
  // A waiting client is listed under one key that it misses; when that comes, under the next.
  std::unordered_map<std::string, std::vector<ConnectionPtr>> waiting_for;
  // Those of `connections` that have not proved that they know the token.
  store::Strangers strangers;
  std::unordered_map<store::Strangers::Id, ConnectionPtr> stranger_of;
  store::Strangers::Id arrivals = 0;
  RareWarning turned_away;
  asio::steady_timer warning_timer;

  void key_changed(const std::string& key);
  std::int64_t append(const std::string& queue, std::string value);
  std::string answer_add(const std::string& key, std::int64_t delta);
  // A connection no longer waits for `key`.
  void unlist(const ConnectionPtr& connection, const std::string& key);
  void arrived(const ConnectionPtr& connection, const std::string& address);
  // False where there is no stranger.
  bool close_one_stranger();
  void left(store::Strangers::Id id) {
    strangers.remove(id);
    stranger_of.erase(id);
  }
  void note_turned_away(const std::string& address);
  void warn(std::size_t count, const std::string& address) const;
};

// A client's heartbeat, and what it left for the moment when it is lost.
class Attendance {
 public:
  explicit Attendance(const tcp::socket::executor_type& executor) : silence_(executor) {}

  // Renews or ends it. Empty where the request is malformed.
  std::string answer(Verb verb, FrameReader& request, const std::function<void()>& on_silence) {
    end();
    if (verb == Verb::kAttend) {
      const auto limit = std::chrono::milliseconds(request.number());
      keys_ = request.strings();
      will_ = request.string();
      silence_.start(std::clamp<std::chrono::milliseconds>(limit, std::chrono::milliseconds(1), kLongestWait),
                     on_silence);
    }
    if (request.complete()) return FrameWriter(Status::kOk).take();
    end();
    return "";
  }

  // The client neither left nor lives.
  void publish(State& state, std::string_view why) {
    for (const std::string& key : end()) {
      const std::string value = fmt::format("{}\n{}", why, will_);
      if (key.ends_with('/')) {
        state.append(key, value);
      } else {
        state.table.compare_set(key, "", value);
        state.key_changed(key);
      }
    }
  }

 private:
  std::vector<std::string> end() {
    silence_.cancel();
    return std::exchange(keys_, {});
  }

  store::SteppedTimer silence_;
  std::vector<std::string> keys_;  // empty: the client does not attend
  std::string will_;
};

void say(const std::exception& problem) noexcept {
  try {
    log::error("store server: {}", problem.what());
  } catch (const std::exception&) {
    // There is no memory for the words, either.
  }
}

// A step for which there is no memory ends the client's connection alone, so that it does not wait for an answer.
template <class Client, class Step>
void guarded(Client& client, Step&& step) {
  try {
    step();
  } catch (const std::exception& problem) {
    client.give_up();
    say(problem);
  }
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, State& state)
      : stream_(std::move(socket), state.tls ? &*state.tls : nullptr),
        timer_(stream_.socket().get_executor()),
        attendance_(stream_.socket().get_executor()),
        state_(state) {}

  void start(store::Strangers::Id id, std::string address) {
    id_ = id;
    address_ = std::move(address);
    std::error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    stream_.socket().set_option(asio::socket_base::keep_alive(true), ignored);
    timer_.start(kProofLimit, [self = shared_from_this()] {
      if (!self->is_known_) self->turn_away();
    });
    if (!stream_.is_encrypted()) return read_header();
    stream_.shake_hands([self = shared_from_this()](std::error_code problem) {
      if (!self->stream_.socket().is_open()) return;
      if (problem) return self->turn_away();
      guarded(*self, [&] {
        self->nonces_.binding = self->stream_.binding();
        self->read_header();
      });
    });
  }

  // Turns away a connection that has not proved that it knows the token.
  void turn_away() {
    state_.note_turned_away(address_);
    close();
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

  void give_up() noexcept {
    try {
      close();
    } catch (const std::exception&) {  // its will cannot be published
      std::error_code ignored;
      stream_.socket().close(ignored);
    }
  }

 private:
  void close() {
    const auto self = shared_from_this();
    state_.unlist(self, listed_under_);
    state_.left(id_);
    state_.connections.erase(self);
    timer_.cancel();
    attendance_.publish(state_, "closed");
    std::error_code ignored;
    stream_.socket().close(ignored);
  }

  void read_header() {
    stream_.read(asio::buffer(header_), [self = shared_from_this()](std::error_code problem, std::size_t) {
      if (problem) return self->close();
      guarded(*self, [&] { self->read_body(); });
    });
  }

  void read_body() {
    const std::uint32_t length = store::read_length(header_);
    const std::uint32_t limit = is_known_ ? store::kMaxFrameBytes : store::kMaxHelloBytes;
    // A request while one is waiting would be out of turn: a client waits for each answer.
    if (length == 0 || length > limit || !wait_keys_.empty()) return is_known_ ? close() : turn_away();
    body_.resize(length);
    stream_.read(asio::buffer(body_), [self = shared_from_this()](std::error_code problem, std::size_t) {
      if (problem) return self->close();
      guarded(*self, [&] {
        self->handle();
        if (self->stream_.socket().is_open()) self->read_header();
      });
    });
  }

  void handle() {
    FrameReader request(body_);
    const auto verb = static_cast<Verb>(request.byte());
    if (!is_known_) {
      shake_hands(verb, request);
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

  void shake_hands(Verb verb, FrameReader& request) {
    if (nonces_.server.empty()) {
      const std::string magic = request.string();
      nonces_.client = request.string();
      if (verb != Verb::kHello || !request.complete() || magic != store::kMagic ||
          nonces_.client.size() != store::kNonceBytes) {
        return turn_away();
      }
      nonces_.server = store::make_nonce();
      return send(FrameWriter(Status::kOk).string(nonces_.server).take());
    }
    const std::string proof = request.string();
    if (verb != Verb::kProve || !request.complete()) return turn_away();
    if (!store::is_proof(proof, state_.token, store::Side::kClient, nonces_)) {
      state_.note_turned_away(address_);
      return refuse(Status::kRefused, "wrong token");
    }
    is_known_ = true;
    timer_.cancel();
    state_.left(id_);
    send(FrameWriter(Status::kOk).string(store::prove(state_.token, store::Side::kServer, nonces_)).take());
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
    const auto limit = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0), kLongestWait);
    timer_.start(limit, [self = shared_from_this()] {
      if (self->wait_keys_.empty()) return;
      self->state_.unlist(self, self->listed_under_);
      auto reply = FrameWriter(Status::kTimeout).strings(self->state_.table.missing(self->wait_keys_)).take();
      self->wait_keys_.clear();
      self->send(std::move(reply));
    });
  }

  // The verbs that never wait. Empty where the request is malformed.
  std::string answer(Verb verb, FrameReader& request) {
    if (verb == Verb::kAttend || verb == Verb::kLeave) {
      const auto on_silence = [self = shared_from_this()] {
        self->attendance_.publish(self->state_, "silent");
        self->close();
      };
      return attendance_.answer(verb, request, on_silence);
    }
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
      return request.complete() ? state_.answer_add(key, delta) : "";
    }
    std::string first = request.string();
    if (verb == Verb::kSet && request.complete()) {
      table.set(key, std::move(first));
      state_.key_changed(key);
      return FrameWriter(Status::kOk).take();
    }
    if (verb == Verb::kAppend && request.complete()) {
      return FrameWriter(Status::kOk).number(state_.append(key, std::move(first))).take();
    }
    const std::string desired = request.string();
    if (verb != Verb::kCompareSet || !request.complete()) return "";
    auto reply = FrameWriter(Status::kOk).string(table.compare_set(key, first, desired)).take();
    state_.key_changed(key);
    return reply;
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
    stream_.write(asio::buffer(sending_), [self = shared_from_this()](std::error_code problem, std::size_t) {
      self->sending_.clear();
      if (problem || (self->closes_after_send_ && self->queued_.empty())) return self->close();
      if (!self->queued_.empty()) guarded(*self, [&] { self->write_queued(); });
    });
  }

  store::Stream stream_;
  store::SteppedTimer timer_;  // for the handshake, then for the wait
  Attendance attendance_;
  State& state_;
  store::Strangers::Id id_ = 0;
  std::string address_;
  store::Nonces nonces_;
  bool is_known_ = false;
  bool closes_after_send_ = false;
  bool wants_value_ = false;
  std::vector<std::string> wait_keys_;  // empty: no wait is going on
  std::string listed_under_;
  char header_[store::kHeaderBytes] = {};
  std::string body_;
  std::string sending_;
  std::string queued_;
};

void State::unlist(const ConnectionPtr& connection, const std::string& key) {
  const auto found = waiting_for.find(key);
  if (found == waiting_for.end()) return;
  auto& list = found->second;
  list.erase(std::remove(list.begin(), list.end(), connection), list.end());
  if (list.empty()) waiting_for.erase(found);
}

void State::key_changed(const std::string& key) {
  if (const auto found = waiting_for.find(key); found != waiting_for.end() && table.find(key)) {
    const auto clients = std::move(found->second);
    waiting_for.erase(found);
    for (const auto& client : clients) guarded(*client, [&] { client->go_on_waiting(); });
  }
}

std::string State::answer_add(const std::string& key, std::int64_t delta) {
  const auto sum = table.add(key, delta);
  if (!sum) return FrameWriter(Status::kBadRequest).string(store::not_a_counter_message(key)).take();
  key_changed(key);
  return FrameWriter(Status::kOk).number(*sum).take();
}

std::int64_t State::append(const std::string& queue, std::string value) {
  const std::int64_t last = table.append(queue, std::move(value));
  key_changed(queue + std::to_string(last));
  return last;
}

void State::arrived(const ConnectionPtr& connection, const std::string& address) {
  const auto id = ++arrivals;
  connections.insert(connection);
  stranger_of[id] = connection;
  connection->start(id, address);
  if (const auto goes = strangers.add(id, address)) {
    const ConnectionPtr gone = stranger_of[*goes];
    gone->turn_away();
  }
}

bool State::close_one_stranger() {
  const auto goes = strangers.give_up_one();
  if (!goes) return false;
  const ConnectionPtr gone = stranger_of[*goes];
  gone->turn_away();
  return true;
}

void State::note_turned_away(const std::string& address) {
  if (const auto count = turned_away.add(SystemClock::instance().now())) return warn(*count, address);
  warning_timer.expires_at(*turned_away.next());  // what comes until then is counted
  warning_timer.async_wait([this, address](std::error_code problem) {
    if (problem) return;
    if (const auto count = turned_away.due(SystemClock::instance().now())) warn(*count, address);
  });
}

void State::warn(std::size_t count, const std::string& address) const {
  log::warn(
      "{} did not prove that {} the job's token, and {} turned away (the last came from {}): strangers, or nodes "
      "that were given another token{}",
      count == 1 ? "a connection to the store" : fmt::format("{} connections to the store", count),
      count == 1 ? "it knows" : "they know", count == 1 ? "was" : "were", address,
      tls ? " or no certificate to trust (--tls-ca)" : "");
}

// The rest of the process needs descriptors too, and strangers must not be able to take them.
store::Strangers::Limits use_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return store::stranger_limits(0);
  constexpr rlim_t kPlenty = 65'536;
  const rlim_t wanted = std::max(limit.rlim_cur, std::min(limit.rlim_max, kPlenty));
  const rlimit raised{wanted, limit.rlim_max};
  if (wanted != limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return store::stranger_limits(limit.rlim_cur);
}

std::string address_of(const tcp::socket& socket) {
  std::error_code problem;
  const auto endpoint = socket.remote_endpoint(problem);
  return problem ? "an unknown address" : endpoint.address().to_string();
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
    const std::string holder = port_holder(options.port);
    throw UsageError(fmt::format("{}:{} is already in use{}", options.host, options.port,
                                 holder.empty() ? "" : fmt::format(" by {}", holder)),
                     "choose another port (--master-port, MASTER_PORT), or end the program that listens there");
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
      : state_(io_, options, use_file_limit()),
        acceptor_(listen(io_, options)),
        retry_(io_),
        port_(acceptor_.local_endpoint().port()) {
    accept();
    thread_ = start_thread("that serves the store", [this] { run(); });
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
        say(problem);
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](std::error_code problem, tcp::socket socket) {
      if (problem == asio::error::operation_aborted) return;
      if (problem) return state_.close_one_stranger() ? accept() : accept_after_a_pause();
      try {
        const std::string address = address_of(socket);
        state_.arrived(std::make_shared<Connection>(std::move(socket), state_), address);
      } catch (const std::exception& reason) {  // there is no memory for this one
        say(reason);
      }
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
