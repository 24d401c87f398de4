// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <system_error>

#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/flight/ring.h"

namespace lockstep::flight {
namespace {

thread_local bool is_main_thread = false;

/// Measures the time during which the calling thread was ready to run but waited for a core, because other programs or
/// threads used it. It asks the kernel at most every half millisecond; a query takes 0.8 us. Only the thread that
/// created it may use it.
class CoreQueue {
 public:
  CoreQueue() noexcept : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

  /// Returns the nanoseconds spent waiting since the thread started (up to half a millisecond stale); 0 if unknown.
  [[nodiscard]] std::int64_t waited_ns() noexcept {
    constexpr std::int64_t kPause = 500'000;
    const std::int64_t now = now_ns();
    if (!file_.valid() || now - asked_ < kPause) return waited_;
    asked_ = now;
    const int before = errno;
    std::array<char, 96> text{};  // "NANOSECONDS_RUN NANOSECONDS_WAITED TIMES"
    const ssize_t count = ::pread(file_.get(), text.data(), text.size() - 1, 0);
    errno = before;
    const char* const end = text.data() + std::max<ssize_t>(count, 0);
    const char* const space = std::find(static_cast<const char*>(text.data()), end, ' ');
    if (space != end) std::from_chars(space + 1, end, waited_);
    return waited_;
  }

 private:
  UniqueFd file_;
  std::int64_t asked_ = 0;
  std::int64_t waited_ = 0;
};

class Recorder final : public trace::Sink {
 public:
  Recorder(Ring& ring, const RingOwner& owner) noexcept : ring_(ring), writer_(ring, owner) {}

  void begin(const trace::Event& event) noexcept override {
    if (event.sequence != 0) {
      writer_.begin(call_of(event));
    } else if (is_main_thread) {
      writer_.enter(event.name, std::chrono::nanoseconds(event.limit).count(), queue_.waited_ns());
    } else {
      writer_.note_section(EventType::kSectionBegin, event.name);
    }
  }
  void end(const trace::Event& event) noexcept override {
    if (event.sequence != 0) {
      writer_.end(call_of(event));
    } else if (is_main_thread) {
      writer_.leave(event.name, queue_.waited_ns());
    } else {
      writer_.note_section(EventType::kSectionEnd, event.name);
    }
  }
  void step(std::int64_t step) noexcept override { writer_.set_step(step); }

  void note_on_device(const trace::Event& event, bool ends) noexcept {
    ends ? writer_.end_on_device(call_of(event)) : writer_.begin_on_device(call_of(event));
  }

  [[nodiscard]] const Ring& ring() const noexcept { return ring_; }
  [[nodiscard]] Writer& writer() noexcept { return writer_; }

 private:
  static Writer::Call call_of(const trace::Event& event) noexcept {
    return {event.name,    event.sequence,   event.bytes,     event.group,    event.bucket,
            event.buckets, event.has_failed, event.called_ns, event.waited_ns};
  }

  Ring& ring_;
  Writer writer_;
  CoreQueue queue_;
};

// Never destroyed: threads may report after main().
std::atomic<Recorder*> recorder{nullptr};

// Maps the ring. It allocates the pages now, so that an event does not wait for a page fault.
Ring* map(int fd) {
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_POPULATE;
  void* memory = ::mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, flags, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Ring*>(memory);
}

bool is_in_use(const Ring& ring) {
  const int pid = ring.pid.load();
  return ring.magic.load() == kMagic && pid > 0 && pid != ::getpid() && ::kill(pid, 0) == 0;
}

Ring* map_file(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
  struct stat status {};
  Ring* ring = nullptr;
  const bool is_file = fd.valid() && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (is_file &&
      (static_cast<std::size_t>(status.st_size) >= sizeof(Ring) || ::ftruncate(fd.get(), sizeof(Ring)) == 0)) {
    ring = map(fd.get());
  }
  if (ring == nullptr) {
    log::note("the flight recorder cannot use {} ({}): no other process can see what this rank does", file.string(),
              std::generic_category().message(errno));
    return nullptr;
  }
  if (!is_in_use(*ring)) return ring;
  ::munmap(ring, sizeof(Ring));
  log::debug("the flight ring {} belongs to another process of this rank", file.string());
  return nullptr;
}

}  // namespace

void start_recorder(const RecorderOptions& options) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (recorder.load() != nullptr) return;
  Ring* ring = options.file.empty() ? nullptr : map_file(options.file);
  if (ring == nullptr) ring = map(-1);
  if (ring == nullptr) return;
  is_main_thread = true;
  auto* const made = new Recorder(*ring, {::getpid(), options.rank, options.world_size, options.host,
                                          std::chrono::nanoseconds(options.timeout).count()});
  if (!trace::add_sink(*made)) return;  // never destroyed: a thread may be using it
  recorder.store(made, std::memory_order_release);
}

void note_on_device(const trace::Event& event, bool ends) noexcept {
  Recorder* const running = recorder.load(std::memory_order_acquire);
  if (running != nullptr) running->note_on_device(event, ends);
}

void limit_section(std::string_view name, std::chrono::milliseconds limit) {
  Recorder* const running = recorder.load(std::memory_order_acquire);
  if (running == nullptr) return;
  // The ring identifies names by their address, so the strings are kept.
  static std::mutex mutex;
  static std::map<std::string, std::int64_t, std::less<>> kept;
  const std::lock_guard lock(mutex);
  const std::string_view lasting = kept.try_emplace(std::string(name), 0).first->first;
  running->writer().set_limit(lasting, limit.count() == 0 ? -1 : std::chrono::nanoseconds(limit).count());
}

std::chrono::steady_clock::time_point patience() noexcept {
  const Recorder* const running = recorder.load(std::memory_order_acquire);
  const std::int64_t until = running == nullptr ? 0 : running->ring().patience_ns.load(std::memory_order_relaxed);
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until));
}

}  // namespace lockstep::flight
