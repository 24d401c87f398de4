// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "lockstep/base/log.h"

namespace lockstep::tensor {
namespace {

// A mean loss and a count, reduced after each batch, take fewer bytes than this; gradients take more.
constexpr std::int64_t kFiguresOfABatch = 64;
// A program that averages weights itself does so at least once in this many steps.
constexpr std::int64_t kStepsApart = 64;

std::atomic<bool> watching = false;
std::atomic<int> own_rank = 0;
std::atomic<int> ranks = 1;
std::atomic<bool> divided = false;
std::atomic<std::int64_t> batches = 0;
std::atomic<std::int64_t> stepped = 0;
std::atomic<std::int64_t> reduced = 0;

constexpr std::size_t kShown = 4;

std::atomic<bool> taken = false;
std::mutex mutex;
std::optional<FirstBatch> noted;

std::uint64_t digest_of(const std::vector<std::int64_t>& indices) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325U;  // FNV-1a
  for (const std::int64_t index : indices) digest = (digest ^ static_cast<std::uint64_t>(index)) * 0x100000001b3U;
  return digest;
}

}  // namespace

std::string separate_training(const SharingSigns& signs) {
  if (signs.world == 1 || signs.wrapped || (!signs.divided && signs.stepped == 0) || signs.batches == 0) return "";
  // Steps of libtorch's own optimizers are not counted. If there are only such steps, the reduced bytes are compared
  // with the number of batches.
  const bool apart = signs.stepped > 0 ? signs.reduced < signs.stepped / kStepsApart
                                       : signs.reduced <= kFiguresOfABatch * signs.batches;
  if (!apart) return "";
  return fmt::format(
      "the {} ranks have read different samples and reduced no gradients: if they train, their weights are no longer "
      "the same\n  next  wrap the network before training: lockstep::DistributedDataParallel model{{net, job}};",
      signs.world);
}

void note_world(int rank, int world) noexcept {
  own_rank = rank;
  ranks = world;
  watching = world > 1;
}

void note_wrapper() noexcept { watching = false; }

void note_shard_batch(bool shuffled) noexcept {
  if (!watching.load(std::memory_order_relaxed)) return;
  if (shuffled) divided = true;
  batches.fetch_add(1, std::memory_order_relaxed);
}

void note_step(std::int64_t parameter_bytes) noexcept {
  if (watching.load(std::memory_order_relaxed)) stepped.fetch_add(parameter_bytes, std::memory_order_relaxed);
}

void note_reduced(std::int64_t bytes) noexcept {
  if (watching.load(std::memory_order_relaxed)) reduced.fetch_add(bytes, std::memory_order_relaxed);
}

bool watches_sharing() noexcept { return watching.load(std::memory_order_relaxed); }

void warn_of_separate_training() noexcept {
  if (!watches_sharing()) return;
  try {
    const std::string words = separate_training({.world = ranks,
                                                 .wrapped = false,
                                                 .divided = divided,
                                                 .batches = batches,
                                                 .stepped = stepped,
                                                 .reduced = reduced});
    if (words.empty() || !watching.exchange(false) || own_rank != 0) return;
    log::warn("{}", words);
  } catch (const std::exception& problem) {
    log::debug("the check that the ranks train one model failed: {}", problem.what());
  }
}

void note_first_batch(const std::vector<std::int64_t>& indices, std::int64_t shards) noexcept {
  if (taken.load(std::memory_order_relaxed) || indices.empty()) return;
  const std::size_t shown = std::min(kShown, indices.size());
  FirstBatch batch{digest_of(indices), shards, {indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(shown)}};
  const std::lock_guard lock(mutex);
  noted = std::move(batch);
}

std::optional<FirstBatch> take_first_batch() {
  taken = true;
  const std::lock_guard lock(mutex);
  return std::exchange(noted, std::nullopt);
}

}  // namespace lockstep::tensor
