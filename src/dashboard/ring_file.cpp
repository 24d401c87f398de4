// SPDX-License-Identifier: Apache-2.0
#include "dashboard/ring_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

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
  const std::string target = problem ? "" : fs::read_symlink(link, problem).string();
  if (target.find("memfd:lockstep-flight") == std::string::npos) {
    unmap();
    return false;
  }
  if (ring_ != nullptr && target_ == link.string()) return true;
  unmap();
  const UniqueFd file(::open(link.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return false;
  if (static_cast<std::size_t>(status.st_size) < sizeof(flight::Ring)) return false;
  void* memory = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return false;
  ring_ = static_cast<const flight::Ring*>(memory);
  target_ = link.string();
  return true;
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
