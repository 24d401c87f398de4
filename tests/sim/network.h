// SPDX-License-Identifier: Apache-2.0
// The network of a world: TCP as programs see it (connections can be refused, delayed, cut one way, reset or half
// open), and socket pairs on one host.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/files.h"

namespace lockstep::sim {

struct Address {
  std::uint32_t host = 0;  ///< IPv4, in host byte order; 0: part of a socket pair on one host
  std::uint16_t port = 0;
  bool operator==(const Address&) const = default;
};

/// One direction of the link between two hosts.
struct Link {
  Nanos delay = 100 * kMicro;
  Nanos jitter = 50 * kMicro;
  double loss = 0;
  bool is_cut = false;
  bool refuses_calls = false;  ///< connections to ranks, not to the store
};

class Stream;

/// Network events that programs may notice. TCP hides duplicated segments, and those reordered within a connection.
enum class NetworkEvent : std::uint8_t {
  kSegmentLost,
  kSegmentStopped,  ///< held up by a cut or by a host that is down
  kOvertaken,       ///< bytes arrive before earlier bytes between the same hosts, on another connection
  kConnected,
  kConnectedAgain,  ///< a process connects to a different store than last time
  kSynLost,
  kRefused,
  kReset,
  kTooLate,  ///< bytes, such as a reply, reach a peer that has closed the connection
  kCount
};
using NetworkCounts = std::array<std::uint32_t, static_cast<std::size_t>(NetworkEvent::kCount)>;
[[nodiscard]] const char* name_of(NetworkEvent event);

class Network {
 public:
  [[nodiscard]] Link& link(const Host& from, const Host& to) { return links_[{from.number, to.number}]; }
  /// Calls `arrive` when the bytes get through. Retries like TCP, with increasing delays; after the last retry it calls
  /// `fail`.
  void send(const Host& from, const Host& to, std::function<void()> arrive, std::function<void()> fail = {});
  [[nodiscard]] Host* host_at(std::uint32_t address, const Host& from) const;
  /// Returns the Stream that listens on this port.
  [[nodiscard]] std::shared_ptr<Stream> listener(const Host& host, std::uint16_t port) const;
  void add_listener(const std::shared_ptr<Stream>& stream) { listeners_.push_back(stream); }
  [[nodiscard]] static std::uint16_t free_port(Host& host);
  void count(NetworkEvent event) { ++counts_[static_cast<std::size_t>(event)]; }
  [[nodiscard]] const NetworkCounts& counts() const { return counts_; }

 private:
  void attempt(const Host& from, const Host& to, int number, const std::function<void()>& arrive,
               const std::function<void()>& fail);
  std::function<void()> in_order(const Host& from, const Host& to, std::function<void()> arrive);
  struct Order {
    std::uint64_t sent = 0;
    std::uint64_t arrived = 0;  ///< the highest number to have arrived
  };
  NetworkCounts counts_{};
  std::map<std::pair<int, int>, Order> orders_;
  std::map<std::pair<int, int>, Link> links_;
  std::vector<std::weak_ptr<Stream>> listeners_;
};

Network& network();

/// Called when a connection is opened.
extern std::function<void(Process& client, Process& server)> on_meet;

/// A socket: a TCP socket, or one end of a socket pair or pipe.
class Stream final : public File, public std::enable_shared_from_this<Stream> {
 public:
  enum class State : std::uint8_t { kNew, kListening, kConnecting, kOpen, kFailed };

  static std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>> make_pair();

  [[nodiscard]] short ready() const override;
  ssize_t read(void* to, std::size_t size) override;
  ssize_t write(const void* from, std::size_t size) override;
  void close() override;

  int bind(Address address);
  int listen();
  int connect(Address address);
  [[nodiscard]] std::shared_ptr<Stream> accept();
  void shut_down_sending();
  void shut_down_receiving();
  [[nodiscard]] int take_error() { return std::exchange(error_, 0); }

  State state = State::kNew;
  Host* host = nullptr;
  Address local;
  Address remote;

 private:
  friend class Network;
  void connect_to(Host& to, int number);
  void syn(const std::shared_ptr<Stream>& client);
  void transmit(std::string bytes, bool is_end);
  void pump();
  std::deque<std::pair<std::string, bool>> take_outgoing();
  void deliver(const std::string& bytes, bool is_end);
  void reset(int error);
  void send_reset();

  std::weak_ptr<Stream> peer_;
  Host* peer_host_ = nullptr;
  std::deque<std::shared_ptr<Stream>> accepted_;
  std::string received_;
  std::size_t taken_ = 0;  ///< bytes of received_ already read
  std::deque<std::pair<std::string, bool>> outgoing_;
  std::size_t in_flight_ = 0;  ///< bytes sent that the peer has not read yet
  bool is_pumping_ = false;
  Nanos last_arrival_ = 0;
  bool has_ended_ = false;  ///< the peer will send nothing more
  bool is_sending_shut_ = false;
  bool is_closed_ = false;
  int error_ = 0;
};

}  // namespace lockstep::sim
