// SPDX-License-Identifier: Apache-2.0
// The flight recorder's memory: a ring of a rank's last events, which others read while the rank hangs and after it was
// killed. After PyTorch's flight recorder; this one works on every backend and is always on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::flight {

inline constexpr std::size_t kEvents = 4096;  ///< a power of two
inline constexpr std::size_t kLanes = 16;     ///< groups whose state is kept; later ones share the last
inline constexpr std::size_t kNames = 128;    ///< operations and sections; later ones are "other"
inline constexpr std::size_t kDepth = 8;      ///< sections inside each other; deeper ones are only events

enum class What : std::uint8_t {
  kNone,
  kCollectiveBegin,
  kCollectiveEnd,
  kSectionBegin,
  kSectionEnd,
  kCollectiveFailed
};

/// 64 bytes, one cache line. `stamp` is the event's number + 1 once it is whole, and 0 while it is written.
struct alignas(64) EventSlot {
  std::atomic<std::uint64_t> stamp;
  std::atomic<std::int64_t> time_ns;  ///< CLOCK_MONOTONIC, the same for all processes of a host
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::int64_t> step;
  std::atomic<std::uint64_t> kind;  ///< What, name, group, bucket and number of buckets
};

/// The collectives of one group. `version` is odd while the rest is written.
struct alignas(64) LaneSlot {
  std::atomic<std::uint64_t> version;
  std::atomic<std::uint64_t> started;   ///< number of the last collective that began
  std::atomic<std::uint64_t> finished;  ///< and of the last that ended
  std::atomic<std::int64_t> started_ns;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> kind;
};

struct SectionSlot {
  std::atomic<std::uint64_t> name;
  std::atomic<std::int64_t> since_ns;
  std::atomic<std::int64_t> limit_ns;  ///< that its scope object gives; 0: none of its own
};

struct NameSlot {
  std::atomic<std::uint32_t> is_ready;
  char text[44];                         ///< ends with 0
  std::atomic<std::int64_t> longest_ns;  ///< of a section of the main thread; 0: none has ended yet
  std::atomic<std::int64_t> limit_ns;    ///< set by the user; 0: learned; below 0: none
};

/// The whole file: it begins with kMagic once it is ready.
struct Ring {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> pid;
  std::int32_t rank;
  std::int32_t world_size;
  std::int32_t unused;
  std::int64_t clock_offset_ns;  ///< CLOCK_REALTIME - CLOCK_MONOTONIC, when the ring began
  std::int64_t timeout_ns;       ///< how long the rank's collectives wait; 0: unknown
  char host[64];
  /// Until then no collective of this rank gives up: the launcher has seen that another rank does long work.
  alignas(64) std::atomic<std::int64_t> patience_ns;
  alignas(64) std::atomic<std::uint64_t> next;  ///< number of the next event
  std::atomic<std::int64_t> step;               ///< -1: outside of a step
  std::atomic<std::uint64_t> depth;
  std::array<SectionSlot, kDepth> sections;  ///< of the main thread, outermost first
  std::array<LaneSlot, kLanes> lanes;
  std::array<NameSlot, kNames> names;
  std::array<EventSlot, kEvents> events;
};

inline constexpr std::uint64_t kMagic = 0x3254'4847'494c'464c;  // "LFLIGHT2"

struct RingOwner {
  int pid = 0;
  int rank = 0;
  int world_size = 1;
  std::string_view host = {};
  std::int64_t timeout_ns = 0;
};

/// Writes events into a ring. Lock-free, without system calls.
/// Thread-safe: yes; enter() and leave() belong to the thread that made it.
class Writer {
 public:
  /// Begins the ring anew: `ring` is any memory of that size. Lifetime: it outlives the writer.
  Writer(Ring& ring, const RingOwner& owner) noexcept;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  struct Call {
    std::string_view name;  ///< lives for the whole program
    std::uint64_t sequence = 0;
    std::uint64_t bytes = 0;
    int group = 0;
    int bucket = -1;
    int buckets = 0;
    bool has_failed = false;  ///< at its end: it stays the one that the rank waits in
  };
  void begin(const Call& call) noexcept;
  void end(const Call& call) noexcept;

  /// `name` lives for the whole program; `limit_ns`: how long this once it may take, 0 where its name says that.
  void enter(std::string_view name, std::int64_t limit_ns = 0) noexcept;
  void leave(std::string_view name) noexcept;
  /// An event of another thread's section: it does not change where the main thread is.
  void note_section(What what, std::string_view name) noexcept;

  /// The time that a section of this name may take: above 0; 0: learned; below 0: any.
  void set_limit(std::string_view name, std::int64_t limit_ns) noexcept;

  void set_step(std::int64_t step) noexcept { ring_.step.store(step, std::memory_order_relaxed); }

 private:
  void push(What what, const Call& call, std::int64_t time_ns) noexcept;
  [[nodiscard]] std::uint64_t id_of(std::string_view name) noexcept;

  Ring& ring_;
  std::array<std::atomic<const char*>, kNames> known_{};
};

/// Nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t now_ns() noexcept;

}  // namespace lockstep::flight

#pragma GCC visibility pop
