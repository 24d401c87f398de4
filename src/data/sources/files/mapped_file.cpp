// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"

namespace lockstep::data {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // The file is closed at once, because the mapping remains: a set of a thousand shards needs no open files.
  const UniqueFd fd = open_regular_file(path_);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw IoError(fmt::format("cannot open {}: {}", path_.string(), std::strerror(errno)));
  }
  inode_ = status.st_ino;
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    throw_cannot(fmt::format("map {}, {} bytes", path_.string(), size_), error);
  }
  data_ = static_cast<const char*>(mapped);
  // Samples are read in random order, so reading ahead would be useless. It does not matter if this advice fails.
  (void)::madvise(mapped, size_, MADV_RANDOM);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

void MappedFile::will_need(std::size_t offset, std::size_t size) const noexcept {
  static const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / kPage * kPage;
  (void)::madvise(const_cast<char*>(data_) + begin, size + (offset - begin), MADV_WILLNEED);
}

bool MappedFile::whole() const noexcept {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || status.st_ino != inode_) return true;
  return static_cast<std::size_t>(status.st_size) >= size_;
}

}  // namespace lockstep::data
