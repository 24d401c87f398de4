// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel without its Reducer: the comparison at construction, and checks and buffers before forward.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/parallel/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/sharing.h"
#include "parallel/agreement.h"
#include "parallel/reducer/reducer.h"

namespace lockstep::parallel {
namespace {

/// Returns true if all trained parameters are frozen at present, as those of a GAN's other network are.
bool are_all_frozen(const auto& wrapped) {
  return std::none_of(wrapped.begin(), wrapped.end(),
                      [](const auto& one) { return one.trained && one.value.requires_grad(); });
}

NamedTensors trained(const NamedTensors& parameters) {
  NamedTensors kept;
  for (const auto& item : parameters) {
    if (item.second.requires_grad()) kept.push_back(item);
  }
  return kept;
}

void require_positive(std::optional<std::int64_t> bytes, const char* name) {
  if (bytes && *bytes <= 0) throw UsageError(fmt::format("DdpOptions::{} is {} bytes, which is not > 0", name, *bytes));
}

void require_real(const NamedTensors& trained) {
  for (const auto& [name, value] : trained) {
    if (!value.is_complex()) continue;
    throw UsageError(fmt::format("parameter '{}' is {}: gradients of complex numbers cannot be reduced", name,
                                 c10::toString(value.scalar_type())),
                     "register a real tensor and use at::view_as_complex() on it in forward");
  }
}

/// Marks the trained parameters that the options or `found` name as sparse.
std::vector<bool> mark_sparse(const NamedTensors& trained, const DdpCore::Sparse& found, const DdpOptions& options) {
  std::vector<bool> sparse(trained.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    names.push_back(trained[i].first);
    for (const at::Tensor& one : found) sparse[i] = sparse[i] || one.is_same(trained[i].second);
  }
  for (const std::string& name : options.sparse_parameters) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      throw UsageError(fmt::format("DdpOptions::sparse_parameters: there is no trained parameter '{}'{}", name,
                                   text::did_you_mean(name, names)));
    }
    sparse[static_cast<std::size_t>(at - names.begin())] = true;
  }
  return sparse;
}

std::vector<at::Tensor> clones_of(const NamedTensors& items) {
  std::vector<at::Tensor> clones;
  for (const auto& item : items) clones.push_back(item.second.detach().clone());
  return clones;
}

/// Clones `buffers` for each replica that has not run yet, before the active one's forward changes them: replicas on
/// ranks of their own would start from the same values. It runs at the first forward, so that a load after wrapping
/// counts.
void start_others(std::vector<std::vector<at::Tensor>>& buffers_of, int active, const NamedTensors& buffers) {
  for (std::size_t local = 0; local < buffers_of.size(); ++local) {
    if (static_cast<int>(local) != active && buffers_of[local].empty()) buffers_of[local] = clones_of(buffers);
  }
}

[[noreturn]] void throw_replaced(const std::string& name) {
  throw UsageError(fmt::format("parameter '{}' was replaced after DistributedDataParallel had wrapped it", name),
                   "copy values into it instead (under NoGrad), or wrap the model again");
}

[[noreturn]] void throw_changed(const std::string& name, const char* what) {
  throw UsageError(
      fmt::format("parameter '{}' has a different {} than when DistributedDataParallel wrapped it", name, what),
      "convert before wrapping; freeze all parameters or none, or wrap the model again");
}

}  // namespace

DdpCore::DdpCore(State state, const Sparse& sparse, ProcessGroup& group, const DdpOptions& options,
                 const GroupOwner& owner)
    : broadcast_buffers_(options.broadcast_buffers &&
                         (options.replicas == 0 || options.replicas == group.world_size())) {
  require_positive(options.first_bucket_bytes, "first_bucket_bytes");
  require_positive(options.bucket_bytes, "bucket_bytes");
  if (group.world_size() > 1) tensor::note_wrapper();
  require_equal_models(state.parameters, state.buffers, group);
  if (options.init_sync) {
    copy_from_rank(0, state.parameters, group);
    copy_from_rank(0, state.buffers, group);
  }
  NamedTensors parameters = trained(state.parameters);
  require_real(parameters);
  std::vector<bool> is_sparse = mark_sparse(parameters, sparse, options);
  reducer_ =
      std::make_shared<Reducer>(TrainedParameters{std::move(parameters), std::move(is_sparse)}, group, options, owner);
  reducer_->attach();
  buffers_of_.resize(reducer_->local_replicas());
  for (const auto& [name, value] : state.parameters) {
    wrapped_.push_back({.name = name,
                        .value = value,
                        .dtype = value.scalar_type(),
                        .sizes = value.sizes().vec(),
                        .strides = value.strides().vec(),
                        .trained = value.requires_grad()});
  }
}

DdpCore::~DdpCore() = default;
DdpCore::DdpCore(DdpCore&&) noexcept = default;
DdpCore& DdpCore::operator=(DdpCore&&) noexcept = default;

void DdpCore::require_unchanged(const NamedTensors& now) const {
  const bool frozen = are_all_frozen(wrapped_);
  for (std::size_t i = 0; i < wrapped_.size(); ++i) {
    const Wrapped& then = wrapped_[i];
    if (i >= now.size() || now[i].first != then.name || !now[i].second.is_same(then.value)) throw_replaced(then.name);
    const at::Tensor& value = then.value;
    if (value.scalar_type() != then.dtype || value.sizes() != then.sizes || value.strides() != then.strides) {
      throw_changed(then.name, "dtype, shape or memory layout");
    }
    if (value.requires_grad() != (then.trained && !frozen)) throw_changed(then.name, "requires_grad");
  }
  if (now.size() > wrapped_.size()) throw_replaced(now[wrapped_.size()].first);
}

void DdpCore::before_forward(const State& now, bool training) {
  require_unchanged(now.parameters);
  reducer_->before_forward();
  if (training) start_others(buffers_of_, reducer_->local_replica(), now.buffers);
  if (!training || !at::GradMode::is_enabled()) return;
  const auto& join = reducer_->join();
  if (join && join->throws_on_early_termination()) (void)join->announce(kForward);
  if (!broadcast_buffers_ || !sync() || now.buffers.empty()) return;
  const int source = join ? join->announce(kBuffers).first_active : 0;
  // The data has a version of its own: an earlier forward may have saved the buffers for its backward.
  NamedTensors buffers = now.buffers;
  for (auto& item : buffers) item.second = item.second.variable_data();
  copy_from_rank(source, buffers, reducer_->group());
}

void DdpCore::after_forward(const std::vector<at::Tensor>& outputs, bool complete) {
  if (!are_all_frozen(wrapped_))
    reducer_->after_forward(outputs, complete);  // without a trained parameter no gradient comes
}

void DdpCore::enter_replica(int local, const NamedTensors& buffers) {
  const int before = reducer_->local_replica();
  if (local == before) return;
  reducer_->enter_replica(local);
  auto& outgoing = buffers_of_[static_cast<std::size_t>(before)];
  const auto& incoming = buffers_of_[static_cast<std::size_t>(local)];
  outgoing.clear();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    at::Tensor buffer = buffers[i].second;
    outgoing.push_back(buffer.detach());
    // The storage is swapped, because backward would detect new contents as a change to its saved tensors.
    buffer.set_data(i < incoming.size() ? incoming[i] : buffer.detach().clone());
  }
}

void DdpCore::sync_buffers(const NamedTensors& buffers) {
  enter_replica(0, buffers);
  copy_from_rank(0, buffers, reducer_->group());
  for (std::size_t local = 1; local < buffers_of_.size(); ++local) buffers_of_[local] = clones_of(buffers);
}

void DdpCore::set_sync(bool sync) { reducer_->set_sync(sync); }
bool DdpCore::sync() const { return reducer_->sync(); }
double DdpCore::grad_norm() { return reducer_->grad_norm(); }

std::vector<std::int64_t> DdpCore::bucket_bytes() const {
  std::vector<std::int64_t> found;
  for (const Bucket& bucket : reducer_->step().gradients().buckets().all()) {
    std::int64_t bytes = 0;
    for (const std::size_t member : bucket.members) {
      bytes += static_cast<std::int64_t>(reducer_->step().gradients().parameters().items[member].second.nbytes());
    }
    found.push_back(bytes);
  }
  return found;
}

ProcessGroup& DdpCore::group() const { return reducer_->group(); }
void DdpCore::set_join(std::optional<JoinHandle> handle) { reducer_->set_join(handle); }

void DdpCore::shadow(int action, const State& now, const JoinStatus& status) {
  if (action == kBuffers) copy_from_rank(status.first_active, now.buffers, group());
  if (action == kBackward) reducer_->shadow_backward(status);
}

void DdpCore::after_join(const State& now, int source) {
  copy_from_rank(source, now.parameters, group());
  copy_from_rank(source, now.buffers, group());
}

}  // namespace lockstep::parallel
