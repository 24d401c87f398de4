// SPDX-License-Identifier: Apache-2.0
// Counts the run's checkpoints in the launcher's store, so that the launcher knows when to let another node join.
#pragma once

#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// A sink for rank 0. A lost connection to the store is not an error here, because the launcher notices it by itself.
class SaveCounter final : public RunSink {
 public:
  explicit SaveCounter(Job job) : job_(std::move(job)) {}

  /// Sets the counter to 0, which shows that this program counts its checkpoints.
  void on_start(const RunStart& event) override;
  void on_save(const SaveResult& event) override;

 private:
  void add(std::int64_t saves);

  Job job_;
};

/// Reports to the launcher how many ranks have work, so that an elastic group does not grow beyond that number.
void publish_replicas(const Job& job, std::int64_t replicas);

/// Returns true if the ranks were started by `lockstep run` or a verb of `lockstep`.
[[nodiscard]] bool has_launcher();

}  // namespace lockstep::train
