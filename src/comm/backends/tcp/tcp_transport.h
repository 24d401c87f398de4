// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of one circle, over connections that are made when two of them first have something to
// say. The thread that calls does all the work: it sends and receives what goes, and waits for the descriptors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/backends/tcp/listener.h"
#include "comm/network/network_state.h"
#include "comm/network/transport.h"

namespace lockstep::comm::tcp {

/// What the transports of a group share: how ranks find and reach each other.
class TcpHub {
 public:
  virtual ~TcpHub() = default;
  [[nodiscard]] virtual NetworkState& state() = 0;
  [[nodiscard]] virtual Listener& listener() = 0;
  [[nodiscard]] virtual const std::string& key() const = 0;
  /// The nonce of this rank in the store.
  [[nodiscard]] virtual const std::string& own_nonce() const = 0;
  [[nodiscard]] virtual bool is_encrypted() const = 0;
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const = 0;

  /// Where a rank listens, and its nonce.
  struct Place {
    Endpoint endpoint;
    std::string nonce;
  };
  /// None: the rank has not said so within a moment.
  [[nodiscard]] virtual std::optional<Place> place_of(int rank) = 0;
};

/// `label` is the circle's, and no other's of the group.
[[nodiscard]] std::shared_ptr<Transport> make_tcp_transport(std::shared_ptr<TcpHub> hub, std::string label);

}  // namespace lockstep::comm::tcp
