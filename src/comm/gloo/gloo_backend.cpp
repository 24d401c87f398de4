// SPDX-License-Identifier: Apache-2.0
// Collectives across hosts. Gloo only carries bytes from rank to rank; the sums are ours, in tree order, so that they
// have the bits of every other backend.
#include <arpa/inet.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/gloo/gloo.h"
#include "comm/gloo/roll_call.h"
#include "comm/gloo/stores.h"
#include "comm/tree_reduce.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"

namespace lockstep::comm {
namespace {

// Up to here every rank sends all to all and reduces everything: one exchange instead of two.
constexpr std::size_t kOnePassBytes = std::size_t{32} << 10;
// One message per partial sum: a rank of 2^12 replicas has no more.
constexpr std::uint64_t kMostMessages = 32;
/// The address of this host by which it reaches `host`; none where there is no route.
std::optional<std::string> address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const UniqueFd socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    if (!socket.valid() || connect(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      continue;
    }
    char text[NI_MAXHOST] = {};
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      return text;
    }
  }
  return std::nullopt;
}

std::shared_ptr<::gloo::transport::Device> make_device(const std::string& store_host) {
  if (const auto interface = env::get("GLOO_SOCKET_IFNAME")) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(*interface);
  }
  if (const auto address = address_towards(store_host))
    return c10d::ProcessGroupGloo::createDeviceForHostname(*address);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

/// Gloo writes to sockets in a way that raises SIGPIPE when a peer has died, which would end this process without a
/// word. Blocks the signal in this thread and swallows what came meanwhile; threads that start under it inherit the
/// block.
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

/// Bytes to or from one rank.
struct Message {
  int rank = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

class GlooBackend final : public Backend {
 public:
  GlooBackend(World world, c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : world_(std::move(world)), group_(std::move(group)) {}

  std::string name() const override { return "gloo"; }

  void run(const Collective& collective) override {
    if (aborted_) throw PeerError("the group was aborted");
    compare(collective);
    switch (collective.what.kind) {
      case Kind::kAllReduce:
        all_reduce(collective);
        break;
      case Kind::kBroadcast:
        broadcast(collective);
        break;
      case Kind::kAllGather:
        all_gather(collective);
        break;
      case Kind::kBarrier:
        break;
    }
  }

  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override { return at::zeros({numel}, dtype); }

  // An exchange under way cannot be ended from outside; the peers' ends when this process closes its connections.
  void abort(const std::string& /*reason*/) noexcept override { aborted_ = true; }
  void leave() noexcept override {}

 private:
  void compare(const Collective& collective) {
    Descriptor mine = collective.what;
    std::vector<Descriptor> theirs(static_cast<std::size_t>(world_.size));
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (const int rank : others()) {
      sends.push_back({rank, reinterpret_cast<std::byte*>(&mine), sizeof(mine)});
      receives.push_back({rank, reinterpret_cast<std::byte*>(&theirs[static_cast<std::size_t>(rank)]), sizeof(mine)});
    }
    exchange(sends, receives, collective);
    for (const int rank : others()) {
      const Descriptor& other = theirs[static_cast<std::size_t>(rank)];
      if (other != mine) throw mismatch_error(world_, mine, rank, other);
    }
  }

  std::vector<int> others() const {
    std::vector<int> ranks;
    for (int step = 1; step < world_.size; ++step) ranks.push_back((world_.rank + step) % world_.size);
    return ranks;
  }

  void all_reduce(const Collective& collective) {
    if (collective.bytes == 0) return;
    if (collective.what.exact == 0 && has_ring(collective)) return reduce_in_ring(collective);
    const std::int64_t numel = collective.what.numel;
    if (collective.bytes <= kOnePassBytes) return exchange_and_reduce(collective, [&](int) { return Range{0, numel}; });
    const auto share = (numel + world_.size - 1) / world_.size;
    const auto slice = [&](int rank) {
      const std::int64_t begin = std::min(numel, share * rank);
      return Range{begin, std::min(numel, begin + share)};
    };
    exchange_and_reduce(collective, slice);
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (const int rank : others()) {
      sends.push_back(message(collective, rank, slice(world_.rank), 0));
      receives.push_back(message(collective, rank, slice(rank), 0));
    }
    exchange(sends, receives, collective);
  }

  /// Elements of a row.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  static Message message(const Collective& collective, int rank, Range range, int row) {
    const auto at = static_cast<std::size_t>(row) * collective.bytes +
                    static_cast<std::size_t>(range.begin) * collective.item_bytes;
    return {rank, collective.data + at, static_cast<std::size_t>(range.end - range.begin) * collective.item_bytes};
  }

  /// Sends to each rank r the elements slice(r) of all rows; combines what all have for this rank's into its first row.
  template <class Slice>
  void exchange_and_reduce(const Collective& collective, const Slice& slice) {
    const std::vector<Piece> pieces = pieces_of(collective.what, world_.size);
    const Message mine = message(collective, world_.rank, slice(world_.rank), 0);
    scratch_.resize(mine.bytes * pieces.size());
    std::vector<Message> sends;
    for (const int rank : others()) {
      for (int row = 0; row < collective.rows; ++row) sends.push_back(message(collective, rank, slice(rank), row));
    }
    std::vector<Message> receives;
    std::vector<TreeLeaf> leaves;
    for (const Piece& piece : pieces) {
      std::byte* place = piece.rank == world_.rank ? message(collective, 0, slice(world_.rank), piece.row).data
                                                   : scratch_.data() + mine.bytes * leaves.size();
      if (piece.rank != world_.rank) receives.push_back({piece.rank, place, mine.bytes});
      leaves.push_back({place, piece.span});
    }
    exchange(sends, receives, collective);
    tree_reduce({dtype_of(collective.what), op_of(collective.what), divisor_of(collective.what, world_.size)}, leaves,
                {mine.data}, slice(world_.rank).end - slice(world_.rank).begin);
  }

  static bool has_ring(const Collective& collective) {
    const ReduceOp op = op_of(collective.what);
    return (op == ReduceOp::kSum || op == ReduceOp::kMean) && dtype_of(collective.what) != at::kBFloat16;
  }

  /// Gloo's own all_reduce, for those who do not need the bits.
  void reduce_in_ring(const Collective& collective) {
    const NoSigpipe guard;
    std::vector<at::Tensor> tensors = {
        at::from_blob(collective.data, {collective.what.numel}, dtype_of(collective.what))};
    try {
      c10d::AllreduceOptions options;
      options.timeout = time_left(collective);
      group_->allreduce(tensors, options)->wait(time_left(collective));
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(collective, (world_.rank + 1) % world_.size);
    }
    if (op_of(collective.what) == ReduceOp::kMean) {
      tree_reduce({dtype_of(collective.what), ReduceOp::kMean, divisor_of(collective.what, world_.size)},
                  {{collective.data, {0, 1}}}, {collective.data}, collective.what.numel);
    }
  }

  static std::chrono::milliseconds time_left(const Collective& collective) {
    const auto left = collective.deadline - std::chrono::steady_clock::now();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), std::chrono::milliseconds(1));
  }

  // The root sends to each: a tree saves time only in worlds larger than data-parallel starts need.
  void broadcast(const Collective& collective) {
    const int root = collective.what.root;
    if (root != world_.rank) return exchange({}, {{root, collective.data, collective.bytes}}, collective);
    std::vector<Message> sends;
    for (const int rank : others()) sends.push_back({rank, collective.data, collective.bytes});
    exchange(sends, {}, collective);
  }

  void all_gather(const Collective& collective) {
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (const int rank : others()) {
      sends.push_back({rank, collective.data, collective.bytes});
      receives.push_back({rank, collective.outputs[static_cast<std::size_t>(rank)], collective.bytes});
    }
    exchange(sends, receives, collective);
    if (collective.bytes > 0) {
      std::memcpy(collective.outputs[static_cast<std::size_t>(world_.rank)], collective.data, collective.bytes);
    }
  }

  /// Of the n-th message between two ranks in one exchange.
  int tag_of(std::uint64_t n) const { return static_cast<int>((exchanges_ * kMostMessages + n) & 0x3FFFFFFF); }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives, const Collective& collective) {
    const NoSigpipe guard;
    ++exchanges_;
    std::vector<std::pair<int, c10::intrusive_ptr<c10d::Work>>> works;
    int rank = world_.rank;
    try {
      for (const bool receiving : {true, false}) {
        std::vector<std::uint64_t> count(static_cast<std::size_t>(world_.size));
        for (const Message& message : receiving ? receives : sends) {
          rank = message.rank;
          const int tag = tag_of(count[static_cast<std::size_t>(rank)]++);
          if (message.bytes == 0) continue;
          std::vector<at::Tensor> bytes = {
              at::from_blob(message.data, {static_cast<std::int64_t>(message.bytes)}, at::kByte)};
          works.emplace_back(rank, receiving ? group_->recv(bytes, rank, tag) : group_->send(bytes, rank, tag));
        }
      }
      for (const auto& [peer, work] : works) {
        rank = peer;
        work->wait(time_left(collective));
      }
    } catch (const std::exception& problem) {
      log::debug("gloo: {}", problem.what());
      throw_failure(collective, rank);
    }
  }

  [[noreturn]] void throw_failure(const Collective& collective, int suspect) {
    const bool late = std::chrono::steady_clock::now() >= collective.deadline;
    const RollCall answers = call_roll(world_, suspect);
    if (!late) throw PeerError(death_text(world_, blamed_rank(answers, suspect, world_.size), collective));
    std::vector<LateRank> missing;
    if (!answers.empty()) {
      for (const int rank : absent_ranks(answers, world_.size)) missing.push_back({rank, ""});
    }
    if (missing.empty()) missing.push_back({suspect, ""});
    throw timeout_error(world_, collective, missing);
  }

  World world_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::vector<std::byte> scratch_;
  std::uint64_t exchanges_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace

bool has_gloo() noexcept { return true; }

std::unique_ptr<Backend> make_gloo_backend(World world, const std::string& store_host,
                                           std::chrono::milliseconds timeout) {
  const NoSigpipe guard;
  try {
    auto store = c10::make_intrusive<StoreForC10d>(with_prefix(world.store, world.prefix + "gloo/"), timeout);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(make_device(store_host));
    options->threads = 1;
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), world.rank, world.size, options);
    return std::make_unique<GlooBackend>(std::move(world), std::move(group));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& problem) {
    throw PeerError(fmt::format("the ranks could not connect to each other through gloo: {}", problem.what()),
                    "every rank must reach every other; GLOO_SOCKET_IFNAME names the interface to use");
  }
}

}  // namespace lockstep::comm
