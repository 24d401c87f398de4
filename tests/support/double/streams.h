// SPDX-License-Identifier: Apache-2.0
// The streams and events of the make-believe GPUs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/double/lane.h"
#include "support/double/ledger.h"
#include "support/double/recording.h"
#include "support/double/stream_handle.h"

namespace lockstep::testing::make_believe {

class DeviceStream;

/// A place in a stream, kept by an event.
struct Marker {
  DeviceStream* stream = nullptr;
  std::uint64_t at = 0;
  Clock clock = {};
  std::shared_ptr<Recording> recording = nullptr;  ///< `at` is a mark of it; null: the place is in no recording
};

class DeviceStream final : public StreamHandle {
 public:
  explicit DeviceStream(const c10::Stream& stream);

  void enqueue(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work) override;
  /// If the stream is idle, the calling thread does the work in the stream's order; else as enqueue().
  void enqueue_or_run(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work);
  [[nodiscard]] Marker mark();
  void hold(const Marker& marker);
  /// Waits until all is done, like cudaStreamSynchronize.
  void wait();

  /// Later work goes into the recording; null: it is done again.
  void record(std::shared_ptr<Recording> recording);
  [[nodiscard]] std::shared_ptr<Recording> recording();
  [[nodiscard]] bool is_recording() override { return recording() != nullptr; }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] Lane& lane() { return lane_; }

 private:
  Lane lane_;
  const int number_;
  std::mutex mutex_;
  std::shared_ptr<Recording> recording_;
};

/// The stream behind c10's.
[[nodiscard]] DeviceStream& stream_of(const c10::Stream& stream);

[[nodiscard]] bool is_done(const Marker& marker);

/// The delay of copies and collectives: LOCKSTEP_DOUBLE_DELAY_US.
[[nodiscard]] std::chrono::microseconds ordered_delay();

}  // namespace lockstep::testing::make_believe
