// SPDX-License-Identifier: Apache-2.0
// Records work on a fake GPU's streams, following CUDA's rules: a stream that waits for an event of a recorded stream
// is also recorded, and must be joined back; during recording, the host must neither wait nor query; only the streams
// of a recording can wait for its events.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/double/ledger.h"
#include "support/double/stream_handle.h"

namespace lockstep::testing::make_believe {

class DeviceStream;

/// Throws if the calling thread has begun a recording, and so must neither wait for a GPU nor query it.
void refuse_in_recording();

/// A recording of one or more streams. Thread-safe: yes.
class Recording : public std::enable_shared_from_this<Recording> {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  /// Makes the calling thread record `origin` until end() or abandon().
  void begin(DeviceStream& origin);
  /// Ends the recording. Throws: if a stream was not joined, or a rule was broken earlier.
  void end();
  void abandon();

  void add(DeviceStream& stream, const std::string& name, const std::vector<Access>& accesses,
           std::function<void()> work);
  [[nodiscard]] std::size_t mark(DeviceStream& stream);
  void hold(DeviceStream& stream, std::size_t mark);

  /// Throws CUDA's error for a broken rule; the recording is lost.
  [[noreturn]] void refuse(const std::string& why);
  [[noreturn]] void refuse_to_wait();

  // Operators actually run while being recorded, because the sizes of their results must be known. The values they
  // overwrite are restored.
  /// Saves the memory that an operation is about to write.
  void save(const std::vector<Access>& accesses);
  /// Keeps memory allocated during recording alive. Only replays fill it.
  void own(const at::Storage& made);
  /// Records that the work draws random numbers, which the caller's thread must do immediately.
  void note_draw() { draws_ = true; }

  /// Enqueues the whole recording on the stream.
  void replay(DeviceStream& stream);
  /// The number of calls to replay() in this process.
  [[nodiscard]] static int replays();

 private:
  enum class Kind { kWork, kMark, kHold };
  struct Step {
    Kind kind = Kind::kWork;
    std::size_t branch = 0;
    std::size_t mark = 0;  ///< index of the mark, for kMark and kHold
    std::string name = {};
    std::vector<Access> accesses = {};
    std::function<void()> work = {};
  };
  struct Branch {
    DeviceStream* stream = nullptr;
    int number = 0;  ///< number of the branch's stream in the ledger; for the first branch, the replaying stream
    Clock clock = {};
  };
  [[nodiscard]] std::size_t branch_of(DeviceStream& stream);
  void leave();
  [[nodiscard]] bool account(int number);
  void run() const;

  std::mutex mutex_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> draws_{false};
  bool over_ = false;
  std::vector<Step> steps_;
  std::vector<Branch> branches_;  ///< branches; the first is the origin's
  std::vector<Clock> marks_;      ///< work of the branches before each mark
  std::vector<std::pair<void*, std::string>> saved_;
  std::map<const void*, std::size_t> own_;  ///< sizes in bytes, by address
  std::vector<at::Storage> kept_;
  Clock replayed_;
};

}  // namespace lockstep::testing::make_believe
