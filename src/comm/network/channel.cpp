// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "comm/network/transport.h"

namespace lockstep::comm {
namespace {

/// Messages in one direction, with their own transport, so that other threads' messages do not wait for them.
class NetworkChannel final : public Runner {
 public:
  NetworkChannel(std::shared_ptr<Network> network, int peer, bool sending)
      : network_(std::move(network)), peer_(peer), sending_(sending) {}

  void run(const Collective& message) override {
    if (!transport_) transport_ = network_->connect(label());
    Descriptor own_call = message.call;
    own_call.kind = Kind::kSend;
    own_call.root = 0;
    Descriptor other_call = own_call;
    const auto compare = [&] {
      if (other_call != own_call) throw mismatch_error(network_->world(), message.call, peer_, other_call);
    };
    const Message call{peer_, reinterpret_cast<std::byte*>(sending_ ? &own_call : &other_call), sizeof(own_call)};
    const Message bytes{peer_, sending_ ? const_cast<std::byte*>(message.data) : message.output, message.bytes};
    if (!transport_->reports_wrong_lengths()) {
      carry({call}, message);
      compare();
      return carry({bytes}, message);
    }
    try {
      carry({call, bytes}, message);
    } catch (const WrongLength&) {
      compare();
      throw;
    }
    compare();
  }

  void abort(const std::string& /*reason*/) noexcept override { network_->abort(); }
  void leave() noexcept override {}

 private:
  [[nodiscard]] std::string label() const {
    const int own = network_->world().rank;
    return fmt::format("{}-to-{}", sending_ ? own : peer_, sending_ ? peer_ : own);
  }

  void carry(const std::vector<Message>& words, const Collective& message) {
    const std::vector<Message> none;
    transport_->exchange(sending_ ? words : none, sending_ ? none : words, message);
  }

  const std::shared_ptr<Network> network_;
  const int peer_;
  const bool sending_;
  std::shared_ptr<Transport> transport_;  ///< null until the first message
};

}  // namespace

std::unique_ptr<Runner> make_network_channel(std::shared_ptr<Network> network, int peer, bool sending) {
  return std::make_unique<NetworkChannel>(std::move(network), peer, sending);
}

}  // namespace lockstep::comm
