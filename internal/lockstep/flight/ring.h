// SPDX-License-Identifier: Apache-2.0
// The flight recorder's memory: a ring of a rank's last events. Other processes read it while the rank hangs and after
// it has been killed. It is modeled on PyTorch's flight recorder, but works with every backend and is always on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::flight {

inline constexpr std::size_t kEvents = 4096;  ///< number of events in the ring, a power of two
inline constexpr std::size_t kLanes = 32;     ///< number of lanes: the first half for the host, the second for the GPU
inline constexpr int kDeviceLanes = 16;     ///< first lane of the GPU: group g uses lane kDeviceLanes + g, if it exists
inline constexpr std::size_t kNames = 128;  ///< number of names of operations and sections; later names become "other"
inline constexpr std::size_t kDepth = 8;    ///< number of nested sections; deeper sections are only recorded as events

/// The type of an event.
enum class EventType : std::uint8_t {
  kNone,             ///< an empty slot
  kCollectiveBegin,  ///< a collective was called
  kCollectiveEnd,    ///< a collective has completed
  kSectionBegin,     ///< a section began
  kSectionEnd,       ///< a section ended
  kCollectiveFailed  ///< a collective ended with an error
};

/// An event in 64 bytes, one cache line.
struct alignas(64) EventSlot {
  std::atomic<std::uint64_t> stamp;     ///< the event's number + 1; 0 while it is being written
  std::atomic<std::int64_t> time_ns;    ///< CLOCK_MONOTONIC, the same for all processes of a host
  std::atomic<std::uint64_t> sequence;  ///< number of a collective in its group
  std::atomic<std::uint64_t> bytes;     ///< size of the collective's data
  std::atomic<std::int64_t> step;       ///< the step at that moment; -1: outside a step
  std::atomic<std::uint64_t> kind;      ///< `EventType`, name, group, bucket and number of buckets
  std::atomic<std::int64_t> other_ns;   ///< when a collective was called (begin event), or when a thread began waiting
                                        ///< for it (end event); Event::queued_ns of a section; 0: unknown, none
};

/// The collectives of one group.
struct alignas(64) LaneSlot {
  std::atomic<std::uint64_t> version;    ///< odd while the rest is being written
  std::atomic<std::uint64_t> started;    ///< number of the last collective that began
  std::atomic<std::uint64_t> finished;   ///< number of the last collective that ended
  std::atomic<std::int64_t> started_ns;  ///< CLOCK_MONOTONIC when the last collective began
  std::atomic<std::uint64_t> bytes;      ///< size of the last collective's data
  std::atomic<std::uint64_t> kind;       ///< the same as in EventSlot
};

/// A section that the main thread is in.
struct SectionSlot {
  std::atomic<std::uint64_t> name;     ///< its index in Ring::names
  std::atomic<std::int64_t> since_ns;  ///< CLOCK_MONOTONIC when it began
  std::atomic<std::int64_t> limit_ns;  ///< limit only for this section; 0: none
};

/// A name that events refer to by its index.
struct NameSlot {
  std::atomic<std::uint32_t> is_ready;   ///< 1 once the text is complete
  char text[44];                         ///< ends with 0
  std::atomic<std::int64_t> longest_ns;  ///< duration of the main thread's longest section; 0: no section has ended yet
  std::atomic<std::int64_t> limit_ns;    ///< limit that the user has set; 0: it is learned; below 0: no limit
};

/// The whole file.
struct Ring {
  std::atomic<std::uint64_t> magic;  ///< kMagic once the ring is ready
  std::atomic<std::int32_t> pid;     ///< the rank's process
  std::int32_t rank;                 ///< the rank's number
  std::int32_t world_size;           ///< the number of ranks
  std::int32_t unused;               ///< aligns the next members to 8 bytes
  std::int64_t clock_offset_ns;      ///< CLOCK_REALTIME - CLOCK_MONOTONIC at the start of the ring
  std::int64_t timeout_ns;           ///< timeout of the rank's collectives; 0: unknown
  char host[64];                     ///< the host's name; ends with 0
  /// This rank's collectives do not time out before this time: the launcher has seen that another rank is in a
  /// long-running section.
  alignas(64) std::atomic<std::int64_t> patience_ns;
  alignas(64) std::atomic<std::uint64_t> next;  ///< number of the next event
  std::atomic<std::int64_t> step;               ///< the current step; -1: outside a step
  std::atomic<std::uint64_t> depth;             ///< number of sections that the main thread is in
  std::array<SectionSlot, kDepth> sections;     ///< the main thread's sections, outermost first
  std::array<LaneSlot, kLanes> lanes;           ///< for each group, a lane for the host and a lane for the GPU
  std::array<NameSlot, kNames> names;           ///< names of collectives and sections
  std::array<EventSlot, kEvents> events;        ///< the events, each at its number modulo kEvents
};

/// The first bytes of a ring that is ready.
inline constexpr std::uint64_t kMagic = 0x3254'4847'494c'464c;  // "LFLIGHT2"

/// The rank that a ring belongs to.
struct RingOwner {
  int pid = 0;                  ///< the rank's process
  int rank = 0;                 ///< the rank's number
  int world_size = 1;           ///< the number of ranks
  std::string_view host = {};   ///< the host's name
  std::int64_t timeout_ns = 0;  ///< timeout of the rank's collectives; 0: unknown
};

/// Writes events into a ring. It is lock-free and makes no system calls. Thread-safe: yes; only the thread that created
/// the writer may call enter() and leave().
class Writer {
 public:
  /// Clears the ring. Lifetime: `ring` outlives the writer.
  Writer(Ring& ring, const RingOwner& owner) noexcept;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// A collective, for begin() and end().
  struct Call {
    std::string_view name;       ///< has static lifetime
    std::uint64_t sequence = 0;  ///< number in its group
    std::uint64_t bytes = 0;     ///< size of the data
    int group = 0;               ///< its group's index in this process
    int bucket = -1;             ///< index of its gradient bucket; -1 if none
    int buckets = 0;             ///< number of buckets
    bool has_failed = false;     ///< for end(): true if it failed; the rank then still counts as waiting in it
    std::int64_t called_ns = 0;  ///< CLOCK_MONOTONIC when it was called; 0: unknown
    std::int64_t waited_ns = 0;  ///< for end(): CLOCK_MONOTONIC when a thread began waiting for it; 0 if none has
  };
  /// Records that a collective begins.
  void begin(const Call& call) noexcept;
  /// Records that a collective has completed or failed.
  void end(const Call& call) noexcept;
  /// Records that the rank's GPU begins a collective. It sets the GPU lane of `call.group` and adds no event.
  void begin_on_device(const Call& call) noexcept;
  /// Records that the rank's GPU has completed the collective.
  void end_on_device(const Call& call) noexcept;

  /// Records that a section begins. `name` must have static lifetime. `limit_ns` is a limit only for this section; 0:
  /// the limit of its name. For `queued_ns` see Event::queued_ns.
  void enter(std::string_view name, std::int64_t limit_ns = 0, std::int64_t queued_ns = 0) noexcept;
  /// Records that the section ends; the main thread is then in the enclosing section.
  void leave(std::string_view name, std::int64_t queued_ns = 0) noexcept;
  /// Records an event of another thread's section, without changing the main thread's sections.
  void note_section(EventType type, std::string_view name) noexcept;

  /// Sets the time limit of sections with this name; 0: it is learned; below 0: no limit.
  void set_limit(std::string_view name, std::int64_t limit_ns) noexcept;

  /// Sets the step of later events; -1 outside a step.
  void set_step(std::int64_t step) noexcept { ring_.step.store(step, std::memory_order_relaxed); }

 private:
  void push(EventType type, const Call& call, std::int64_t time_ns) noexcept;
  [[nodiscard]] std::uint64_t id_of(std::string_view name) noexcept;

  Ring& ring_;
  std::array<std::atomic<const char*>, kNames> known_{};
};

/// Returns CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] std::int64_t now_ns() noexcept;

}  // namespace lockstep::flight

#pragma GCC visibility pop
