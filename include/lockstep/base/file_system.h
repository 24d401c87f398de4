// SPDX-License-Identifier: Apache-2.0
// The few file operations that Lockstep uses, behind one interface, in which tests make the disk fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// An fsync failed. The kernel may have dropped what was written, and a second fsync may then succeed over the loss:
/// the data must be written again, to a new file. Source: Rebello et al., Can Applications Recover from fsync
/// Failures?, USENIX ATC 2020.
class SyncError : public IoError {
 public:
  using IoError::IoError;
};

/// A file descriptor that closes itself; -1 means none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  /// Returns the descriptor; -1 where there is none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Returns true where there is a descriptor.
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor to the caller, who must close it.
  [[nodiscard]] int release() noexcept;
  /// Closes the descriptor and takes `fd` in its place.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Opens a file that must be regular. A named pipe, a socket, a device or a folder is refused at once, by name, without
/// waiting for the other end of a pipe. A link counts as its target. `flags` are those of open(2) (0 is O_RDONLY), with
/// close-on-exec added; a new file gets `mode`. Returns an invalid descriptor and sets errno where the file cannot be
/// opened. Throws: DataError where it is no regular file.
[[nodiscard]] UniqueFd try_open_regular_file(const std::filesystem::path& path, int flags = 0, unsigned mode = 0644);

/// Does the same, but also throws where the file cannot be opened. Throws: DataError where it is missing or no regular
/// file; IoError where it cannot be opened.
[[nodiscard]] UniqueFd open_regular_file(const std::filesystem::path& path, int flags = 0, unsigned mode = 0644);

/// Whether a lock was taken.
enum class FileLock {
  kTaken,       ///< this process has it
  kBusy,        ///< another process has it
  kUnsupported  ///< the file system has no locks (Lustre without -o flock, some FUSE): nothing keeps other processes
                ///< away
};

/// Tries to take the lock of the open file `fd` for this process alone. The lock ends when the file is closed.
/// kUnsupported is logged once per program. Never blocks.
/// Throws: IoError naming `path` and the cause.
[[nodiscard]] FileLock try_lock_file(int fd, const std::filesystem::path& path);

/// A file that is being written. Its destructor closes it, without fsync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends `size` bytes. Throws: IoError naming path and cause.
  virtual void append(const void* data, std::size_t size) = 0;
  /// Returns when the bytes are on the disk.
  /// Throws: SyncError; the file must then be written anew, never synced again.
  virtual void sync() = 0;
};

/// A file that is being read, from any place of it.
/// Thread-safe: yes.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Returns the bytes it had when it was opened.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Reads `size` bytes from `offset` on. Throws: DataError where the file ends before; IoError.
  virtual void read(std::uint64_t offset, void* data, std::size_t size) = 0;
};

/// What FileSystem::read() reads where its caller names no limit.
inline constexpr std::uint64_t kMostReadBytes = 16U << 20U;

/// The file operations that Lockstep uses. Paths are absolute or relative to the working directory. Thread-safe: yes.
/// Every function blocks.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Creates or truncates a file. Throws: IoError; DataError where the path is something other than a regular file.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  /// Returns the whole content of a file of at most `most` bytes. It asks for the size before it takes memory, and
  /// stops where a file that grows has more. Throws: DataError where the file is missing, no regular file or larger;
  /// IoError where it cannot be read.
  virtual std::string read(const std::filesystem::path& path, std::uint64_t most = kMostReadBytes) = 0;
  /// Opens a large file that the caller reads in pieces into its own memory. A file system that does not override this
  /// reads it whole. Throws: as read().
  virtual std::unique_ptr<ReadableFile> open(const std::filesystem::path& path);
  /// Returns true where something lies at `path`, whatever it is. Throws: IoError.
  virtual bool exists(const std::filesystem::path& path) = 0;
  /// Returns the names of a folder's entries, sorted; empty where the folder is missing.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;
  /// Creates a folder with its parents; an existing one is kept. Throws: IoError.
  virtual void make_folder(const std::filesystem::path& folder) = 0;
  /// Renames a file or folder. Throws: IoError (also where `to` is a folder with entries, a named pipe, a socket or a
  /// device).
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Removes a file, or a folder with all in it; does nothing where it is missing. Throws: IoError.
  virtual void remove(const std::filesystem::path& path) = 0;
  /// Makes the entries of a folder durable. Throws: IoError where it cannot be opened, SyncError.
  virtual void sync_folder(const std::filesystem::path& folder) = 0;

  /// Returns the machine's own file system, which lives for the whole program.
  [[nodiscard]] static FileSystem& system();
};

/// Replaces `path` whole or not at all: it writes a temporary file beside it, syncs it, renames it and syncs the
/// folder.
/// Throws: IoError; `path` is then as before.
void write_file_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view content);

/// Creates a folder with its parents; an existing one is kept. Syncs the entries of all of them, also of those that a
/// process made which was killed before it did so, up to where the disk is mounted, or a folder cannot be opened.
/// Throws: IoError, SyncError.
void make_folder_durably(FileSystem& files, const std::filesystem::path& folder);

/// Creates a folder that was not there, with its parents, and returns its path: `path`, or the first of "runs/a-2",
/// "runs/a-3", ... at which nothing lies. Two processes never get the same one. Throws: IoError.
[[nodiscard]] std::filesystem::path make_new_folder(const std::filesystem::path& path);

}  // namespace lockstep

#pragma GCC visibility pop
