// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/flight_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {

namespace fs = std::filesystem;

namespace {

// Maps the memory. No process can shrink it, so a rank cannot make it unsafe to read.
flight::Ring* map(int memory) {
  if (memory < 0 || ::ftruncate(memory, sizeof(flight::Ring)) != 0 ||
      ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return nullptr;
  }
  void* at = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  return at == MAP_FAILED ? nullptr : static_cast<flight::Ring*>(at);
}

}  // namespace

FlightRing::FlightRing(fs::path file)
    : file_(std::move(file)),
      memory_(::memfd_create("lockstep-flight", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      ring_(map(memory_.get())) {
  if (ring_ == nullptr) {
    log::note("no flight recorder for {}: {}", file_.string(), error_words(errno));
    memory_.reset();
    return;
  }
  std::error_code problem;
  fs::remove(file_, problem);
  fs::create_symlink(path(), file_, problem);
}

FlightRing::~FlightRing() {
  if (ring_ == nullptr) return;
  std::error_code problem;
  fs::remove(file_, problem);
  if (has_begun()) keep();
  ::munmap(ring_, sizeof(flight::Ring));
}

void FlightRing::keep() {
  const UniqueFd kept(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!kept.valid() || ::write(kept.get(), ring_, sizeof(flight::Ring)) != sizeof(flight::Ring)) {
    log::note("the flight ring {} was not kept: {}", file_.string(), error_words(errno));
  }
}

std::string FlightRing::path() const {
  // Uses the process ID in /proc/self: if /proc belongs to another PID namespace, the number from getpid() refers to a
  // different process there, and a rank would open that process's file.
  std::error_code problem;
  const std::string self = fs::read_symlink("/proc/self", problem).string();
  return memory_.valid() && !problem ? fmt::format("/proc/{}/fd/{}", self, memory_.get()) : "";
}

bool FlightRing::has_begun() const {
  return ring_ != nullptr && ring_->magic.load(std::memory_order_acquire) == flight::kMagic;
}

std::optional<flight::Snapshot> FlightRing::state() const {
  return has_begun() ? std::optional(flight::copy_state(*ring_)) : std::nullopt;
}

std::optional<flight::Snapshot> FlightRing::read() const {
  return has_begun() ? std::optional(flight::copy_ring(*ring_)) : std::nullopt;
}

void FlightRing::set_patience(std::int64_t until_ns) {
  if (ring_ != nullptr) ring_->patience_ns.store(until_ns, std::memory_order_relaxed);
}

}  // namespace lockstep::launch
