// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"

namespace lockstep {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) reset(other.release());
  return *this;
}

int UniqueFd::release() noexcept { return std::exchange(fd_, -1); }

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

namespace {

namespace fs = std::filesystem;

template <class SomeError = IoError>
[[noreturn]] void fail(std::string_view verb, const fs::path& path, int code) {
  throw SomeError(fmt::format("cannot {} {}: {}", verb, path.string(), error_words(code)), write_remedy(code));
}

void check(const std::error_code& code, std::string_view verb, const fs::path& path) {
  if (code) fail(verb, path, code.value());
}

/// Returns the kind of a file that is not regular; nullptr for a regular file.
const char* special_kind(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return nullptr;
    case S_IFIFO:
      return "a named pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFDIR:
      return "a folder";
    default:
      return "a special file";
  }
}

/// Returns true for a shell's <(COMMAND), or standard input.
bool is_own_descriptor(const std::string& path) {
  return path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin";
}

void require_regular(const fs::path& path, mode_t mode) {
  const char* kind = special_kind(mode);
  if (kind == nullptr) return;
  const bool is_piped = S_ISFIFO(mode) && is_own_descriptor(path.string());
  throw DataError(fmt::format("{} is {}, not a regular file", path.string(), is_piped ? "a pipe" : kind),
                  is_piped ? "write the command's output to a file first, and pass that file" : "pass a regular file");
}

class PosixFile final : public WritableFile {
 public:
  explicit PosixFile(const fs::path& path)
      : path_(path), fd_(try_open_regular_file(path, O_WRONLY | O_CREAT | O_TRUNC)) {
    if (!fd_.valid()) fail("create", path_, errno);
  }

  void append(const void* data, std::size_t size) override {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
      // write(2) rejects more than INT_MAX bytes at once.
      const ssize_t written = ::write(fd_.get(), bytes, std::min<std::size_t>(size, 1U << 30U));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      bytes += written;
      size -= static_cast<std::size_t>(written);
    }
  }

  void sync() override {
    if (::fsync(fd_.get()) != 0) fail<SyncError>("fsync", path_, errno);
  }

 private:
  fs::path path_;
  UniqueFd fd_;
};

[[noreturn]] void fail_short(const fs::path& path, std::uint64_t end) {
  throw DataError(fmt::format("{} ends before byte {}: it was truncated while it was being read", path.string(), end));
}

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(const fs::path& path) : path_(path), fd_(open_regular_file(path)) {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail("stat", path_, errno);
    size_ = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, void* data, std::size_t size) override {
    auto* bytes = static_cast<char*>(data);
    while (size > 0) {
      const std::size_t piece = std::min<std::size_t>(size, 1U << 30U);
      const ssize_t got = ::pread(fd_.get(), bytes, piece, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path_, errno);
      if (got == 0) fail_short(path_, offset + size);
      bytes += got;
      offset += static_cast<std::uint64_t>(got);
      size -= static_cast<std::size_t>(got);
    }
  }

 private:
  fs::path path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

/// A file whose content is in memory.
class ReadWholeFile final : public ReadableFile {
 public:
  ReadWholeFile(fs::path path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}

  [[nodiscard]] std::uint64_t size() const override { return content_.size(); }

  void read(std::uint64_t offset, void* data, std::size_t size) override {
    if (offset > content_.size() || size > content_.size() - offset) fail_short(path_, offset + size);
    if (size > 0) std::memcpy(data, content_.data() + offset, size);
  }

 private:
  fs::path path_;
  std::string content_;
};

[[noreturn]] void refuse_size(const fs::path& path, const std::string& size, std::uint64_t most) {
  throw DataError(fmt::format("{} has {}; the limit for such a file is {}", path.string(), size, text::bytes(most)),
                  "check that this is the right file");
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const fs::path& path) override { return std::make_unique<PosixFile>(path); }

  std::string read(const fs::path& path, std::uint64_t most) override {
    const UniqueFd fd = open_regular_file(path);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) fail("stat", path, errno);
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
    if (size > most) refuse_size(path, text::bytes(size), most);
    // One byte more than the size, so that the end of the file is found without growing the buffer.
    std::string content(static_cast<std::size_t>(size) + 1, '\0');
    std::size_t have = 0;
    for (;;) {
      if (have > most) refuse_size(path, "more than " + text::bytes(most), most);
      if (have == content.size()) content.resize(content.size() + 4096);  // the file grew, or is in /proc with size 0
      const ssize_t got = ::read(fd.get(), content.data() + have, content.size() - have);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path, errno);
      if (got == 0) break;
      have += static_cast<std::size_t>(got);
    }
    content.resize(have);
    return content;
  }

  std::unique_ptr<ReadableFile> open(const fs::path& path) override {
    return std::make_unique<PosixReadableFile>(path);
  }

  bool exists(const fs::path& path) override {
    std::error_code code;
    return fs::exists(path, code);
  }

  std::vector<std::string> list(const fs::path& folder) override {
    std::error_code code;
    std::vector<std::string> names;
    for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
      names.push_back(it->path().filename().string());
    }
    if (code && code != std::errc::no_such_file_or_directory) check(code, "list", folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_folder(const fs::path& folder) override {
    std::error_code code;
    fs::create_directories(folder, code);
    check(code, "create folder", folder);
  }

  void rename(const fs::path& from, const fs::path& to) override {
    struct stat status {};
    // A file must not replace a device, pipe or socket: root would replace /dev/null for the whole machine.
    if (::lstat(to.c_str(), &status) == 0 && !S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode)) {
      const char* kind = special_kind(status.st_mode);
      if (kind != nullptr) throw IoError(fmt::format("cannot replace {}: it is {}", to.string(), kind));
    }
    std::error_code code;
    fs::rename(from, to, code);
    check(code, "rename to", to);
  }

  void remove(const fs::path& path) override {
    std::error_code code;
    fs::remove_all(path, code);
    check(code, "remove", path);
  }

  void sync_folder(const fs::path& folder) override {
    const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) fail("open", folder, errno);
    if (::fsync(fd.get()) == 0) return;
    // Some network and FUSE file systems make names durable on their own, or not at all: the failure is harmless.
    if (errno != EINVAL && errno != ENOTSUP && errno != ENOSYS) fail<SyncError>("fsync", folder, errno);
    static std::atomic_flag said;
    if (said.test_and_set()) return;
    log::note(
        "the file system of {} cannot fsync folders ({}): after a power failure the newest file names may be missing",
        folder.string(), std::strerror(errno));
  }
};

}  // namespace

UniqueFd try_open_regular_file(const fs::path& path, int flags, unsigned mode) {
  const int wanted = flags | O_CLOEXEC | O_NOCTTY;
  struct stat status {};
  UniqueFd fd(::open(path.c_str(), wanted | O_NONBLOCK, mode));
  if (!fd.valid()) {
    const int code = errno;
    const bool there = ::stat(path.c_str(), &status) == 0;
    // Opening a pipe without a reader, a socket or a folder already fails, but the system's message does not name the
    // kind.
    if (there && (code == ENXIO || code == EISDIR || code == ENODEV)) require_regular(path, status.st_mode);
    errno = code;
    // Another process holds a lease on the file. The kernel asks the holder to release it, and a second open waits
    // until that happens.
    if (!there || code != EWOULDBLOCK || !S_ISREG(status.st_mode)) return fd;
    fd.reset(::open(path.c_str(), wanted, mode));
    if (!fd.valid()) return fd;
  }
  if (::fstat(fd.get(), &status) != 0) return UniqueFd();
  require_regular(path, status.st_mode);
  const int now = ::fcntl(fd.get(), F_GETFL);
  if (now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) < 0) return UniqueFd();
  return fd;
}

UniqueFd open_regular_file(const fs::path& path, int flags, unsigned mode) {
  UniqueFd fd = try_open_regular_file(path, flags, mode);
  if (!fd.valid() && (errno == ENOENT || errno == ENOTDIR)) {
    throw DataError(fmt::format("{} does not exist", path.string()));
  }
  if (!fd.valid()) fail("open", path, errno);
  return fd;
}

FileLock try_lock_file(int fd, const fs::path& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return FileLock::kBusy;
    if (errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) fail("lock", path, errno);
    static std::atomic_flag said;
    if (!said.test_and_set()) {
      log::note("the file system of {} has no file locks ({}): make sure that no other process uses this folder",
                path.string(), std::strerror(errno));
    }
    return FileLock::kUnsupported;
  }
  return FileLock::kTaken;
}

std::unique_ptr<ReadableFile> FileSystem::open(const fs::path& path) {
  return std::make_unique<ReadWholeFile>(path, read(path, std::numeric_limits<std::uint64_t>::max()));
}

FileSystem& FileSystem::system() {
  static PosixFileSystem instance;
  return instance;
}

void write_file_atomically(FileSystem& files, const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + fmt::format(".tmp-{}", ::getpid());
  try {
    auto file = files.create(temporary);
    file->append(content.data(), content.size());
    file->sync();
    file.reset();
    files.rename(temporary, path);
  } catch (const Error&) {
    try {
      files.remove(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  const fs::path folder = path.parent_path();
  files.sync_folder(folder.empty() ? fs::path(".") : folder);
}

namespace {

bool is_mounted_in(const fs::path& folder, const fs::path& parent) {
  struct stat inside {};
  struct stat outside {};
  return ::stat(folder.c_str(), &inside) == 0 && ::stat(parent.c_str(), &outside) == 0 &&
         inside.st_dev != outside.st_dev;
}

}  // namespace

void make_folder_durably(FileSystem& files, const fs::path& folder) {
  files.make_folder(folder);
  for (fs::path level = folder; level.has_relative_path(); level = level.parent_path()) {
    const fs::path parent = level.has_parent_path() ? level.parent_path() : fs::path(".");
    if (is_mounted_in(level, parent)) return;
    try {
      files.sync_folder(parent);
    } catch (const SyncError&) {
      throw;
    } catch (const IoError& error) {  // it is not readable, and existed before
      log::debug("{}", error.message());
      return;
    }
  }
}

fs::path make_new_folder(const fs::path& path) {
  if (path.has_parent_path()) FileSystem::system().make_folder(path.parent_path());
  fs::path tried = path;
  for (int number = 2; ::mkdir(tried.c_str(), 0777) != 0; ++number) {
    if (errno != EEXIST) check({errno, std::generic_category()}, "create folder", tried);
    tried = path.string() + fmt::format("-{}", number);
  }
  return tried;
}

}  // namespace lockstep
