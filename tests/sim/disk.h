// SPDX-License-Identifier: Apache-2.0
// A world's disk, mounted at kRoot: its contents as programs see them, its contents after a power cut, and its
// failures. All hosts see the same disk. Production code reaches it through the calls in disk_calls.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/files.h"

namespace lockstep::sim {

/// The disk's current state. Probabilities are per call.
struct DiskState {
  Nanos latency = 50 * kMicro;  ///< maximum duration of a call
  double fails_write = 0;       ///< probability of EIO
  double fails_sync = 0;
  double fails_read = 0;
  double fails_name = 0;        ///< probability for renames, removals and creating folders
  std::size_t room = SIZE_MAX;  ///< bytes of free space
  bool has_locks = true;        ///< if false, flock() fails with ENOLCK
};

/// Files and folders. A power cut may undo any change that was not fsynced: any blocks of a file, its size, and any
/// name changes. A rename survives as a whole or not at all.
class Disk {
 public:
  static constexpr std::string_view kRoot = "/disk";
  static constexpr std::size_t kBlock = 64;

  struct Node {
    bool is_folder = false;
    std::string bytes;                   ///< a file's contents, as programs see them
    std::string durable;                 ///< a file's contents on the disk
    std::set<std::size_t> dirty;         ///< blocks written since the last fsync
    int writer = 0;                      ///< the last host to write to it
    std::map<std::string, int> names;    ///< a folder's entries, as programs see them
    std::map<std::string, int> on_disk;  ///< a folder's entries on the disk
    std::uint64_t version = 0;           ///< changes whenever the contents do
  };

  Disk();

  /// Returns true if the path is on this disk.
  [[nodiscard]] static bool has(const char* path);

  // The system calls. They fail with -1 and errno, like the real ones. Relative paths start at the node `folder`.
  int open(int folder, std::string_view path, int flags);
  int make_folder(std::string_view path);
  int rename(std::string_view from, std::string_view to);
  int remove(int folder, std::string_view path, bool is_folder);
  int sync(int node);
  ssize_t write(int node, std::size_t offset, std::string_view bytes);
  ssize_t read(int node, std::size_t offset, char* to, std::size_t size);
  int truncate(int node, std::size_t size);
  /// Returns the node at a path; -1 with errno ENOENT or ENOTDIR if there is none.
  [[nodiscard]] int find(int folder, std::string_view path) const;
  [[nodiscard]] const Node& at(int node) const { return nodes_.at(node); }

  /// Ends a host's writes: some of its unsynced changes are lost.
  void lose_host(int host, Dice& dice);
  /// Cuts the power to all hosts and the disk.
  void lose_power(Dice& dice);

  /// Returns the number of bytes used by all files.
  [[nodiscard]] std::size_t used() const;

  DiskState state;
  /// Called after each change, with a file's or folder's old and new names.
  std::function<void(const std::string& from, const std::string& to)> on_change = {};
  std::map<std::string, std::uint64_t> failures;  ///< number of failed calls, by kind

 private:
  struct Place {
    int folder = -1;
    std::string name;
    int node = -1;  ///< -1: the name does not exist
  };
  /// A name change that is not durable yet.
  struct Change {
    int from = -1;
    std::string old_name;
    int to = -1;
    std::string new_name;
    int node = -1;
  };
  [[nodiscard]] std::optional<Place> locate(int folder, std::string_view path) const;
  int add(const Place& place, bool is_folder);
  void note(Change change);
  void settle(Node& node, Dice& dice);
  [[nodiscard]] std::set<int> named() const;
  bool fails(double chance, const char* kind);
  void changed(const std::string& from = {}, const std::string& to = {});
  void touch(Node& node) { node.version = next_version(); }
  static std::uint64_t next_version();

  std::map<int, Node> nodes_;
  std::vector<Change> pending_;
  int next_ = 1;
};

/// This world's disk; null if it has none, in which case all paths are the real system's.
Disk*& disk();

/// The holders of flock() locks: descriptors and their hosts.
class Locks {
 public:
  /// Locks `node` for a descriptor; false if another descriptor holds it.
  bool take(int node, const void* descriptor, int host);
  void release(int node, const void* descriptor);
  /// Drops a host's locks, as a file server does when it has not heard from the host for a long time.
  void expire(int host);

 private:
  struct Holder {
    const void* descriptor = nullptr;
    int host = 0;
  };
  std::map<int, Holder> holders_;
};

Locks& locks();

}  // namespace lockstep::sim
