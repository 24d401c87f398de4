// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of one host share: an unnamed memfd, which leaves nothing behind even if the run is killed.
// It begins with one slot per rank and one per pair, followed by one region per rank. Layout and protocol:
// docs/design/shm.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/core/collective.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"

namespace lockstep::comm {

/// The maximum number of bytes that a rank copies at a time into one of the two halves of its staging area, which are
/// used alternately.
inline constexpr std::size_t kStagingBytes = std::size_t{512} << 10;

/// The descriptor of a collective, and the offset of this rank's data in its region (kNowhere: outside the segment;
/// kNothing: no data).
struct Announcement {
  Descriptor call;
  std::uint64_t offset = 0;
};
inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
inline constexpr std::uint64_t kNothing = kNowhere - 1;  ///< this rank has no bytes to send

/// One rank's state for the other ranks. Only that rank writes it (except for `waiters`).
struct alignas(128) RankSlot {
  std::atomic<std::uint32_t> arrived;   ///< number of barriers reached; a futex
  std::atomic<std::uint32_t> waiters;   ///< number of ranks that sleep on `arrived`
  std::atomic<std::uint32_t> left;      ///< 1 if the rank left normally
  std::atomic<std::uint64_t> finished;  ///< sequence number of the last finished collective
  std::atomic<std::uint64_t> scratch;   ///< offset, in this rank's region, of the memory that it offers to all ranks;
                                        ///< see HierarchicalBackend
  Announcement announcements[2];        ///< one for even and one for odd collectives
  char words[1024];                     ///< the text of a failure that this rank recorded
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// A byte stream from one rank to another: a ring in the sender's region.
struct alignas(128) PairSlot {
  std::atomic<std::uint64_t> ring;              ///< 1 + its offset in the sender's region; 0 if there is no ring yet
  std::atomic<std::uint32_t> written;           ///< bytes written by the sender so far; a futex
  std::atomic<std::uint32_t> reader_waits;      ///< the receiver sleeps on `written`
  alignas(64) std::atomic<std::uint32_t> read;  ///< bytes read by the receiver so far; a futex
  std::atomic<std::uint32_t> writer_waits;      ///< the sender sleeps on `read`
};
inline constexpr std::uint32_t kRingBytes = std::uint32_t{256} << 10;

struct SegmentHead {
  std::uint64_t world;
  std::uint64_t region_bytes;  ///< address space of one rank's region, far more than it ever uses
  /// The group's failure in one word, written once by compare-and-swap, so that all ranks report the same one: its
  /// kind, the rank to blame, and the rank whose slot has the text. It is 0 if there is no failure.
  std::atomic<std::uint32_t> failure;
};

/// A mapping of the segment. Pages are allocated by reserve(), not by the first touch, so that a shortage of memory is
/// an error, not a SIGBUS.
class Segment {
 public:
  /// Creates the segment on rank 0. Throws: ResourceError naming the sizes.
  static std::shared_ptr<Segment> create(int world);
  /// Maps the segment on another rank, with the descriptor from rank 0. Throws: ResourceError.
  static std::shared_ptr<Segment> open(UniqueFd fd, int world, int rank);
  /// Creates another rank's segment in the same process, on the same mapping, so that ThreadSanitizer sees both ranks.
  static std::shared_ptr<Segment> share(const Segment& other, int rank);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] int fd() const noexcept { return mapping_->fd.get(); }
  [[nodiscard]] int world() const noexcept { return world_; }
  [[nodiscard]] SegmentHead& head() noexcept { return *reinterpret_cast<SegmentHead*>(mapping_->base); }
  [[nodiscard]] RankSlot& slot(int rank) noexcept;
  [[nodiscard]] PairSlot& pair(int from, int to) noexcept;
  [[nodiscard]] std::byte* region(int rank) noexcept;
  /// Returns half `parity` of a rank's staging area.
  [[nodiscard]] std::byte* staging(int rank, std::uint64_t parity) noexcept;

  /// Returns zeroed memory in this rank's region. Throws: ResourceError naming the sizes. Thread-safe: yes.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  void release(std::byte* start, std::size_t bytes) noexcept;
  /// Returns the offset of `[data, data + bytes)` in this rank's region; kNowhere if it is outside.
  [[nodiscard]] std::uint64_t offset_of(const std::byte* data, std::size_t bytes) noexcept;

  [[nodiscard]] bool has_failed() noexcept { return head().failure.load(std::memory_order_acquire) != 0; }
  /// Returns the group's failure: the rank of this group to blame, and the text from the rank that recorded it. kPeer:
  /// a rank of another host died or failed. kNone: the group has not failed. A rank's own error is also in the store.
  [[nodiscard]] FailureRecord failure();
  /// Records a failure; only the first call on any rank takes effect. `words` go into this rank's slot. Wakes all
  /// waiting ranks.
  void fail(FailureKind kind, int subject, const std::string& words) noexcept;
  void wake_all() noexcept;

 private:
  /// Memory that is unmapped with its last user.
  struct Mapping {
    Mapping(UniqueFd file, std::size_t size);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    UniqueFd fd;
    std::size_t bytes = 0;
    std::byte* base = nullptr;
  };

  Segment(std::shared_ptr<Mapping> mapping, int world, int rank, std::size_t region_bytes);
  void reserve(std::size_t offset, std::size_t bytes);

  std::shared_ptr<Mapping> mapping_;
  const int world_;
  const int rank_;
  const std::size_t region_bytes_;
  std::mutex failing_;  ///< held by the one thread that writes this rank's text
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< free memory: offset in the region, and bytes
};

}  // namespace lockstep::comm
