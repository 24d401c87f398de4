// SPDX-License-Identifier: Apache-2.0
// Gloo as a transport: it only carries bytes from rank to rank.
#include "comm/backends/gloo/gloo_transport.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/gloo/roll_call.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::comm {
namespace {

// The watch ends an exchange, because only it knows how long the others' patience lasts: gloo takes one time limit for
// a wait, and closes its connections at the end of it.
constexpr auto kNoLimit = std::chrono::milliseconds(std::chrono::hours(24 * 365));

std::vector<at::Tensor> as_tensors(const std::byte* data, std::size_t bytes) {
  return {at::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte)};
}

}  // namespace

void throw_failure(GlooShared& shared, const FailedExchange& failed) {
  const Collective& collective = failed.collective;
  const World& world = shared.world;
  const int suspect = shared.watch.alarm().value_or(failed.suspect);
  shared.watch.raise(suspect);
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

NoSigpipe::NoSigpipe() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  sigset_t pending;
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

NoSigpipe::~NoSigpipe() {
  const timespec now{};
  while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) continue;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

namespace {

/// A rank's number among the members, which is Gloo's.
int number_of(const std::vector<int>& members, int rank) {
  return static_cast<int>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
}

/// The tags of messages between two ranks. Tags of exchanges and of channels are never equal.
class GlooChannel final : public Runner {
 public:
  GlooChannel(const GlooConnection& connection, int peer, bool sending)
      : shared_(connection.shared),
        group_(connection.group),
        peer_(peer),
        number_(number_of(connection.members, peer)),
        sending_(sending) {}

  void run(const Collective& message) override {
    if (aborted_) throw PeerError("the group was aborted");
    Descriptor mine = message.what;
    mine.kind = Kind::kSend;
    mine.root = 0;
    Descriptor theirs = mine;
    carry(sending_ ? &mine : &theirs, sizeof(mine), message);
    if (theirs != mine) throw mismatch_error(shared_->world, message.what, peer_, theirs);
    carry(sending_ ? static_cast<const void*>(message.data) : message.output, message.bytes, message);
  }

  void abort(const std::string& /*reason*/) noexcept override {
    aborted_ = true;
    shared_->watch.raise(shared_->world.rank);
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
      const auto work = sending_ ? group_->send(tensors, number_, tag) : group_->recv(tensors, number_, tag);
      const ExchangeWatch::Scope scope(shared_->watch, {message, [&] { work->abort(); }, is_over});
      if (!work->wait(kNoLimit)) throw PeerError("interrupted");
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(*shared_, {message, peer_, is_over});
    }
  }

  const std::shared_ptr<GlooShared> shared_;
  const GlooGroup group_;
  const int peer_;
  const int number_;
  const bool sending_;
  std::uint64_t messages_ = 0;
  std::atomic<bool> aborted_{false};
};

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(GlooConnection connection)
      : connection_(std::move(connection)), sent_(connection_.members.size()), received_(sent_.size()) {}

  std::string name() const override { return "gloo"; }
  const World& world() const override { return connection_.shared->world; }

  std::unique_ptr<Runner> open_channel(int peer, bool sending) override {
    return std::make_unique<GlooChannel>(connection_, peer, sending);
  }

  void abort() noexcept override {
    GlooShared& shared = *connection_.shared;
    if (!shared.aborted.exchange(true)) shared.watch.raise(shared.world.rank);
  }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    GlooShared& shared = *connection_.shared;
    if (shared.aborted) throw PeerError("the group was aborted");
    const NoSigpipe guard;
    Works works;
    int rank = shared.world.rank;
    std::atomic<bool> is_over{false};
    try {
      for (const Message& message : receives) begin(works, message, rank, true);
      for (const Message& message : sends) begin(works, message, rank, false);
      const auto interrupt = [&] {
        for (const auto& [peer, work] : works) work->abort();
      };
      const ExchangeWatch::Scope scope(shared.watch, {collective, interrupt, is_over});
      for (const auto& [peer, work] : works) {
        rank = peer;
        if (!work->wait(kNoLimit)) throw PeerError("interrupted");
      }
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(shared, {collective, rank, is_over});
    }
  }

 private:
  using Works = std::vector<std::pair<int, c10::intrusive_ptr<c10d::Work>>>;

  /// `suspect` is the message's rank from now on.
  void begin(Works& works, const Message& message, int& suspect, bool receiving) {
    suspect = message.rank;
    if (message.bytes == 0) return;
    const int peer = number_of(connection_.members, message.rank);
    auto& counts = receiving ? received_ : sent_;
    const int tag = static_cast<int>(counts[static_cast<std::size_t>(peer)]++ & 0x3FFFFFFF);
    auto bytes = as_tensors(message.data, message.bytes);
    GlooGroup group = connection_.group;
    works.emplace_back(message.rank, receiving ? group->recv(bytes, peer, tag) : group->send(bytes, peer, tag));
  }

  const GlooConnection connection_;
  // Number of messages so far, by member, which gives the tags. Two ranks need not have taken part in the same number
  // of exchanges.
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
};

}  // namespace

std::shared_ptr<Transport> make_gloo_transport(GlooConnection connection) {
  return std::make_shared<GlooTransport>(std::move(connection));
}

}  // namespace lockstep::comm
