// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_sink.h"

namespace lockstep {
namespace {

class CallbackSink final : public RunSink {
 public:
  explicit CallbackSink(RunCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void on_start(const RunStart& event) override { call(callbacks_.on_start, event); }
  void on_step(const StepResult& event) override { call(callbacks_.on_step, event); }
  void on_evaluation(const EvaluationResult& event) override { call(callbacks_.on_evaluation, event); }
  void on_epoch(const EpochResult& event) override { call(callbacks_.on_epoch, event); }
  void on_stage(const StageChange& event) override { call(callbacks_.on_stage, event); }
  void on_save(const SaveResult& event) override { call(callbacks_.on_save, event); }
  void on_end(const RunEnd& event) override { call(callbacks_.on_end, event); }

 private:
  template <class Event>
  static void call(const std::function<void(const Event&)>& callback, const Event& event) {
    if (callback) callback(event);
  }

  RunCallbacks callbacks_;
};

}  // namespace

std::shared_ptr<RunSink> run_callbacks(RunCallbacks callbacks) {
  return std::make_shared<CallbackSink>(std::move(callbacks));
}

}  // namespace lockstep
