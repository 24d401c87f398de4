// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/first_batch.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace lockstep::tensor {
namespace {

constexpr std::size_t kShown = 4;

std::atomic<bool> taken{false};
std::mutex mutex;
std::optional<FirstBatch> noted;

std::uint64_t digest_of(const std::vector<std::int64_t>& indices) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325U;  // FNV-1a
  for (const std::int64_t index : indices) digest = (digest ^ static_cast<std::uint64_t>(index)) * 0x100000001b3U;
  return digest;
}

}  // namespace

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
