// SPDX-License-Identifier: Apache-2.0
#include "support/double/graph.h"

#include "support/double/device.h"
#include "support/double/recording.h"
#include "support/double/streams.h"
#include "support/host_log.h"
#include "tensor/recorded_stream.h"

namespace lockstep::testing::make_believe {
namespace {

class Graph final : public tensor::DeviceGraph {
 public:
  std::shared_ptr<void> enter() override { return std::make_shared<tensor::OnRecordedStream>(); }

  void record(const std::function<void()>& work) override {
    const tensor::OnRecordedStream stream;
    stream_of(tensor::recorded_stream()).wait();
    recording_->begin(stream_of(tensor::recorded_stream()));
    try {
      work();
      recording_->end();
    } catch (...) {
      recording_->abandon();
      throw;
    }
  }

  [[nodiscard]] bool intact() const noexcept override { return true; }
  [[nodiscard]] std::vector<std::string> waits(const std::function<void()>& work) override { return waits_of(work); }
  void replay() override { recording_->replay(stream_of(current_stream(current_gpu()))); }

 private:
  std::shared_ptr<Recording> recording_ = std::make_shared<Recording>();
};

}  // namespace

std::unique_ptr<tensor::DeviceGraph> make_graph() { return std::make_unique<Graph>(); }

bool is_recording() { return stream_of(current_stream(current_gpu())).is_recording(); }

}  // namespace lockstep::testing::make_believe
