// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "checkpoint/formats/stream_copy.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h, as Highway requires.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "checkpoint/formats/stream_copy.h"
#include "lockstep/base/resources.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::checkpoint {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void copy_one(const CopyJob& job) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* from = reinterpret_cast<const std::uint8_t*>(job.from);
  auto* to = reinterpret_cast<std::uint8_t*>(job.to);
  std::size_t i = 0;
  for (; i + 4 * lanes <= job.bytes; i += 4 * lanes) {
    const auto a = hn::LoadU(d, from + i);
    const auto b = hn::LoadU(d, from + i + lanes);
    const auto c = hn::LoadU(d, from + i + 2 * lanes);
    const auto e = hn::LoadU(d, from + i + 3 * lanes);
    hn::Stream(a, d, to + i);
    hn::Stream(b, d, to + i + lanes);
    hn::Stream(c, d, to + i + 2 * lanes);
    hn::Stream(e, d, to + i + 3 * lanes);
  }
  hwy::FlushStream();
  std::memcpy(to + i, from + i, job.bytes - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::checkpoint
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::checkpoint {
namespace {

HWY_EXPORT(copy_one);

constexpr std::size_t kPiece = 4U << 20U;
constexpr std::size_t kTwoThreads = 16U << 20U;  // below this size, starting a thread takes as long as it saves

/// Cuts large jobs into pieces, so that both threads finish at about the same time.
std::vector<CopyJob> pieces_of(const std::vector<CopyJob>& jobs) {
  std::vector<CopyJob> pieces;
  for (const CopyJob& job : jobs) {
    for (std::size_t at = 0; at < job.bytes; at += kPiece) {
      pieces.push_back({job.to + at, job.from + at, std::min(kPiece, job.bytes - at)});
    }
  }
  return pieces;
}

}  // namespace

void stream_copy(const std::vector<CopyJob>& jobs) {
  const std::vector<CopyJob> pieces = pieces_of(jobs);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next.fetch_add(1)) < pieces.size();) HWY_DYNAMIC_DISPATCH(copy_one)(pieces[i]);
  };
  std::size_t bytes = 0;
  for (const CopyJob& job : jobs) bytes += job.bytes;
  if (bytes < kTwoThreads) return work();
  std::thread other = start_thread("that copies the state", work);
  work();
  other.join();
}

}  // namespace lockstep::checkpoint
#endif
