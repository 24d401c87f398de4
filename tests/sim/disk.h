// SPDX-License-Identifier: Apache-2.0
// The disk of a world, below kRoot: its content as programs see it, its content after a power cut, and its failures.
// All hosts see the same disk. Production code reaches it through the calls in disk_calls.cpp.
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

/// The present condition of the disk. The chances are per call.
struct DiskState {
  Nanos latency = 50 * kMicro;  ///< the most that a call takes
  double fails_write = 0;       ///< chance of EIO
  double fails_sync = 0;
  double fails_read = 0;
  double fails_name = 0;        ///< chance for renames, new folders and removals
  std::size_t room = SIZE_MAX;  ///< bytes that still fit
  bool has_locks = true;        ///< if false, flock() fails with ENOLCK
};

/// Files and folders. A power cut may take every change that was not fsynced: any blocks of a file and its size, and
/// any changes of names. A rename is lost or kept as a whole.
class Disk {
 public:
  static constexpr std::string_view kRoot = "/disk";
  static constexpr std::size_t kBlock = 64;

  struct Node {
    bool is_folder = false;
    std::string bytes;                   ///< content of a file, as programs see it
    std::string durable;                 ///< content of a file, as the disk has it
    std::set<std::size_t> dirty;         ///< blocks written since the last fsync
    int writer = 0;                      ///< the host that wrote last
    std::map<std::string, int> names;    ///< entries of a folder, as programs see them
    std::map<std::string, int> on_disk;  ///< entries of a folder, as the disk has them
    std::uint64_t version = 0;           ///< changes whenever the content does
  };

  Disk();

  /// Returns true if the path is on this disk.
  [[nodiscard]] static bool has(const char* path);

  // The system's calls. They fail with -1 and errno, as the system's do. A relative path begins at the node `folder`.
  int open(int folder, std::string_view path, int flags);
  int make_folder(std::string_view path);
  int rename(std::string_view from, std::string_view to);
  int remove(int folder, std::string_view path, bool is_folder);
  int sync(int node);
  ssize_t write(int node, std::size_t offset, std::string_view bytes);
  ssize_t read(int node, std::size_t offset, char* to, std::size_t size);
  int truncate(int node, std::size_t size);
  /// Returns the node at a path; -1 and errno ENOENT or ENOTDIR if there is none.
  [[nodiscard]] int find(int folder, std::string_view path) const;
  [[nodiscard]] const Node& at(int node) const { return nodes_.at(node); }

  /// Ends the writes of a host: a part of its unsynced changes is lost.
  void lose_host(int host, Dice& dice);
  /// Cuts the power of all hosts and of the disk.
  void lose_power(Dice& dice);

  /// Returns the bytes that all files take.
  [[nodiscard]] std::size_t used() const;

  DiskState state;
  /// Called after each change, with the name that a file or folder lost and the name that it got.
  std::function<void(const std::string& from, const std::string& to)> on_change = {};
  std::map<std::string, std::uint64_t> failures;  ///< number of failed calls, by kind

 private:
  struct Place {
    int folder = -1;
    std::string name;
    int node = -1;  ///< -1: the name does not exist
  };
  /// A change of names that is not durable yet.
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

/// The disk of this world; null if there is none, and all paths are then the real system's.
Disk*& disk();

/// The holders of flock() locks: descriptors and their hosts.
class Locks {
 public:
  /// Takes the lock of `node` for a descriptor; false if another descriptor holds it.
  bool take(int node, const void* descriptor, int host);
  void release(int node, const void* descriptor);
  /// Drops the locks of a host, as a file server does if it has not heard from the host for long.
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
