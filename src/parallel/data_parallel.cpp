// SPDX-License-Identifier: Apache-2.0
// DataParallel's two ways to run replicas. On the CPU each replica has its own graph, and our threads also run its
// backward. On other devices there is one graph, whose backward libtorch runs in a thread for each device.
#include "lockstep/parallel/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/keep_random_state.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "parallel/gathered_backward.h"
#include "parallel/replica_threads.h"

namespace lockstep::parallel {
namespace {

using Module = torch::nn::Module;
using Parts = std::vector<std::vector<at::Tensor>>;  // indexed by replica, then by argument

bool is_split(const at::Tensor& argument) { return argument.defined() && argument.dim() > 0; }

std::shared_ptr<Module> clone(const Module& module, const c10::optional<c10::Device>& device = c10::nullopt) {
  const tensor::KeepRandomState random;  // cloning draws initial weights
  try {
    return module.clone(device);
  } catch (const c10::Error& error) {
    throw UsageError(fmt::format("DataParallel cannot copy the module: {}", error.what_without_backtrace()),
                     "derive it from torch::nn::Cloneable and register its parts in reset(), or use "
                     "DistributedDataParallel");
  }
}

void require_unsynced(const Module& module) {
  for (const auto& item : module.named_modules("model")) {
    const auto* norm = dynamic_cast<const nn::SyncedStatistics*>(item.value().get());
    if (norm == nullptr || norm->statistics_sync() == nullptr) continue;
    throw UsageError(fmt::format("'{}' has synced statistics, which DataParallel's threads cannot sync", item.key()),
                     "leave batch norm unsynced, or use DistributedDataParallel");
  }
}

std::vector<c10::Device> devices_of(const Module& module, const DataParallelOptions& options) {
  if (!options.devices.empty()) return options.devices;
  const auto parameters = module.parameters();
  if (parameters.empty() || !parameters.front().is_cuda()) return {};
  std::vector<c10::Device> all;
  for (int i = 0; i < tensor::cuda_device_count(); ++i) {
    all.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  }
  if (options.replicas > 0 && static_cast<std::size_t>(options.replicas) < all.size()) {
    all.resize(static_cast<std::size_t>(options.replicas), all.front());
  }
  return all;
}

int replicas_of(const std::vector<c10::Device>& devices, const DataParallelOptions& options) {
  if (options.replicas < 0) throw UsageError(fmt::format("DataParallelOptions::replicas is {}", options.replicas));
  const int count = devices.empty() ? std::max(options.replicas, 1) : static_cast<int>(devices.size());
  if (options.replicas == 0 || options.replicas == count) return count;
  throw UsageError(fmt::format("DataParallelOptions::replicas is {} with {} devices", options.replicas, count),
                   "pass as many devices as replicas, or omit one of the two");
}

int threads_of(int replicas, const DataParallelOptions& options) {
  if (options.threads < 0) throw UsageError(fmt::format("DataParallelOptions::threads is {}", options.threads));
  return options.threads > 0 ? options.threads : std::max(at::get_num_threads() / replicas, 1);
}

/// Starts the threads after keep_freed_memory(), since threads started earlier would return their freed memory to the
/// system.
std::shared_ptr<ReplicaThreads> start_threads(int replicas, const DataParallelOptions& options) {
  keep_freed_memory();
  return std::make_shared<ReplicaThreads>(replicas, threads_of(replicas, options));
}

std::int64_t batch_size(const std::vector<at::Tensor>& arguments) {
  std::int64_t size = -1;
  for (const at::Tensor& argument : arguments) {
    if (!is_split(argument)) continue;
    if (size >= 0 && argument.size(0) != size) {
      throw UsageError(fmt::format("DataParallel got tensors of {} and {} samples", size, argument.size(0)),
                       "dimension 0 of every tensor argument is the batch");
    }
    size = argument.size(0);
  }
  if (size >= 0) return size;
  throw UsageError("DataParallel got no tensor with a batch to split",
                   "pass the tensors themselves; a container of tensors (a struct, a vector) cannot be split");
}

/// Splits the way at::chunk does: into parts of ceil(size / replicas), of which the last may be shorter. A small batch
/// gives fewer parts.
Parts split(const std::vector<at::Tensor>& arguments, int replicas) {
  const std::int64_t size = batch_size(arguments);
  const std::int64_t each = std::max<std::int64_t>((size + replicas - 1) / replicas, 1);
  const std::int64_t count = std::max<std::int64_t>((size + each - 1) / each, 1);
  Parts parts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    for (const at::Tensor& argument : arguments) {
      const std::int64_t begin = i * each;
      parts[static_cast<std::size_t>(i)].push_back(
          is_split(argument) ? argument.narrow(0, begin, std::min(each, size - begin)) : argument);
    }
  }
  return parts;
}

std::vector<at::Tensor> values_of(const Module& module) {
  std::vector<at::Tensor> values;
  for (const auto& item : module.named_parameters()) values.push_back(item.value());
  return values;
}

}  // namespace

class DataParallelCore::Impl {
 public:
  Impl(std::shared_ptr<Module> module, const DataParallelOptions& options)
      : module_(std::move(module)),
        devices_(devices_of(*module_, options)),
        replicas_(replicas_of(devices_, options)),
        threads_(start_threads(replicas_, options)) {
    require_unsynced(*module_);
    for (const c10::Device& device : devices_) copies_.push_back(copy_on(device));
    if (!devices_.empty()) return;
    for (int replica = 1; replica < replicas_; ++replica) copies_.push_back(clone(*module_));
  }

  [[nodiscard]] int replicas() const noexcept { return replicas_; }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments, const Body& body) {
    return devices_.empty() ? run_on_threads(arguments, body) : run_on_devices(arguments, body);
  }

 private:
  [[nodiscard]] Module& replica(int index) const {
    return index == 0 ? *module_ : *copies_[static_cast<std::size_t>(index) - 1];
  }

  [[nodiscard]] std::shared_ptr<Module> copy_on(const c10::Device& device) const {
    auto copy = clone(*module_, device);
    for (at::Tensor& parameter : copy->parameters()) parameter.requires_grad_(false);  // lead_back() gives it a graph
    return copy;
  }

  /// Updates a copy to the module's current state: the same values, its own buffers, the same modes. Parameters on the
  /// copy's device share their memory. Copied values get new memory, because the graph of an earlier forward may still
  /// use the old memory.
  void refresh(Module& copy, const std::optional<c10::Device>& device = std::nullopt) const {
    const at::NoGradGuard no_grad;
    const auto here = [&](const at::Tensor& value) { return device ? value.to(*device) : value; };
    const auto from = module_->parameters();
    const auto into = copy.parameters();
    for (std::size_t i = 0; i < from.size(); ++i) at::Tensor(into[i]).set_data(here(from[i].detach()));
    const auto buffers = module_->buffers();
    const auto own = copy.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const at::Tensor value = buffers[i].detach();
      at::Tensor(own[i]).set_data(value.to(device.value_or(value.device()), value.scalar_type(), /*non_blocking=*/false,
                                           /*copy=*/true));
    }
    const auto modules = module_->modules();
    const auto copies = copy.modules();
    for (std::size_t i = 0; i < modules.size(); ++i) copies[i]->train(modules[i]->is_training());  // outer ones first
  }

  /// Does the same for a copy whose graph begins at its own parameters.
  void refresh_leaf(Module& copy) const {
    refresh(copy);
    const auto from = module_->parameters();
    const auto into = copy.parameters();
    for (std::size_t i = 0; i < from.size(); ++i) at::Tensor(into[i]).requires_grad_(from[i].requires_grad());
  }

  std::vector<at::Tensor> run_on_threads(const std::vector<at::Tensor>& arguments, const Body& body) {
    Parts parts = split(arguments, replicas_);
    const auto count = static_cast<int>(parts.size());
    for (int index = 1; index < count; ++index) refresh_leaf(replica(index));
    std::vector<ReplicaGraph> graphs(parts.size());
    threads_->run(count, [&](int index) {
      ReplicaGraph& graph = graphs[static_cast<std::size_t>(index)];
      for (at::Tensor& part : parts[static_cast<std::size_t>(index)]) {
        graph.arguments.push_back(part.defined() ? part.detach().requires_grad_(part.requires_grad()) : part);
      }
      graph.parameters = values_of(replica(index));
      graph.outputs = body(replica(index), graph.arguments);
    });
    GatherInputs inputs{.arguments = arguments};
    for (const at::Tensor& argument : arguments) inputs.is_split.push_back(is_split(argument));
    for (const auto& item : module_->named_parameters()) inputs.parameters.emplace_back(item.key(), item.value());
    return gather(std::move(graphs), std::move(inputs), threads_);
  }

  std::vector<at::Tensor> run_on_devices(const std::vector<at::Tensor>& arguments, const Body& body) {
    const Parts parts = split(arguments, replicas_);
    const std::vector<c10::Device> used(devices_.begin(), devices_.begin() + static_cast<std::ptrdiff_t>(parts.size()));
    replicate(used);
    std::vector<std::vector<at::Tensor>> outputs(parts.size());
    // The caller's streams: the caller's earlier work runs before the replicas' work, and its later work runs after it.
    std::vector<c10::Stream> streams;
    for (const c10::Device& device : used) {
      streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    }
    threads_->run(static_cast<int>(parts.size()), [&](int index) {
      const auto at = static_cast<std::size_t>(index);
      const c10::StreamGuard guard(streams[at]);
      std::vector<at::Tensor> own;
      for (const at::Tensor& part : parts[at]) own.push_back(part.defined() ? part.to(used[at]) : part);
      outputs[at] = body(*copies_[at], own);
    });
    keep_buffers(*copies_.front());
    std::vector<at::Tensor> joined;
    for (std::size_t i = 0; i < outputs.front().size(); ++i) {
      std::vector<at::Tensor> pieces;
      for (const auto& each : outputs) pieces.push_back(each[i].to(used.front()));
      joined.push_back(join_parts(pieces));
    }
    return joined;
  }

  /// Gives the copies on these devices the module's current state, and makes their gradients flow to the module's
  /// parameters.
  void replicate(const std::vector<c10::Device>& used) const {
    std::vector<std::vector<at::Tensor>> values;  // by replica
    for (std::size_t i = 0; i < used.size(); ++i) {
      refresh(*copies_[i], used[i]);
      values.push_back(copies_[i]->parameters());
    }
    const auto parameters = module_->named_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::vector<at::Tensor> own;
      for (const auto& each : values) own.push_back(each[i]);
      lead_back(parameters[i].key(), parameters[i].value(), own);
    }
  }

  void keep_buffers(const Module& first) const {
    const at::NoGradGuard no_grad;
    const auto from = first.buffers();
    const auto into = module_->buffers();
    for (std::size_t i = 0; i < from.size(); ++i) {
      at::Tensor(into[i]).set_data(from[i].detach().to(into[i].device()));
    }
  }

  std::shared_ptr<Module> module_;
  std::vector<c10::Device> devices_;
  int replicas_;
  std::shared_ptr<ReplicaThreads> threads_;
  std::vector<std::shared_ptr<Module>> copies_;  ///< one per device; on the CPU, one per replica after the first
};

DataParallelCore::DataParallelCore(std::shared_ptr<Module> module, const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(std::move(module), options)) {}
DataParallelCore::~DataParallelCore() = default;
DataParallelCore::DataParallelCore(DataParallelCore&&) noexcept = default;
DataParallelCore& DataParallelCore::operator=(DataParallelCore&&) noexcept = default;
int DataParallelCore::replicas() const noexcept { return impl_->replicas(); }
std::vector<at::Tensor> DataParallelCore::run(const std::vector<at::Tensor>& arguments, const Body& body) {
  return impl_->run(arguments, body);
}

}  // namespace lockstep::parallel
