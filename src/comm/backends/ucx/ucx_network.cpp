// SPDX-License-Identifier: Apache-2.0
// Links of UCX as a network, its transports and channels.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "comm/backends/ucx/ucx.h"
#include "comm/backends/ucx/ucx_link.h"
#include "comm/network/roll_call.h"
#include "lockstep/base/error.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::comm {
namespace {

/// It has a link of its own, since its thread is not that of the exchanges.
class UcxChannel final : public Runner {
 public:
  UcxChannel(std::shared_ptr<UcxShared> shared, const std::string& label, int peer, bool sending)
      : link_(std::move(shared), label), peer_(peer), sending_(sending) {}

  void run(const Collective& message) override {
    if (aborted_) throw PeerError("the group was aborted");
    Descriptor mine = message.what;
    mine.kind = Kind::kSend;
    mine.root = 0;
    Descriptor theirs = mine;
    carry(sending_ ? &mine : &theirs, sizeof(mine), message);
    if (theirs != mine) throw mismatch_error(link_.shared().state.world, message.what, peer_, theirs);
    carry(sending_ ? static_cast<const void*>(message.data) : message.output, message.bytes, message);
  }

  void abort(const std::string& /*reason*/) noexcept override {
    aborted_ = true;
    NetworkState& state = link_.shared().state;
    state.watch.raise(state.world.rank);
  }
  void leave() noexcept override {}

 private:
  void carry(const void* data, std::size_t bytes, const Collective& message) {
    const std::vector<Message> one = {{peer_, static_cast<std::byte*>(const_cast<void*>(data)), bytes}};
    link_.carry(sending_ ? one : std::vector<Message>(), sending_ ? std::vector<Message>() : one, message);
  }

  UcxLink link_;
  const int peer_;
  const bool sending_;
  std::atomic<bool> aborted_{false};
};

void abort_all(NetworkState& state) noexcept {
  if (!state.aborted.exchange(true)) state.watch.raise(state.world.rank);
}

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::shared_ptr<UcxShared> shared, std::string label)
      : shared_(std::move(shared)), label_(std::move(label)), link_(shared_, label_) {}

  std::string name() const override { return "ucx"; }
  const World& world() const override { return shared_->state.world; }

  std::unique_ptr<Runner> open_channel(int peer, bool sending) override {
    const int own = world().rank;
    const std::string label = fmt::format("{}/{}-to-{}", label_, sending ? own : peer, sending ? peer : own);
    return std::make_unique<UcxChannel>(shared_, label, peer, sending);
  }

  void abort() noexcept override { abort_all(shared_->state); }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    link_.carry(sends, receives, collective);
  }

 private:
  const std::shared_ptr<UcxShared> shared_;
  const std::string label_;
  UcxLink link_;
};

class UcxNetwork final : public Network {
 public:
  UcxNetwork(World world, const std::string& store_host)
      : shared_(std::make_shared<UcxShared>(std::move(world), store_host)) {}

  std::string name() const override { return "ucx"; }
  const World& world() const override { return shared_->state.world; }

  std::shared_ptr<Transport> connect(const Circle& circle, const Collective* /*collective*/) override {
    return std::make_shared<UcxTransport>(shared_, circle.label);
  }

  void report_death(int suspect) noexcept override {
    shared_->state.watch.raise(suspect);
    (void)call_roll(shared_->state.world, suspect);
  }

  void abort() noexcept override { abort_all(shared_->state); }

 private:
  const std::shared_ptr<UcxShared> shared_;
};

}  // namespace

std::string ucx_version() {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) return "";
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  library.functions.get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::vector<std::string> ucx_devices() {
  if (!ucx_library().problem.empty()) return {};
  return store::list_fabric_ports();
}

std::shared_ptr<Network> make_ucx_network(World world, const std::string& store_host) {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) {
    throw UsageError(fmt::format("UCX cannot be loaded: {}", library.problem),
                     "install libucx0 (Debian's name) on every host, or leave --wire ucx out");
  }
  return std::make_shared<UcxNetwork>(std::move(world), store_host);
}

}  // namespace lockstep::comm
