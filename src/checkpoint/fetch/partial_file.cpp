// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fetch/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/fetch/cache_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostTagBytes = 8192;
constexpr const char* kRoomHint =
    "free space there, make it writable, or set XDG_CACHE_HOME to a folder on another disk";

[[noreturn]] void fail_part(const char* verb, const std::filesystem::path& path) {
  const int code = errno;
  throw IoError(fmt::format("cannot {} {}: {}", verb, path.string(), error_words(code)),
                code == EFBIG ? write_remedy(code) : kRoomHint);
}

}  // namespace

PartialFile::PartialFile(const std::filesystem::path& path) : path_(path) {
  file_ = open_cache_file(part_path(), O_APPEND, kRoomHint);
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_part("open", part_path());
  if (has_cache_file(tag_path()) && fs::file_size(tag_path()) <= kMostTagBytes) {
    tag_ = FileSystem::system().read(tag_path(), kMostTagBytes);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ > 0 && tag_.empty()) restart("");
}

std::filesystem::path PartialFile::part_path() const { return path_.string() + ".part"; }

std::filesystem::path PartialFile::tag_path() const { return path_.string() + ".part.tag"; }

void PartialFile::restart(const std::string& tag) {
  // Removes the old tag first, and writes the new tag before new bytes, so that a tag never describes the wrong bytes.
  FileSystem::system().remove(tag_path());
  if (::ftruncate(file_.get(), 0) != 0) fail_part("empty", part_path());
  size_ = 0;
  tag_ = tag;
  if (!tag.empty()) write_file_atomically(FileSystem::system(), tag_path(), tag);
}

void PartialFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_part("write", part_path());
    size_ += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void PartialFile::finish() {
  if (::fsync(file_.get()) != 0) {
    const int cause = errno;
    remove();  // a later read may return bytes that did not reach the disk
    errno = cause;
    fail_part("sync", part_path());
  }
  FileSystem& files = FileSystem::system();
  files.rename(part_path(), path_);
  files.remove(tag_path());
  files.sync_folder(path_.parent_path());
}

void PartialFile::remove() {
  FileSystem::system().remove(part_path());
  FileSystem::system().remove(tag_path());
}

}  // namespace lockstep::checkpoint
