// SPDX-License-Identifier: Apache-2.0
// All receivers of a run's events; they are called in a fixed order.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"
#include "train/report/disk_trouble.h"

namespace lockstep::train {

/// The objects used by the sinks. Lifetime: they outlive the sinks.
struct SinkOwners {
  const Job& job;
  DiskTrouble& trouble;  ///< keeps disk errors of the Trainer's sinks during training
};

/// The Trainer's own sinks, on rank 0, and the program's sinks, on every rank. Owned by the training thread.
class RunSinks {
 public:
  RunSinks(const SinkOwners& owners, std::vector<std::shared_ptr<RunSink>> own,
           std::vector<std::shared_ptr<RunSink>> users)
      : job_(owners.job), trouble_(owners.trouble), own_(std::move(own)), users_(std::move(users)) {}

  void gradients(const StepGradients& event);
  void step(const StepResult& event);
  void evaluating(const EvaluationProgress& event);
  void epoch(const EpochResult& event);
  void stage(const StageChange& event);
  void save(const SaveResult& event);
  void start(const RunStart& event);

  /// Rank 0's sinks write files, which may take a long time. The other ranks wait, and throw if rank 0 has an error.
  /// Collective: yes.
  void evaluation(const EvaluationResult& event);
  /// `finish` completes the event on rank 0 before the sinks receive it. Collective: yes.
  void end(RunEnd event, const std::function<void(RunEnd&)>& finish);

 private:
  const Job& job_;
  DiskTrouble& trouble_;
  std::vector<std::shared_ptr<RunSink>> own_;
  std::vector<std::shared_ptr<RunSink>> users_;
};

}  // namespace lockstep::train
