// SPDX-License-Identifier: Apache-2.0
#include "sim/network.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::sim {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000001U;
constexpr std::size_t kWindow = 256 << 10;
constexpr Nanos kFirstRetry = 200 * kMilli;
constexpr Nanos kFirstSynRetry = kSecond;
constexpr int kMostRetries = 12;  // about 15 minutes
constexpr int kMostSyns = 6;      // 127 s
constexpr double kSplit = 0.05;   // probability that bytes arrive in two pieces

}  // namespace

std::function<void(Process& client, Process& server)> on_meet = {};

const char* name_of(NetworkEvent event) {
  constexpr std::array<const char*, static_cast<std::size_t>(NetworkEvent::kCount)> kNames = {
      "segment lost", "segment stopped", "word overtaken", "connected", "other store",
      "SYN lost",     "refused",         "reset",          "too late"};
  return kNames[static_cast<std::size_t>(event)];
}

Network& network() {
  static Network instance;
  return instance;
}

Host* Network::host_at(std::uint32_t address, const Host& from) const {
  for (const auto& host : kernel()->hosts()) {
    if (host->address == address || (address >> 24U == 127 && host.get() == &from)) return host.get();
  }
  return nullptr;
}

std::shared_ptr<Stream> Network::listener(const Host& host, std::uint16_t port) const {
  for (const auto& entry : listeners_) {
    const auto stream = entry.lock();
    if (stream && stream->state == Stream::State::kListening && stream->host == &host && stream->local.port == port) {
      return stream;
    }
  }
  return nullptr;
}

std::uint16_t Network::free_port(Host& host) { return host.next_port++; }

void Network::send(const Host& from, const Host& to, std::function<void()> arrive, std::function<void()> fail) {
  attempt(from, to, 0, in_order(from, to, std::move(arrive)), fail);
}

// Wraps `arrive` to count arrivals out of sending order.
std::function<void()> Network::in_order(const Host& from, const Host& to, std::function<void()> arrive) {
  Order& order = orders_[{from.number, to.number}];
  return [this, &order, number = ++order.sent, arrive = std::move(arrive)] {
    if (number < order.arrived) count(NetworkEvent::kOvertaken);
    order.arrived = std::max(order.arrived, number);
    arrive();
  };
}

void Network::attempt(const Host& from, const Host& to, int number, const std::function<void()>& arrive,
                      const std::function<void()>& fail) {
  Kernel& machine = *kernel();
  if (&from == &to) return machine.at(machine.now() + 20 * kMicro, arrive);
  const Link& way = link(from, to);
  const bool is_lost = way.loss > 0 && machine.dice().chance(way.loss);
  if (!way.is_cut && !is_lost && from.is_up && to.is_up) {
    return machine.at(machine.now() + way.delay + machine.dice().between(0, way.jitter), arrive);
  }
  count(is_lost ? NetworkEvent::kSegmentLost : NetworkEvent::kSegmentStopped);
  if (number == kMostRetries || !from.is_up) {
    if (fail && from.is_up) fail();
    return;
  }
  const Nanos pause = std::min<Nanos>(kFirstRetry << number, 120 * kSecond);
  machine.at(machine.now() + pause,
             [this, &from, &to, number, arrive, fail] { attempt(from, to, number + 1, arrive, fail); });
}

std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>> Stream::make_pair() {
  auto one = std::make_shared<Stream>();
  auto other = std::make_shared<Stream>();
  for (const auto& end : {one, other}) {
    end->state = State::kOpen;
    end->host = end->peer_host_ = kernel()->current()->process->host;
  }
  one->peer_ = other;
  other->peer_ = one;
  return {one, other};
}

short Stream::ready() const {
  if (state == State::kListening) return accepted_.empty() ? 0 : POLLIN;
  if (state == State::kNew) return POLLOUT | POLLHUP;
  if (state == State::kConnecting) return 0;
  if (state == State::kFailed) return POLLIN | POLLOUT | POLLERR | POLLHUP;
  int now = taken_ < received_.size() || has_ended_ ? POLLIN : 0;
  if (in_flight_ < kWindow) now |= POLLOUT;
  if (has_ended_ && is_sending_shut_) now |= POLLHUP;
  return static_cast<short>(now);
}

ssize_t Stream::read(void* to, std::size_t size) {
  if (error_ != 0) {
    errno = take_error();
    return -1;
  }
  const std::size_t count = std::min(size, received_.size() - taken_);
  if (count == 0) {
    if (has_ended_ || state == State::kFailed) return 0;
    errno = state == State::kOpen ? EAGAIN : ENOTCONN;
    return -1;
  }
  std::memcpy(to, received_.data() + taken_, count);
  taken_ += count;
  if (taken_ == received_.size()) {
    received_.clear();
    taken_ = 0;
  }
  if (const auto peer = peer_.lock()) {
    const bool was_full = peer->in_flight_ >= kWindow;
    peer->in_flight_ -= std::min(count, peer->in_flight_);
    if (was_full) peer->changed();
  }
  return static_cast<ssize_t>(count);
}

ssize_t Stream::write(const void* from, std::size_t size) {
  if (error_ != 0) {
    errno = take_error();
    return -1;
  }
  const bool is_alone = local.host == 0 && peer_.expired();  // received bytes can still be read
  if (state != State::kOpen || is_sending_shut_ || is_alone) {
    errno = EPIPE;
    return -1;
  }
  const std::size_t count = std::min(size, kWindow - std::min(in_flight_, kWindow));
  if (count == 0) {
    errno = EAGAIN;
    return -1;
  }
  in_flight_ += count;
  transmit({static_cast<const char*>(from), count}, false);
  return static_cast<ssize_t>(count);
}

void Stream::transmit(std::string bytes, bool is_end) {
  if (local.host == 0) {  // one end of a socket pair: no network involved
    if (const auto peer = peer_.lock()) peer->deliver(bytes, is_end);
    return;
  }
  outgoing_.emplace_back(std::move(bytes), is_end);
  pump();
}

// Sends segments one at a time: a lost segment holds up those after it.
void Stream::pump() {
  if (is_pumping_ || outgoing_.empty() || peer_host_ == nullptr) return;
  is_pumping_ = true;
  const auto self = shared_from_this();
  network().send(
      *host, *peer_host_,
      [self] {
        self->is_pumping_ = false;
        if (self->outgoing_.empty()) return;
        const auto peer = self->peer_.lock();
        for (const auto& [bytes, is_end] : self->take_outgoing()) {
          if (peer && !peer->is_closed_ && peer->state == State::kOpen) {
            peer->deliver(bytes, is_end);
          } else if (!is_end && self->peer_host_->is_up) {  // the peer has closed the connection
            network().count(NetworkEvent::kTooLate);
            network().send(*self->peer_host_, *self->host, [self] { self->reset(ECONNRESET); });
            break;
          }
        }
        self->pump();
      },
      [self] { self->reset(ETIMEDOUT); });
}

// Returns what arrives. TCP does not preserve the boundaries of writes: bytes from several calls arrive together, and
// sometimes the tail arrives later.
std::deque<std::pair<std::string, bool>> Stream::take_outgoing() {
  std::deque<std::pair<std::string, bool>> arrived;
  arrived.swap(outgoing_);
  auto& [bytes, is_end] = arrived.back();
  if (bytes.size() < 2 || !kernel()->dice().chance(kSplit)) return arrived;
  const auto most = static_cast<std::int64_t>(bytes.size()) - 1;
  const auto part = static_cast<std::size_t>(kernel()->dice().between(1, most));
  outgoing_.emplace_back(bytes.substr(part), is_end);
  bytes.resize(part);
  is_end = false;
  return arrived;
}

void Stream::deliver(const std::string& bytes, bool is_end) {
  if (is_closed_ || state == State::kFailed) return;
  received_ += bytes;
  has_ended_ = has_ended_ || is_end;
  changed();
}

void Stream::reset(int error) {
  if (state == State::kFailed || is_closed_) return;
  network().count(error == ECONNREFUSED ? NetworkEvent::kRefused : NetworkEvent::kReset);
  state = State::kFailed;
  error_ = error;
  has_ended_ = true;
  outgoing_.clear();
  changed();
}

void Stream::close() {
  if (is_closed_) return;
  is_closed_ = true;
  for (const auto& waiting : accepted_) waiting->close();
  accepted_.clear();
  if (state == State::kOpen && !is_sending_shut_ && host->is_up) {
    is_sending_shut_ = true;
    const bool has_unread = taken_ < received_.size();
    if (has_unread && local.host != 0) {
      send_reset();
    } else {
      // As documented in unix(7), the peer gets one error and can still read the bytes that have arrived.
      if (const auto peer = peer_.lock(); peer && has_unread) peer->error_ = ECONNRESET;
      transmit("", true);
    }
  }
  if (state == State::kListening) state = State::kFailed;
}

void Stream::send_reset() {
  outgoing_.clear();
  const auto peer = peer_.lock();
  if (peer && peer_host_->is_up) network().send(*host, *peer_host_, [peer] { peer->reset(ECONNRESET); });
}

void Stream::shut_down_sending() {
  if (state != State::kOpen || is_sending_shut_) return;
  is_sending_shut_ = true;
  transmit("", true);
}

void Stream::shut_down_receiving() {
  has_ended_ = true;
  changed();
}

int Stream::bind(Address address) {
  Host* own = kernel()->current()->process->host;
  host = own;
  if (network().host_at(address.host, *own) != own && address.host != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  if (address.port == 0) address.port = Network::free_port(*own);
  if (network().listener(*own, address.port)) {
    errno = EADDRINUSE;
    return -1;
  }
  local = address;
  return 0;
}

int Stream::listen() {
  if (network().listener(*host, local.port)) {
    errno = EADDRINUSE;
    return -1;
  }
  state = State::kListening;
  network().add_listener(shared_from_this());
  return 0;
}

std::shared_ptr<Stream> Stream::accept() {
  if (accepted_.empty()) return nullptr;
  auto next = accepted_.front();
  accepted_.pop_front();
  return next;
}

int Stream::connect(Address address) {
  Kernel& machine = *kernel();
  host = machine.current()->process->host;
  Host* to = network().host_at(address.host, *host);
  if (to == nullptr) {
    errno = ENETUNREACH;
    return -1;
  }
  remote = address;
  local = {to == host ? (address.host >> 24U == 127 ? kLoopback : host->address) : host->address,
           Network::free_port(*host)};
  peer_host_ = to;
  state = State::kConnecting;
  connect_to(*to, 0);
  errno = EINPROGRESS;
  return -1;
}

void Stream::connect_to(Host& to, int number) {
  const auto self = shared_from_this();
  if (state != State::kConnecting || is_closed_) return;
  if (number == kMostSyns) return reset(ETIMEDOUT);
  Kernel& machine = *kernel();
  const auto gets_through = [&machine](const Host& from, const Host& target) {
    const Link& way = network().link(from, target);
    return &from == &target || (!way.is_cut && from.is_up && target.is_up && !machine.dice().chance(way.loss));
  };
  machine.at(machine.now() + (kFirstSynRetry << number), [self, &to, number] { self->connect_to(to, number + 1); });
  if (!gets_through(*host, to)) {
    network().count(NetworkEvent::kSynLost);
    return;
  }
  const auto way = [&](const Host& from, const Host& target) {
    const Link& link = network().link(from, target);
    return &from == &target ? 20 * kMicro : link.delay + machine.dice().between(0, link.jitter);
  };
  machine.at(machine.now() + way(*host, to), [self, &to, &machine, gets_through, way] {
    if (self->state != State::kConnecting || self->is_closed_) return;
    const bool is_refused = network().link(*self->host, to).refuses_calls && self->remote.port >= kFirstFreePort;
    const auto server = is_refused ? nullptr : network().listener(to, self->remote.port);
    if (!gets_through(to, *self->host)) return;  // the reply is lost, and the client retries its SYN
    machine.at(machine.now() + way(to, *self->host), [self, server] {
      if (self->state != State::kConnecting || self->is_closed_) return;
      if (!server || server->state != State::kListening) return self->reset(ECONNREFUSED);
      server->syn(self);
    });
  });
}

// Completes the handshake and queues the server's end of the connection.
void Stream::syn(const std::shared_ptr<Stream>& client) {
  auto end = std::make_shared<Stream>();
  end->state = State::kOpen;
  end->host = host;
  end->local = client->remote;
  end->remote = client->local;
  end->peer_host_ = client->host;
  end->peer_ = client;
  client->peer_ = end;
  client->state = State::kOpen;
  network().count(NetworkEvent::kConnected);
  if (on_meet) on_meet(*client->owner, *owner);
  client->changed();
  accepted_.push_back(std::move(end));
  changed();
}

}  // namespace lockstep::sim
