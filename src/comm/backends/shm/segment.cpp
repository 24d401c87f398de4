// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "comm/backends/shm/futex.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMaxRegion = std::size_t{64} << 30;

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t pairs_start(int world) { return 128 + static_cast<std::size_t>(world) * sizeof(RankSlot); }

std::size_t head_bytes(int world) {
  const auto pairs = static_cast<std::size_t>(world) * static_cast<std::size_t>(world);
  return round_up(pairs_start(world) + pairs * sizeof(PairSlot));
}

/// Returns the value `name` from /proc/meminfo in bytes; none if it cannot be read.
std::optional<std::size_t> memory_figure(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    if (key == name + ":") return kib << 10;
    std::getline(file, unit);
  }
  return std::nullopt;
}

std::size_t mapped_bytes(int world, std::size_t region_bytes) {
  return head_bytes(world) + static_cast<std::size_t>(world) * region_bytes;
}

ResourceError memory_error(std::size_t bytes, const std::string& why) {
  const auto available = memory_figure("MemAvailable");
  return ResourceError(fmt::format("cannot allocate {} of shared memory between the ranks: {} ({} of memory available)",
                                   text::bytes(bytes), why, available ? text::bytes(*available) : "unknown amount"),
                       "run fewer ranks on this host, use a smaller model, or --backend tcp");
}

/// Creates the error for a call that failed with `error`. A process limit, if there is one, is a likelier cause than
/// the host's memory.
ResourceError call_error(std::size_t bytes, const char* call, int error) {
  if (error == EFBIG) {  // the file size limit also applies to a memfd
    return ResourceError(fmt::format("cannot share {} of memory between the ranks by {}: {}", text::bytes(bytes), call,
                                     error_words(error)),
                         fmt::format("{}; or --backend tcp", write_remedy(error)));
  }
  if (error != EMFILE && !resource_limits().address_space) {
    return memory_error(bytes, fmt::format("{}: {}", call, std::strerror(error)));
  }
  return shortage_error(fmt::format("share {} of memory between the ranks by {}", text::bytes(bytes), call), error);
}

}  // namespace

std::shared_ptr<Segment> Segment::create(int world) {
  UniqueFd fd(memfd_create("lockstep", MFD_CLOEXEC));
  if (!fd.valid()) throw call_error(head_bytes(world), "memfd_create", errno);
  const std::size_t total = memory_figure("MemTotal").value_or(kMaxRegion);
  const std::size_t region = std::min(kMaxRegion, round_up(total) + 2 * kStagingBytes);
  const std::size_t bytes = mapped_bytes(world, region);
  std::shared_ptr<Segment> segment(new Segment(std::make_shared<Mapping>(std::move(fd), bytes), world, 0, region));
  segment->head().world = static_cast<std::uint64_t>(world);
  segment->head().region_bytes = region;
  return segment;
}

std::shared_ptr<Segment> Segment::open(UniqueFd fd, int world, int rank) {
  SegmentHead head{};
  if (pread(fd.get(), &head, sizeof(std::uint64_t) * 2, 0) != sizeof(std::uint64_t) * 2 ||
      head.world != static_cast<std::uint64_t>(world)) {
    throw ResourceError("the shared memory that rank 0 passed does not belong to this job");
  }
  const std::size_t bytes = mapped_bytes(world, head.region_bytes);
  return std::shared_ptr<Segment>(
      new Segment(std::make_shared<Mapping>(std::move(fd), bytes), world, rank, head.region_bytes));
}

std::shared_ptr<Segment> Segment::share(const Segment& other, int rank) {
  return std::shared_ptr<Segment>(new Segment(other.mapping_, other.world_, rank, other.region_bytes_));
}

Segment::Mapping::Mapping(UniqueFd file, std::size_t size) : fd(std::move(file)), bytes(size) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (start == MAP_FAILED) throw call_error(bytes, "mmap", errno);
  base = static_cast<std::byte*>(start);
  // Excludes the segment from core dumps: gradients are useless there.
  madvise(start, bytes, MADV_DONTDUMP);
}

Segment::Mapping::~Mapping() {
  if (base != nullptr) munmap(base, bytes);
}

Segment::Segment(std::shared_ptr<Mapping> mapping, int world, int rank, std::size_t region_bytes)
    : mapping_(std::move(mapping)), world_(world), rank_(rank), region_bytes_(region_bytes) {
  if (rank == 0) reserve(0, head_bytes(world));
  reserve(static_cast<std::size_t>(region(rank) - mapping_->base), 2 * kStagingBytes);
  free_[2 * kStagingBytes] = region_bytes - 2 * kStagingBytes;
}

RankSlot& Segment::slot(int rank) noexcept {
  return *reinterpret_cast<RankSlot*>(mapping_->base + 128 + static_cast<std::size_t>(rank) * sizeof(RankSlot));
}

PairSlot& Segment::pair(int from, int to) noexcept {
  const auto index = static_cast<std::size_t>(from) * static_cast<std::size_t>(world_) + static_cast<std::size_t>(to);
  return *reinterpret_cast<PairSlot*>(mapping_->base + pairs_start(world_) + index * sizeof(PairSlot));
}

std::byte* Segment::region(int rank) noexcept {
  return mapping_->base + head_bytes(world_) + static_cast<std::size_t>(rank) * region_bytes_;
}

std::byte* Segment::staging(int rank, std::uint64_t parity) noexcept {
  return region(rank) + (parity & 1) * kStagingBytes;
}

void Segment::reserve(std::size_t offset, std::size_t bytes) {
  // fallocate() of a memfd may trigger the out-of-memory killer instead of an error, so this checks the free memory
  // first.
  const auto available = memory_figure("MemAvailable");
  if (available && bytes > *available) throw memory_error(bytes, "there is not enough memory");
  int problem = EINTR;
  while (problem == EINTR)
    problem = posix_fallocate(mapping_->fd.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (problem == EFBIG) throw call_error(bytes, "posix_fallocate", problem);
  if (problem != 0) throw memory_error(bytes, std::strerror(problem));
}

std::byte* Segment::allocate(std::size_t bytes) {
  if (bytes > region_bytes_) throw memory_error(bytes, "it is more than the machine has");
  const std::size_t size = std::max(round_up(bytes), kPage);
  const std::lock_guard lock(mutex_);
  const auto hole = std::find_if(free_.begin(), free_.end(), [&](const auto& entry) { return entry.second >= size; });
  if (hole == free_.end()) throw memory_error(bytes, "the rank's region is full");
  const auto [offset, room] = *hole;
  reserve(static_cast<std::size_t>(region(rank_) - mapping_->base) + offset, size);
  free_.erase(hole);
  if (room > size) free_[offset + size] = room - size;
  return region(rank_) + offset;
}

void Segment::release(std::byte* start, std::size_t bytes) noexcept {
  const std::size_t size = std::max(round_up(bytes), kPage);
  auto offset = static_cast<std::size_t>(start - region(rank_));
  const std::lock_guard lock(mutex_);
  // Returns the pages to the system; the range then reads as zeros.
  fallocate(mapping_->fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start - mapping_->base),
            static_cast<off_t>(size));
  std::size_t room = size;
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + size) {
    room += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      room += before->second;
    }
  }
  free_[offset] = room;
}

std::uint64_t Segment::offset_of(const std::byte* data, std::size_t bytes) noexcept {
  const std::byte* start = region(rank_);
  if (data < start || data + bytes > start + region_bytes_) return kNowhere;
  return static_cast<std::uint64_t>(data - start);
}

FailureRecord Segment::failure() {
  const std::uint32_t word = head().failure.load(std::memory_order_acquire);
  if (word == 0) return {.kind = FailureKind::kNone};
  return {.kind = static_cast<FailureKind>(word >> 24),
          .message = slot(static_cast<int>(word & 0xFFF)).words,
          .rank = static_cast<int>(word >> 12 & 0xFFF)};
}

void Segment::fail(FailureKind kind, int subject, const std::string& words) noexcept {
  const std::lock_guard lock(failing_);
  RankSlot& own_slot = slot(rank_);
  if (!has_failed()) {
    const std::size_t size = std::min(words.size(), sizeof(own_slot.words) - 1);
    std::memcpy(own_slot.words, words.data(), size);
    own_slot.words[size] = '\0';
    std::uint32_t none = 0;
    const auto word = static_cast<std::uint32_t>(kind) << 24 | static_cast<std::uint32_t>(subject) << 12 |
                      static_cast<std::uint32_t>(rank_);
    head().failure.compare_exchange_strong(none, word, std::memory_order_acq_rel);
  }
  wake_all();
}

void Segment::wake_all() noexcept {
  for (int rank = 0; rank < world_; ++rank) {
    futex_wake(slot(rank).arrived);
    for (int other = 0; other < world_; ++other) {
      PairSlot& stream = pair(rank, other);
      if (stream.reader_waits.load() != 0) futex_wake(stream.written);
      if (stream.writer_waits.load() != 0) futex_wake(stream.read);
    }
  }
}

}  // namespace lockstep::comm
