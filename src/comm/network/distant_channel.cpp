// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "comm/network/transport.h"

namespace lockstep::comm {
namespace {

class DistantChannel final : public Runner {
 public:
  DistantChannel(std::shared_ptr<Network> network, int peer, bool sending)
      : network_(std::move(network)), peer_(peer), sending_(sending) {}

  void run(const Collective& message) override {
    if (!channel_) channel_ = connect(message);
    channel_->run(message);
  }

  void abort(const std::string& /*reason*/) noexcept override { network_->abort(); }
  void leave() noexcept override {}

 private:
  /// Each direction has a connection of its own, since its two ends may come at another time than those of the other.
  [[nodiscard]] std::unique_ptr<Runner> connect(const Collective& message) const {
    const int own = network_->world().rank;
    const int from = sending_ ? own : peer_;
    const int to = sending_ ? peer_ : own;
    const Circle circle{{std::min(own, peer_), std::max(own, peer_)}, fmt::format("{}-to-{}", from, to)};
    return network_->connect(circle, &message)->open_channel(peer_, sending_);
  }

  const std::shared_ptr<Network> network_;
  const int peer_;
  const bool sending_;
  std::unique_ptr<Runner> channel_;  ///< null until the first message
};

}  // namespace

std::unique_ptr<Runner> make_distant_channel(std::shared_ptr<Network> network, int peer, bool sending) {
  return std::make_unique<DistantChannel>(std::move(network), peer, sending);
}

}  // namespace lockstep::comm
