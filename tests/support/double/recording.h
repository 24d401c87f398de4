// SPDX-License-Identifier: Apache-2.0
// What the streams of a make-believe GPU get while it is recorded, with CUDA's rules: a stream that waits for an event
// of a recorded stream is recorded as well, and has to be joined again; nothing is waited for or asked meanwhile; an
// event of a recording can be waited for by its streams only.
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

/// Throws where the calling thread has begun a recording: it must not wait for a GPU, nor ask it.
void refuse_in_recording();

/// Thread-safe: yes.
class Recording : public std::enable_shared_from_this<Recording> {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  /// The calling thread records `origin` from here to end() or abandon().
  void begin(DeviceStream& origin);
  /// Throws: where a stream was not joined, or a rule was broken before.
  void end();
  void abandon();

  void add(DeviceStream& stream, const std::string& name, const std::vector<Access>& accesses,
           std::function<void()> work);
  [[nodiscard]] std::size_t mark(DeviceStream& stream);
  void hold(DeviceStream& stream, std::size_t mark);

  /// Throws what CUDA says where a rule is broken; the recording is lost.
  [[noreturn]] void refuse(const std::string& why);
  [[noreturn]] void refuse_to_wait();

  // Operators compute while they are recorded, since their results have to have a size. No value is left of that.
  /// Keeps what an operation would write.
  void save(const std::vector<Access>& accesses);
  /// Keeps new memory, which belongs to the recording. It gets values by replays only.
  void own(const at::Storage& made);
  /// The work draws random numbers: the caller's thread has to do it, as soon as it is called.
  void note_draw() { draws_ = true; }

  /// Puts all of it on the stream.
  void replay(DeviceStream& stream);
  /// How often this process has called replay().
  [[nodiscard]] static int replays();

 private:
  enum class Kind { kWork, kMark, kHold };
  struct Step {
    Kind kind = Kind::kWork;
    std::size_t branch = 0;
    std::size_t mark = 0;  ///< of kMark and kHold
    std::string name = {};
    std::vector<Access> accesses = {};
    std::function<void()> work = {};
  };
  struct Branch {
    DeviceStream* stream = nullptr;
    int number = 0;  ///< the ledger's; the first one's is that of the stream that replays
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
  std::vector<Branch> branches_;  ///< the first is that where it began
  std::vector<Clock> marks_;      ///< which work of the branches is before each mark
  std::vector<std::pair<void*, std::string>> saved_;
  std::map<const void*, std::size_t> own_;  ///< bytes, by address
  std::vector<at::Storage> kept_;
  Clock replayed_;
};

}  // namespace lockstep::testing::make_believe
