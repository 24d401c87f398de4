// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's calls on files and folders for production code inside a world that has a disk. Calls common
// to all kinds of descriptors are in calls.cpp.
#include "sim/disk_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "sim/calls.h"
#include "sim/disk.h"

namespace lockstep::sim {
namespace {

// Lets other threads run for the duration of a call, so a process can die between two calls.
void take_time() {
  Kernel& machine = *kernel();
  if (machine.current()->mutexes > 0) return;
  machine.block(machine.now() + machine.dice().between(kMicro, std::max(disk()->state.latency, 2 * kMicro)));
}

/// An open file or folder.
class DiskFile final : public File {
 public:
  DiskFile(int number, int open_flags)
      : node(number), flags(open_flags), host(kernel()->current()->process->host->number) {}
  [[nodiscard]] short ready() const override { return POLLIN | POLLOUT; }
  ssize_t read(void* to, std::size_t size) override {
    take_time();
    const ssize_t count = disk()->read(node, offset, static_cast<char*>(to), size);
    if (count > 0) offset += static_cast<std::size_t>(count);
    return count;
  }
  ssize_t write(const void* from, std::size_t size) override {
    take_time();
    if ((flags & O_APPEND) != 0) offset = disk()->at(node).bytes.size();
    // A call may write less than requested.
    const bool is_short = size > 1 && kernel()->dice().chance(0.02);
    const ssize_t count = disk()->write(node, offset, {static_cast<const char*>(from), is_short ? size / 2 : size});
    if (count > 0) offset += static_cast<std::size_t>(count);
    return count;
  }
  void close() override { locks().release(node, this); }

  const int node;
  const int flags;
  const int host;
  std::size_t offset = 0;
};

/// The object behind a DIR pointer.
struct OpenFolder {
  int fd = -1;
  std::vector<std::pair<std::string, int>> names;
  std::size_t next = 0;
  dirent entry{};
};

std::set<const void*>& open_folders() {
  static std::set<const void*> all;
  return all;
}

OpenFolder* folder_of(DIR* stream) {
  return open_folders().count(stream) > 0 ? reinterpret_cast<OpenFolder*>(stream) : nullptr;
}

/// Returns the file behind a descriptor; null if the descriptor belongs to something else.
std::shared_ptr<DiskFile> disk_file(int fd) {
  return disk() == nullptr ? nullptr : std::dynamic_pointer_cast<DiskFile>(files().find(fd));
}

bool is_on_disk(const char* path) { return is_inside() && Disk::has(path); }

int describe(int node, struct stat* about) {
  if (node < 0) return -1;
  const Disk::Node& found = disk()->at(node);
  *about = {};
  about->st_dev = 77;
  about->st_ino = static_cast<ino_t>(node) + 1;
  about->st_mode = found.is_folder ? S_IFDIR | 0755 : S_IFREG | 0644;
  about->st_nlink = 1;
  about->st_size = static_cast<off_t>(found.bytes.size());
  return 0;
}

int open_at(int folder, const char* path, int flags) {
  take_time();
  const int node = disk()->open(folder, path, flags);
  return node < 0 ? -1 : files().add(std::make_shared<DiskFile>(node, flags));
}

}  // namespace

int disk_open(const char* path, int flags) { return open_at(0, path, flags); }

int disk_stat(const char* path, struct stat* about) {
  take_time();
  return describe(disk()->find(0, path), about);
}

DIR* disk_opendir(int fd) {
  const auto file = disk_file(fd);
  if (!file || !disk()->at(file->node).is_folder) return errno = ENOTDIR, nullptr;
  auto* folder = new OpenFolder{.fd = fd, .names = {{".", file->node}, {"..", file->node}}};
  for (const auto& [name, node] : disk()->at(file->node).names) folder->names.emplace_back(name, node);
  open_folders().insert(folder);
  return reinterpret_cast<DIR*>(folder);
}

}  // namespace lockstep::sim

using namespace lockstep::sim;  // NOLINT(google-build-using-namespace): the file is the C library's calls

#pragma GCC visibility push(default)
extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  if (is_on_disk(path)) return open_at(0, path, flags);
  if (const auto file = disk_file(folder)) return open_at(file->node, path, flags);
  static const auto library = real<int(int, const char*, int, ...)>("openat");
  return library(folder, path, flags, mode);
}

DIR* fdopendir(int fd) {
  if (disk_file(fd)) return disk_opendir(fd);
  static const auto library = real<DIR*(int)>("fdopendir");
  return library(fd);
}

dirent* readdir(DIR* stream) {
  OpenFolder* folder = folder_of(stream);
  static const auto library = real<dirent*(DIR*)>("readdir");
  if (folder == nullptr) return library(stream);
  if (folder->next == folder->names.size()) return nullptr;
  const auto& [name, node] = folder->names[folder->next++];
  folder->entry.d_ino = static_cast<ino_t>(node) + 1;
  folder->entry.d_type = disk()->at(node).is_folder ? DT_DIR : DT_REG;
  std::strncpy(folder->entry.d_name, name.c_str(), sizeof folder->entry.d_name - 1);
  return &folder->entry;
}

dirent64* readdir64(DIR* stream) { return reinterpret_cast<dirent64*>(readdir(stream)); }

int closedir(DIR* stream) {
  OpenFolder* folder = folder_of(stream);
  static const auto library = real<int(DIR*)>("closedir");
  if (folder == nullptr) return library(stream);
  files().close(folder->fd);
  open_folders().erase(folder);
  delete folder;
  return 0;
}

int dirfd(DIR* stream) noexcept {
  const OpenFolder* folder = folder_of(stream);
  static const auto library = real<int(DIR*)>("dirfd");
  return folder != nullptr ? folder->fd : library(stream);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  const auto file = disk_file(folder);
  if (!file && !is_on_disk(path)) {
    static const auto library = real<int(int, const char*, int)>("unlinkat");
    return library(folder, path, flags);
  }
  take_time();
  return disk()->remove(file ? file->node : 0, path, (flags & AT_REMOVEDIR) != 0);
}

int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  if (unlink(path) == 0) return 0;
  return errno == EISDIR ? rmdir(path) : -1;
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (!is_on_disk(path)) {
    static const auto library = real<int(const char*, mode_t)>("mkdir");
    return library(path, mode);
  }
  take_time();
  return disk()->make_folder(path);
}

int rename(const char* from, const char* to) noexcept {
  if (!is_on_disk(from)) {
    static const auto library = real<int(const char*, const char*)>("rename");
    return library(from, to);
  }
  take_time();
  return disk()->rename(from, to);
}

int lstat(const char* path, struct stat* about) noexcept {
  if (is_on_disk(path)) return disk_stat(path, about);
  static const auto library = real<int(const char*, struct stat*)>("lstat");
  return library(path, about);
}

int fstat(int fd, struct stat* about) noexcept {
  if (const auto file = disk_file(fd)) return describe(file->node, about);
  static const auto library = real<int(int, struct stat*)>("fstat");
  return library(fd, about);
}

int stat64(const char* path, struct stat64* about) noexcept {
  return stat(path, reinterpret_cast<struct stat*>(about));
}
int lstat64(const char* path, struct stat64* about) noexcept {
  return lstat(path, reinterpret_cast<struct stat*>(about));
}
int fstat64(int fd, struct stat64* about) noexcept { return fstat(fd, reinterpret_cast<struct stat*>(about)); }

ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  const auto file = disk_file(fd);
  if (!file) {
    static const auto library = real<ssize_t(int, void*, size_t, off_t)>("pread");
    return library(fd, to, size, offset);
  }
  take_time();
  return disk()->read(file->node, static_cast<size_t>(offset), static_cast<char*>(to), size);
}
ssize_t pread64(int fd, void* to, size_t size, off64_t offset) { return pread(fd, to, size, offset); }

off_t lseek(int fd, off_t offset, int whence) noexcept {
  const auto file = disk_file(fd);
  if (!file) {
    static const auto library = real<off_t(int, off_t, int)>("lseek");
    return library(fd, offset, whence);
  }
  const auto size = static_cast<off_t>(disk()->at(file->node).bytes.size());
  const off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? static_cast<off_t>(file->offset) : size;
  file->offset = static_cast<size_t>(base + offset);
  return base + offset;
}
off64_t lseek64(int fd, off64_t offset, int whence) noexcept { return lseek(fd, offset, whence); }

int ftruncate(int fd, off_t size) noexcept {
  if (const auto file = disk_file(fd)) return disk()->truncate(file->node, static_cast<size_t>(size));
  static const auto library = real<int(int, off_t)>("ftruncate");
  return library(fd, size);
}
int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }

int fsync(int fd) {
  const auto file = disk_file(fd);
  if (!file) {
    static const auto library = real<int(int)>("fsync");
    return library(fd);
  }
  take_time();
  const int result = disk()->sync(file->node);
  take_time();
  return result;
}
int fdatasync(int fd) { return fsync(fd); }

int flock(int fd, int operation) noexcept {
  const auto file = disk_file(fd);
  if (!file) {
    static const auto library = real<int(int, int)>("flock");
    return library(fd, operation);
  }
  take_time();
  if (!disk()->state.has_locks) return errno = ENOLCK, -1;
  if ((operation & LOCK_UN) != 0) return locks().release(file->node, file.get()), 0;
  if (locks().take(file->node, file.get(), file->host)) return 0;
  return errno = EWOULDBLOCK, -1;
}

int statvfs(const char* path, struct statvfs* about) noexcept {
  if (is_on_disk(path)) return errno = ENOSYS, -1;
  static const auto library = real<int(const char*, struct statvfs*)>("statvfs");
  return library(path, about);
}

// Only reports whether a process exists on the same host or in the same container; sends no signal.
int kill(pid_t pid, int signal) noexcept {
  if (!is_inside()) {
    static const auto library = real<int(pid_t, int)>("kill");
    return library(pid, signal);
  }
  const Host* host = kernel()->current()->process->host;
  const auto is_it = [&](const auto& p) { return p->host == host && p->number == pid && !p->is_dead; };
  const auto& all = kernel()->processes();
  return std::any_of(all.begin(), all.end(), is_it) ? 0 : (errno = ESRCH, -1);
}

}  // extern "C"
#pragma GCC visibility pop
