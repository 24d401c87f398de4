// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

class NoPeers final : public CheckpointPeers {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 1; }
  std::vector<std::string> gather(const std::string& message) override { return {message}; }
  std::string broadcast(const std::string& message) override { return message; }
};

class StorePeers final : public CheckpointPeers {
 public:
  StorePeers(Store& store, const PeersOptions& options) : store_(store), options_(options) {
    // The last messages of an earlier object are still in the store, so each object has keys of its own.
    const std::int64_t number = store_.add(fmt::format("{}objects/{}", options_.prefix, options_.rank), 1);
    options_.prefix += fmt::format("{}/", number);
  }

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int world_size() const override { return options_.world_size; }

  std::vector<std::string> gather(const std::string& message) override {
    ++gathers_;
    if (rank() != 0) {
      store_.set(gather_key(rank()), message);
      return {};
    }
    std::vector<std::string> all = {message};
    for (int other = 1; other < world_size(); ++other) {
      all.push_back(wait_for(gather_key(other)));
      store_.remove(gather_key(other));
    }
    // A rank that has answered has read the earlier messages of rank 0.
    for (; forgotten_ < broadcasts_; ++forgotten_) store_.remove(broadcast_key(forgotten_ + 1));
    return all;
  }

  std::string broadcast(const std::string& message) override {
    ++broadcasts_;
    if (rank() != 0) return wait_for(broadcast_key(broadcasts_));
    store_.set(broadcast_key(broadcasts_), message);
    return message;
  }

  void abandon() noexcept override { abandoned_ = true; }

 private:
  /// Waits in short intervals, because a wait on the store cannot be interrupted.
  std::string wait_for(const std::string& key) {
    constexpr std::chrono::milliseconds kShort{200};
    for (auto left = options_.timeout;; left -= kShort) {
      if (abandoned_) throw PeerError("a checkpoint was abandoned: the run is ending");
      try {
        return store_.get(key, std::min(left, kShort));
      } catch (const TimeoutError&) {
        if (left <= kShort) throw;
      }
    }
  }

  [[nodiscard]] std::string gather_key(int rank) const {
    return fmt::format("{}gather/{}/{}", options_.prefix, gathers_, rank);
  }
  [[nodiscard]] std::string broadcast_key(std::int64_t number) const {
    return fmt::format("{}broadcast/{}", options_.prefix, number);
  }

  Store& store_;
  PeersOptions options_;
  std::atomic<bool> abandoned_ = false;
  std::int64_t gathers_ = 0;
  std::int64_t broadcasts_ = 0;
  std::int64_t forgotten_ = 0;  ///< number of broadcasts whose key was removed
};

}  // namespace

std::unique_ptr<CheckpointPeers> no_peers() { return std::make_unique<NoPeers>(); }

std::unique_ptr<CheckpointPeers> store_peers(Store& store, const PeersOptions& options) {
  if (options.world_size == 1) return no_peers();
  return std::make_unique<StorePeers>(store, options);
}

}  // namespace lockstep
