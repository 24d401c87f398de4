// SPDX-License-Identifier: Apache-2.0
// Counts the run's checkpoints in the launcher's store, so that a group of nodes knows when to take in another one.
#pragma once

#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// For rank 0. A store that is gone is no error here: the launcher notices it by itself.
class SaveCounter final : public RunSink {
 public:
  explicit SaveCounter(Job job) : job_(std::move(job)) {}

  /// Sets the counter to 0: this program counts.
  void on_start(const RunStart& event) override;
  void on_save(const SaveResult& event) override;

 private:
  void add(std::int64_t saves);

  Job job_;
};

/// Reports to the launcher how many ranks have work. A group of a range of nodes takes in no more.
void publish_replicas(const Job& job, std::int64_t replicas);

/// True if the ranks were started by `lockstep run` or a verb of `lockstep`.
[[nodiscard]] bool has_launcher();

}  // namespace lockstep::train
