// SPDX-License-Identifier: Apache-2.0
// Makes the batch norms of a model sum their statistics over the run's replicas.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/parallel/sync_batch_norm.h"

#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/parallel/replica_team.h"

namespace lockstep::parallel {
namespace {

/// Sums over the replicas of the calling thread's ReplicaTeam, or over the ranks if it has none.
class ReplicaSync final : public nn::StatisticsSync {
 public:
  ReplicaSync(ProcessGroup& group, GroupOwner owner) : owner_(std::move(owner)), group_(&group) {}

  [[nodiscard]] int replicas() const override {
    const Replica* replica = find_replica();
    return replica != nullptr ? replica->count() : group_->world_size();
  }

  void all_reduce(const at::Tensor& values) override {
    Replica* replica = find_replica();
    if (values.is_cuda()) require_one_per_rank(replica);
    if (replica != nullptr && !values.is_cuda()) {
      replica->all_reduce(values);
    } else {
      group_->all_reduce(values).wait();
    }
  }

 private:
  // On a GPU, backward runs in an autograd thread. That thread belongs to no replica, so all_reduce() could not let the
  // next replica of this rank run.
  void require_one_per_rank(const Replica* replica) const {
    if (replica == nullptr || replica->count() == group_->world_size()) return;
    throw UsageError(
        fmt::format("batch norm cannot be synced over {} replicas on {} GPUs", replica->count(), group_->world_size()),
        "on GPUs, start one rank per replica, or do not sync batch norm");
  }

  GroupOwner owner_;
  ProcessGroup* group_;
};

const char* torch_batch_norm(const torch::nn::Module& module) {
  if (dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) != nullptr) return "BatchNorm1d";
  if (dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) != nullptr) return "BatchNorm2d";
  if (dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module) != nullptr) return "BatchNorm3d";
  return nullptr;
}

[[noreturn]] void throw_unreachable(const std::string& path, const char* type) {
  const std::string what = path.empty() ? "the model itself" : fmt::format("'{}'", path);
  throw UsageError(
      fmt::format("{} is a torch::nn::{}, whose statistics cannot be synced", what, type),
      fmt::format("use lockstep::nn::{} there: it has the same options and names, and computes the same results",
                  type));
}

void collect(torch::nn::Module& module, const std::string& path, std::vector<nn::SyncedStatistics*>& found) {
  if (const char* type = torch_batch_norm(module)) throw_unreachable(path, type);
  if (auto* layer = dynamic_cast<nn::SyncedStatistics*>(&module)) found.push_back(layer);
  for (const auto& child : module.named_children()) {
    collect(*child.value(), path.empty() ? child.key() : path + "." + child.key(), found);
  }
}

}  // namespace

int sync_batch_norm(torch::nn::Module& root, ProcessGroup& group, GroupOwner owner) {
  std::vector<nn::SyncedStatistics*> layers;
  collect(root, "", layers);
  const auto sync = std::make_shared<ReplicaSync>(group, std::move(owner));
  for (nn::SyncedStatistics* layer : layers) layer->set_statistics_sync(sync);
  return static_cast<int>(layers.size());
}

}  // namespace lockstep::parallel
