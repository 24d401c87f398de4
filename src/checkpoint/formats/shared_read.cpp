// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/shared_read.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "checkpoint/formats/hash.h"
#include "lockstep/base/resources.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kSharedBlock = 1U << 20U;

class SharedRead {
 public:
  SharedRead(ReadableFile& file, const FileBytes& bytes)
      : file_(file), bytes_(bytes), back_((bytes.size + kSharedBlock - 1) / kSharedBlock), read_(back_) {}

  /// The body of the second thread.
  void read_from_front() {
    try {
      while (const auto block = claim(true)) read(*block);
    } catch (...) {
      fail(std::current_exception());
    }
  }

  FileDigest hash_and_read() {
    ContentHash hash;
    for (std::size_t next = 0; next < read_.size(); ++next) {
      wait_for(next);
      if (has_failed_) break;
      hash.add(bytes_.data.get() + next * kSharedBlock, size_of(next));
    }
    return hash.digest();
  }

  /// Call it after both threads are done.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// Returns the next block from the front or the back; none if all are taken, or reading has failed.
  std::optional<std::size_t> claim(bool at_front) {
    const std::lock_guard lock(mutex_);
    if (front_ == back_ || error_) return std::nullopt;
    return at_front ? front_++ : --back_;
  }

  [[nodiscard]] std::size_t size_of(std::size_t block) const {
    return std::min(kSharedBlock, bytes_.size - block * kSharedBlock);
  }

  void read(std::size_t block) {
    file_.read(block * kSharedBlock, bytes_.data.get() + block * kSharedBlock, size_of(block));
    read_[block].store(1, std::memory_order_release);
    read_[block].notify_one();
  }

  void wait_for(std::size_t next) {
    while (read_[next].load(std::memory_order_acquire) == 0 && !has_failed_) {
      const auto block = claim(false);
      if (!block) break;
      try {
        read(*block);
      } catch (...) {
        fail(std::current_exception());
      }
    }
    if (!has_failed_) read_[next].wait(0, std::memory_order_acquire);
  }

  /// Stores a read error and ends the wait for further blocks.
  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::move(error);
    }
    has_failed_ = true;
    for (auto& block : read_) {
      block.store(1);
      block.notify_one();
    }
  }

  ReadableFile& file_;
  const FileBytes& bytes_;
  std::mutex mutex_;
  std::size_t front_ = 0;  ///< the next block from the front
  std::size_t back_;       ///< end of the next block from the back
  std::exception_ptr error_;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::atomic<char>> read_;  ///< 1 for each block that has been read
};

}  // namespace

FileDigest read_with_two_threads(ReadableFile& file, const FileBytes& bytes) {
  SharedRead shared(file, bytes);
  std::thread other = start_thread("that reads a file", [&shared] { shared.read_from_front(); });
  const FileDigest digest = shared.hash_and_read();
  other.join();
  shared.rethrow();
  return digest;
}

}  // namespace lockstep::checkpoint
