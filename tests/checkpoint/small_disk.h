// SPDX-License-Identifier: Apache-2.0
// A real small disk (tmpfs) in a mount namespace of this process: no other process sees it, and it always disappears
// with the process.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "support/temp_dir.h"

namespace lockstep::test {

namespace detail {

inline bool write_proc(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return done;
}

/// Needs no privileges: becomes root in a new user namespace.
inline bool unshare_as_user() {
  const std::string uid = fmt::format("0 {} 1", ::getuid());
  const std::string gid = fmt::format("0 {} 1", ::getgid());
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_proc("/proc/self/setgroups", "deny") &&
         write_proc("/proc/self/uid_map", uid) && write_proc("/proc/self/gid_map", gid);
}

}  // namespace detail

/// Call it once, before any threads start. Returns "" if disks can be mounted from now on, else the reason why not.
inline std::string enter_mount_namespace() {
  if (::unshare(CLONE_NEWNS) != 0 && !detail::unshare_as_user()) {
    return fmt::format("this machine permits no mount namespace: {}", std::strerror(errno));
  }
  // Otherwise the mounts would show up in the old namespace too.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return fmt::format("mounts cannot be made private: {}", std::strerror(errno));
  }
  const TempDir probe;
  if (::mount("tmpfs", probe.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    return fmt::format("this machine permits no tmpfs: {}", std::strerror(errno));
  }
  ::umount2(probe.path().c_str(), MNT_DETACH);
  return "";
}

/// A disk, mounted for the lifetime of the object.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options = "size=2m,nr_inodes=64") { mount("tmpfs", 0, options); }
  ~SmallDisk() { ::umount2(path().c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  void make_read_only() { mount(nullptr, MS_REMOUNT | MS_RDONLY, ""); }
  void make_writable() { mount(nullptr, MS_REMOUNT, ""); }

 private:
  void mount(const char* type, unsigned long flags, const std::string& options) {
    if (::mount("tmpfs", path().c_str(), type, flags, options.c_str()) == 0) return;
    throw std::runtime_error(fmt::format("cannot mount {}: {}", path().string(), std::strerror(errno)));
  }

  TempDir folder_;
};

}  // namespace lockstep::test
