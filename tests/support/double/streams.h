// SPDX-License-Identifier: Apache-2.0
// The streams and events of the fake GPUs.
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

/// A position in a stream, as an event records it.
struct Marker {
  DeviceStream* stream = nullptr;
  std::uint64_t at = 0;
  Clock clock = {};
  std::shared_ptr<Recording> recording = nullptr;  ///< recording in which `at` is a mark; null: none
};

class DeviceStream final : public StreamHandle {
 public:
  explicit DeviceStream(const c10::Stream& stream);

  void enqueue(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work) override;
  /// Does the same as enqueue(), but if the stream is idle, the calling thread does the work in the stream's order.
  void enqueue_or_run(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work);
  [[nodiscard]] Marker mark();
  void hold(const Marker& marker);
  /// Waits until all work is done, like cudaStreamSynchronize.
  void wait();

  /// Sends later work into the recording. If it is null, later work runs as usual.
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

/// The stream that corresponds to c10's stream.
[[nodiscard]] DeviceStream& stream_of(const c10::Stream& stream);

[[nodiscard]] bool is_done(const Marker& marker);

/// The delay of copies and collectives: LOCKSTEP_DOUBLE_DELAY_US.
[[nodiscard]] std::chrono::microseconds ordered_delay();

}  // namespace lockstep::testing::make_believe
