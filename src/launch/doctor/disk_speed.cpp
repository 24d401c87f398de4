// SPDX-License-Identifier: Apache-2.0
// Measures how fast a folder's disk writes and syncs, the way a checkpoint would.
#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "launch/doctor/machine_facts.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kPiece = 4U << 20U;
constexpr std::size_t kTotal = 64'000'000;
constexpr std::size_t kSmall = 4096;
constexpr int kSyncs = 20;

double seconds_since(SteadyTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns the name of a common file system; the numbers are from linux/magic.h.
std::string kind_of_disk(long magic) {
  constexpr std::pair<long, const char*> kKinds[] = {
      {0xEF53, "ext4"},       {0x58465342, "xfs"},     {0x9123683E, "btrfs"}, {0x6969, "nfs"},
      {0x01021994, "tmpfs"},  {0x794c7630, "overlay"}, {0x65735546, "fuse"},  {0xFF534D42, "cifs"},
      {0x0BD00BD0, "lustre"}, {0x2FC12FC1, "zfs"}};
  for (const auto& [number, name] : kKinds) {
    if (number == magic) return name;
  }
  return "";
}

/// Opens an unnamed file; if the file system does not support that, one that is unlinked immediately.
UniqueFd open_nameless(const std::filesystem::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid() || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = (folder / ".lockstep-doctor-XXXXXX").string();
  fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) ::unlink(name.c_str());
  return fd;
}

bool write_piece(int fd, const std::vector<char>& bytes, std::size_t size, off_t at) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pwrite(fd, bytes.data() + done, size - done, at + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

/// Measures the write rate. Each piece is synced, so that a slow disk is noticed early.
bool measure_rate(int fd, std::chrono::milliseconds limit, view::DiskFacts& facts) {
  std::vector<char> bytes(kPiece);
  // The bytes are pseudo-random, since a disk might compress zeros.
  std::uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  const SteadyTime begin = std::chrono::steady_clock::now();
  std::size_t done = 0;
  while (done < kTotal && seconds_since(begin) < std::chrono::duration<double>(limit).count()) {
    if (!write_piece(fd, bytes, kPiece, static_cast<off_t>(done)) || ::fsync(fd) != 0) return false;
    done += kPiece;
  }
  facts.bytes_per_s = static_cast<double>(done) / seconds_since(begin);
  return true;
}

bool measure_sync(int fd, std::chrono::milliseconds limit, view::DiskFacts& facts) {
  const std::vector<char> bytes(kSmall, 'x');
  std::vector<double> times;
  const SteadyTime begin = std::chrono::steady_clock::now();
  while (times.size() < kSyncs &&
         (times.empty() || seconds_since(begin) < std::chrono::duration<double>(limit).count())) {
    const SteadyTime start = std::chrono::steady_clock::now();
    if (!write_piece(fd, bytes, kSmall, static_cast<off_t>(times.size() * kSmall)) || ::fsync(fd) != 0) return false;
    times.push_back(seconds_since(start) * 1e3);
  }
  std::sort(times.begin(), times.end());
  facts.sync_ms = times[times.size() / 2];
  return true;
}

}  // namespace

view::DiskFacts read_disk(const std::filesystem::path& folder, bool measures, std::chrono::milliseconds limit) {
  view::DiskFacts facts{.folder = folder.string()};
  struct statfs found {};
  if (::statfs(folder.c_str(), &found) == 0) {
    facts.kind = kind_of_disk(found.f_type);
    facts.free = static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize);
  }
  if (!measures || facts.free < 2 * kTotal) return facts;
  const UniqueFd fd = open_nameless(folder);
  const bool is_good = fd.valid() && measure_rate(fd.get(), limit, facts) && measure_sync(fd.get(), limit / 2, facts);
  if (!is_good) facts.problem = error_words(errno);
  return facts;
}

}  // namespace lockstep::launch
