// SPDX-License-Identifier: Apache-2.0
// Gloo as a transport: it only carries bytes from rank to rank.
#include <arpa/inet.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/backends/gloo/exchange_watch.h"
#include "comm/backends/gloo/gloo.h"
#include "comm/backends/gloo/roll_call.h"
#include "comm/backends/gloo/stores.h"
#include "comm/core/transport.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::comm {
namespace {

std::shared_ptr<::gloo::transport::Device> make_device(const std::string& store_host, int rank) {
  const auto choice = store::choose_interface({.gloo = env::get("GLOO_SOCKET_IFNAME"),
                                               .nccl = env::get("NCCL_SOCKET_IFNAME"),
                                               .towards = store::address_towards(store_host)},
                                              store::list_interfaces());
  if (!choice) return c10d::ProcessGroupGloo::createDefaultDevice();
  const auto level = rank == 0 ? log::Level::kNote : log::Level::kInfo;
  const std::string name = choice->name.empty() ? "" : fmt::format(" of {}", choice->name);
  if (log::is_enabled(level)) {
    log::write(level, fmt::format("gloo: rank {} is reached at {}{}: {}", rank, choice->address, name, choice->reason));
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(choice->address);
}

/// Gloo writes to sockets in a way that raises SIGPIPE when a peer has died, which would end this process without a
/// message. This class blocks the signal in this thread and discards a pending one at its end; threads that start
/// meanwhile inherit the block.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

// The watch ends an exchange, because only it knows how long the others' patience lasts: gloo takes one time limit for
// a wait, and closes its connections at the end of it.
constexpr auto kNoLimit = std::chrono::milliseconds(std::chrono::hours(24 * 365));

std::vector<at::Tensor> as_tensors(const std::byte* data, std::size_t bytes) {
  return {at::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte)};
}

/// Returns the error of a failed exchange: all ranks are asked which one is to blame.
struct FailedExchange {
  const Collective& collective;
  int suspect = 0;
  bool is_over = false;  ///< its time has passed
};

[[noreturn]] void throw_failure(const World& world, ExchangeWatch& watch, const FailedExchange& failed) {
  const Collective& collective = failed.collective;
  int suspect = failed.suspect;
  suspect = watch.alarm().value_or(suspect);
  watch.raise(suspect);
  const RollCall answers =
      call_roll(world, suspect, failed.is_over ? suspect_limit_after(collective.timeout) : kSuspectLimit);
  if (!failed.is_over) throw_death(world, blamed_rank(answers, suspect, world), collective);
  std::vector<LateRank> missing;
  if (!answers.empty()) {
    for (const int rank : absent_ranks(answers, world)) missing.push_back({rank, ""});
  }
  if (missing.empty()) missing.push_back({suspect, ""});
  throw timeout_error(world, collective, missing);
}

using GlooGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// The tags of messages between two ranks. Tags of exchanges and of channels are never equal.
class GlooChannel final : public Runner {
 public:
  GlooChannel(World world, GlooGroup group, std::shared_ptr<ExchangeWatch> watch, int peer, bool sending)
      : world_(std::move(world)), group_(std::move(group)), watch_(std::move(watch)), peer_(peer), sending_(sending) {}

  void run(const Collective& message) override {
    if (aborted_) throw PeerError("the group was aborted");
    Descriptor mine = message.what;
    mine.kind = Kind::kSend;
    mine.root = 0;
    Descriptor theirs = mine;
    carry(sending_ ? &mine : &theirs, sizeof(mine), message);
    if (theirs != mine) throw mismatch_error(world_, message.what, peer_, theirs);
    carry(sending_ ? static_cast<const void*>(message.data) : message.output, message.bytes, message);
  }

  void abort(const std::string& /*reason*/) noexcept override {
    aborted_ = true;
    watch_->raise(world_.rank);
  }
  void leave() noexcept override {}

 private:
  void carry(const void* data, std::size_t bytes, const Collective& message) {
    if (bytes == 0) return;
    const NoSigpipe guard;
    const int tag = static_cast<int>(0x40000000 | (messages_++ & 0x3FFFFFFF));
    auto tensors = as_tensors(static_cast<const std::byte*>(data), bytes);
    std::atomic<bool> is_over{false};
    try {
      const auto work = sending_ ? group_->send(tensors, peer_, tag) : group_->recv(tensors, peer_, tag);
      const ExchangeWatch::Scope scope(*watch_, {message, [&] { work->abort(); }, is_over});
      if (!work->wait(kNoLimit)) throw PeerError("interrupted");
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(world_, *watch_, {message, peer_, is_over});
    }
  }

  const World world_;
  const GlooGroup group_;
  const std::shared_ptr<ExchangeWatch> watch_;
  const int peer_;
  const bool sending_;
  std::uint64_t messages_ = 0;
  std::atomic<bool> aborted_{false};
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(World world, GlooGroup group, std::chrono::milliseconds timeout)
      : world_(std::move(world)),
        group_(std::move(group)),
        watch_(std::make_shared<ExchangeWatch>(world_, timeout)),
        sent_(static_cast<std::size_t>(world_.size)),
        received_(sent_.size()) {}

  std::string name() const override { return "gloo"; }
  const World& world() const override { return world_; }

  std::unique_ptr<Runner> open_channel(int peer, bool sending) override {
    return std::make_unique<GlooChannel>(world_, group_, watch_, peer, sending);
  }

  void report_death(int suspect) noexcept override {
    watch_->raise(suspect);
    (void)call_roll(world_, suspect);
  }

  void abort() noexcept override {
    if (!aborted_.exchange(true)) watch_->raise(world_.rank);
  }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    if (aborted_) throw PeerError("the group was aborted");
    const NoSigpipe guard;
    std::vector<std::pair<int, c10::intrusive_ptr<c10d::Work>>> works;
    int rank = world_.rank;
    std::atomic<bool> is_over{false};
    try {
      for (const bool receiving : {true, false}) {
        auto& counts = receiving ? received_ : sent_;
        for (const Message& message : receiving ? receives : sends) {
          rank = message.rank;
          if (message.bytes == 0) continue;
          const int tag = static_cast<int>(counts[static_cast<std::size_t>(rank)]++ & 0x3FFFFFFF);
          auto bytes = as_tensors(message.data, message.bytes);
          works.emplace_back(rank, receiving ? group_->recv(bytes, rank, tag) : group_->send(bytes, rank, tag));
        }
      }
      const auto interrupt = [&] {
        for (const auto& [peer, work] : works) work->abort();
      };
      const ExchangeWatch::Scope scope(*watch_, {collective, interrupt, is_over});
      for (const auto& [peer, work] : works) {
        rank = peer;
        if (!work->wait(kNoLimit)) throw PeerError("interrupted");
      }
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(world_, *watch_, {collective, rank, is_over});
    }
  }

 private:
  const World world_;
  const GlooGroup group_;
  const std::shared_ptr<ExchangeWatch> watch_;
  // Number of messages so far, by peer, which gives the tags. Two ranks need not have taken part in the same number of
  // exchanges.
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
  std::atomic<bool> aborted_{false};
};

}  // namespace

bool has_gloo() noexcept { return true; }

std::shared_ptr<Transport> make_gloo_transport(World world, const std::string& store_host,
                                               std::chrono::milliseconds timeout) {
  const NoSigpipe guard;
  try {
    auto store = c10::make_intrusive<StoreForC10d>(with_prefix(world.store, world.prefix + "gloo/"), timeout);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(make_device(store_host, world.rank));
    options->threads = 1;
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), world.rank, world.size, options);
    return std::make_shared<GlooTransport>(std::move(world), std::move(group), timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& problem) {
    throw PeerError(
        fmt::format("the ranks could not connect to each other through gloo: {}", problem.what()),
        "every rank must reach every other; GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names the interface to use");
  }
}

}  // namespace lockstep::comm
