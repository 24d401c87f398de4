// SPDX-License-Identifier: Apache-2.0
// The disk of a world, below kRoot: what programs see of it, what a power cut leaves of it, and how it fails. All hosts
// see the same. The calls of disk_calls.cpp reach it from production code.
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

/// How the disk is, for a while. Chances are those of a call.
struct DiskState {
  Nanos latency = 50 * kMicro;  ///< of a call, at most
  double fails_write = 0;       ///< EIO
  double fails_sync = 0;
  double fails_read = 0;
  double fails_name = 0;        ///< of renames, new folders and removals
  std::size_t room = SIZE_MAX;  ///< bytes that fit
  bool has_locks = true;        ///< else flock() says ENOLCK
};

/// Files and folders. A power cut takes what was not fsynced: of a file any blocks, and its size; of the names any
/// changes, renames whole.
class Disk {
 public:
  static constexpr std::string_view kRoot = "/disk";
  static constexpr std::size_t kBlock = 64;

  struct Node {
    bool is_folder = false;
    std::string bytes;                   ///< of a file, as programs see them
    std::string durable;                 ///< and as they are on the disk
    std::set<std::size_t> dirty;         ///< blocks that were written since the last fsync
    int writer = 0;                      ///< the host that wrote last
    std::map<std::string, int> names;    ///< of a folder, as programs see them
    std::map<std::string, int> on_disk;  ///< and as they are on the disk
    std::uint64_t version = 0;           ///< another one for another content
  };

  Disk();

  /// Whether a path lies on it.
  [[nodiscard]] static bool has(const char* path);

  // The system's calls. -1 and errno, as the system has them. `folder` is the node that a relative path begins at.
  int open(int folder, std::string_view path, int flags);
  int make_folder(std::string_view path);
  int rename(std::string_view from, std::string_view to);
  int remove(int folder, std::string_view path, bool is_folder);
  int sync(int node);
  ssize_t write(int node, std::size_t offset, std::string_view bytes);
  ssize_t read(int node, std::size_t offset, char* to, std::size_t size);
  int truncate(int node, std::size_t size);
  /// The node at a path; -1 and errno ENOENT or ENOTDIR.
  [[nodiscard]] int find(int folder, std::string_view path) const;
  [[nodiscard]] const Node& at(int node) const { return nodes_.at(node); }

  /// The host writes nothing more: what it had not fsynced is lost in part.
  void lose_host(int host, Dice& dice);
  /// All hosts and the disk lose their power.
  void lose_power(Dice& dice);

  /// Bytes that files have.
  [[nodiscard]] std::size_t used() const;

  DiskState state;
  /// Called after each change, with the name that a folder or file lost, and the one that it got.
  std::function<void(const std::string& from, const std::string& to)> on_change = {};
  std::map<std::string, std::uint64_t> failures;  ///< of calls, by kind

 private:
  struct Place {
    int folder = -1;
    std::string name;
    int node = -1;  ///< -1: nothing has the name
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

/// The disk of this world; null: paths are the real system's.
Disk*& disk();

/// Who holds flock() on what, and from where.
class Locks {
 public:
  /// Takes it for this descriptor; false where another one has it.
  bool take(int node, const void* descriptor, int host);
  void release(int node, const void* descriptor);
  /// As a file server does that has not heard of a host for long.
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
