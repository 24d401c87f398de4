// SPDX-License-Identifier: Apache-2.0
#include "dashboard/ring_file.h"

#include <sys/mman.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::dashboard {

namespace fs = std::filesystem;

RingFile::~RingFile() { unmap(); }

void RingFile::unmap() {
  if (ring_ != nullptr) ::munmap(const_cast<flight::Ring*>(ring_), sizeof(flight::Ring));
  ring_ = nullptr;
  target_.clear();
}

bool RingFile::is_link() const {
  std::error_code problem;
  return fs::is_symlink(fs::symlink_status(file_, problem));
}

// Only the launcher's memory is mapped: its size cannot change, and that of a file can.
bool RingFile::map() {
  std::error_code problem;
  const fs::path link = fs::read_symlink(file_, problem);
  if (ring_ != nullptr && target_ == link.string() && fs::exists(link, problem)) return true;
  unmap();
  try {
    const UniqueFd memory = flight::open_ring_file(file_);
    void* at = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED) return false;
    ring_ = static_cast<const flight::Ring*>(at);
    target_ = link.string();
    return true;
  } catch (const Error&) {  // the launcher is gone, or the link leads elsewhere
    return false;
  }
}

std::optional<flight::Snapshot> RingFile::state() {
  if (!is_link()) return events();
  if (!map() || ring_->magic.load() != flight::kMagic) return std::nullopt;
  return flight::copy_state(*ring_);
}

std::optional<flight::Snapshot> RingFile::events() {
  if (is_link()) {
    if (!map() || ring_->magic.load() != flight::kMagic) return std::nullopt;
    return flight::copy_ring(*ring_);
  }
  unmap();
  std::error_code problem;
  const auto time = fs::last_write_time(file_, problem);
  if (problem) return std::nullopt;
  if (kept_ && time == kept_time_) return kept_;
  try {
    kept_ = flight::read_ring_file(file_);
    kept_time_ = time;
  } catch (const Error&) {
    kept_.reset();
  }
  return kept_;
}

}  // namespace lockstep::dashboard
