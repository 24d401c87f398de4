// SPDX-License-Identifier: Apache-2.0
// The few file operations that Lockstep uses, behind one interface, so that tests can make the disk fail.
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

/// An fsync failed. The kernel may have dropped the written data, and a second fsync may still succeed: write the data
/// again, to a new file. Source: Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020.
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

  /// Returns the descriptor; -1 if there is none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Returns true if there is a descriptor.
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  /// Hands the descriptor to the caller, who must close it.
  [[nodiscard]] int release() noexcept;
  /// Closes the descriptor and takes `fd` in its place.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Opens a regular file. A named pipe, socket, device or folder is rejected at once, and the error says which it is;
/// the call never waits for the other end of a pipe. Symbolic links are followed. `flags` are those of open(2) (0 is
/// O_RDONLY), with close-on-exec added; a new file gets `mode`. If the file cannot be opened, returns an invalid
/// descriptor and sets errno. Throws: DataError if it is not a regular file.
[[nodiscard]] UniqueFd try_open_regular_file(const std::filesystem::path& path, int flags = 0, unsigned mode = 0644);

/// Like try_open_regular_file(), but also throws if the file cannot be opened. Throws: DataError if it is missing or
/// not a regular file; IoError if it cannot be opened.
[[nodiscard]] UniqueFd open_regular_file(const std::filesystem::path& path, int flags = 0, unsigned mode = 0644);

/// The result of an attempt to lock a file.
enum class FileLock {
  kTaken,       ///< this process holds the lock
  kBusy,        ///< another process holds the lock
  kUnsupported  ///< this file system has no locks (Lustre without -o flock, some FUSE): others are not excluded
};

/// Tries to take an exclusive lock on the open file `fd` for this process. The lock is released when the file is
/// closed. kUnsupported is logged once per program. Never blocks.
/// Throws: IoError naming `path` and the cause.
[[nodiscard]] FileLock try_lock_file(int fd, const std::filesystem::path& path);

/// A file being written. Its destructor closes it, without fsync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends `size` bytes. Throws: IoError naming path and cause.
  virtual void append(const void* data, std::size_t size) = 0;
  /// Writes all bytes to disk. Blocks: until they are there. Throws: SyncError; in that case write a new file.
  virtual void sync() = 0;
};

/// A file that can be read at any position. Thread-safe: yes.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Returns the file's size when it was opened, in bytes.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Reads `size` bytes starting at `offset`. Throws: DataError if the file ends before that; IoError.
  virtual void read(std::uint64_t offset, void* data, std::size_t size) = 0;
};

/// The default limit of FileSystem::read().
inline constexpr std::uint64_t kMostReadBytes = 16U << 20U;

/// The file operations that Lockstep uses. Paths are absolute or relative to the working directory. Thread-safe: yes.
/// Every function blocks.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Creates or truncates a file. Throws: IoError; DataError if the path is not a regular file.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  /// Returns the whole content of a file of at most `most` bytes. It checks the size before it allocates memory, and
  /// stops if the file grows beyond `most`. Throws: DataError if the file is missing, not a regular file or larger than
  /// `most`; IoError if it cannot be read.
  virtual std::string read(const std::filesystem::path& path, std::uint64_t most = kMostReadBytes) = 0;
  /// Opens a large file that the caller reads in pieces into its own memory. The default implementation reads the whole
  /// file. Throws: anything read() throws.
  virtual std::unique_ptr<ReadableFile> open(const std::filesystem::path& path);
  /// Returns true if there is anything at `path`. Throws: IoError.
  virtual bool exists(const std::filesystem::path& path) = 0;
  /// Returns the names of a folder's entries, sorted; empty if the folder is missing.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;
  /// Creates a folder and any missing parents; an existing one is kept. Throws: IoError.
  virtual void make_folder(const std::filesystem::path& folder) = 0;
  /// Renames a file or folder. Throws: IoError, including when `to` is a non-empty folder, a named pipe, a socket or a
  /// device.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Removes a file, or a folder with everything in it; does nothing if it is missing. Throws: IoError.
  virtual void remove(const std::filesystem::path& path) = 0;
  /// Makes the entries of a folder durable. Throws: IoError if it cannot be opened, SyncError.
  virtual void sync_folder(const std::filesystem::path& folder) = 0;

  /// Returns the machine's own file system, which lives for the whole program.
  [[nodiscard]] static FileSystem& system();
};

/// Replaces the file `path` atomically: writes a temporary file beside it, syncs it, renames it and syncs the folder.
/// Throws: IoError; `path` is then unchanged.
void write_file_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view content);

/// Creates a folder and any missing parents; an existing one is kept. Syncs the entries of all of them, up to the mount
/// point or the first folder that cannot be opened: an entry may have been left by a process that was killed before
/// syncing it.
/// Throws: IoError, SyncError.
void make_folder_durably(FileSystem& files, const std::filesystem::path& folder);

/// Creates a new folder, and any missing parents, and returns its path: `path`, or the first unused path of "runs/a-2",
/// "runs/a-3", ... Two processes never get the same folder. Throws: IoError.
[[nodiscard]] std::filesystem::path make_new_folder(const std::filesystem::path& path);

}  // namespace lockstep

#pragma GCC visibility pop
