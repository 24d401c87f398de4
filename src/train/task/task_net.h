// SPDX-License-Identifier: Apache-2.0
// A Task and its network as one module for DistributedDataParallel: forward goes through the task.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "lockstep/train/task.h"

namespace lockstep::train {

class TaskNet {
 public:
  TaskNet(Task& task, std::shared_ptr<torch::nn::Module> net) : task_(&task), net_(std::move(net)) {}

  Outputs forward(const Batch& batch) { return task_->run(*net_, batch); }

  [[nodiscard]] torch::nn::Module& net() const noexcept { return *net_; }
  [[nodiscard]] auto parameters() const { return net_->parameters(); }
  [[nodiscard]] auto named_parameters() const { return net_->named_parameters(); }
  [[nodiscard]] auto named_buffers() const { return net_->named_buffers(); }
  [[nodiscard]] bool is_training() const noexcept { return net_->is_training(); }
  void train(bool on = true) { net_->train(on); }
  void eval() { net_->eval(); }

 private:
  Task* task_;
  std::shared_ptr<torch::nn::Module> net_;
};

}  // namespace lockstep::train
