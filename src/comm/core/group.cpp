// SPDX-License-Identifier: Apache-2.0
#include "comm/core/group.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>

#include "comm/core/device_path.h"
#include "comm/core/host_tensors.h"
#include "comm/core/operation_queue.h"
#include "comm/core/tree_reduce.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/sharing.h"

namespace lockstep::comm {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

Collective describe(Kind kind, const at::Tensor& tensor) {
  Collective collective;
  collective.call.kind = kind;
  collective.call.numel = tensor.numel();
  collective.call.dtype = static_cast<std::int8_t>(tensor.scalar_type());
  collective.item_bytes = tensor.element_size();
  collective.bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
  tensor::note_reduced(static_cast<std::int64_t>(collective.bytes));
  return collective;
}

void use_counts(Collective& collective, std::vector<std::int64_t> counts) {
  collective.call.numel = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  collective.call.counts_digest = XXH3_64bits(counts.data(), counts.size() * sizeof(std::int64_t)) | 1;
  collective.counts = std::make_shared<const std::vector<std::int64_t>>(std::move(counts));
}

class Group final : public OwnedGroup {
 public:
  Group(std::unique_ptr<Backend> backend, GroupOptions options)
      : name_(options.transport ? options.transport->name() : backend->name()),
        options_(std::move(options)),
        backend_(backend.get()) {
    if (options_.place.world == 1) {
      alone_ = std::move(backend);
    } else {
      queue_ = std::make_shared<OperationQueue>(std::move(backend), options_.timeout);
      queue_->start();
    }
    if (options_.transport == nullptr) return;
    device_ = std::make_unique<DevicePath>(std::move(options_.transport), queue_, options_.world, options_.timeout);
  }
  ~Group() override { Group::close(std::uncaught_exceptions() == 0); }

  int rank() const noexcept override { return options_.place.rank; }
  int world_size() const noexcept override { return options_.place.world; }
  std::string backend_name() const override { return name_; }

  using ProcessGroup::all_reduce;
  Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) override {
    Collective collective = reduction(Kind::kAllReduce, tensor, options);
    if (options.then == nullptr) return submit_in_place(std::move(collective), tensor);
    if (!is_plain(tensor)) {
      throw UsageError("all_reduce with ReduceOptions::then was given a tensor that is not dense memory on the CPU");
    }
    collective.data = collective.output = static_cast<std::byte*>(tensor.data_ptr());
    return run(std::move(collective), {tensor, tensor}, options.then, queue_.get());
  }

  using ProcessGroup::reduce;
  Work reduce(const at::Tensor& tensor, int root, const ReduceOptions& options) override {
    check_root(root, world_size(), "reduce");
    Collective collective = reduction(Kind::kReduce, tensor, options);
    collective.call.root = root;
    return submit_in_place(std::move(collective), tensor);
  }

  using ProcessGroup::reduce_scatter;
  Work reduce_scatter(const at::Tensor& input, const at::Tensor& output, const ReduceOptions& options) override {
    Collective collective = reduction(Kind::kReduceScatter, input, options);
    check_partner(input, output, shard_of(collective.call.numel, world_size(), rank()).size(), "reduce_scatter");
    return submit(std::move(collective), input, output);
  }

  Work broadcast(const at::Tensor& tensor, int root) override {
    check_copyable(tensor, "broadcast");
    check_root(root, world_size(), "broadcast");
    Collective collective = describe(Kind::kBroadcast, tensor);
    collective.call.root = root;
    return submit_in_place(std::move(collective), tensor);
  }

  Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) override {
    check_copyable(input, "all_gather");
    return submit_gathering(describe(Kind::kAllGather, input), input, out);
  }

  Work all_gather_into(const at::Tensor& input, const at::Tensor& output) override {
    check_copyable(output, "all_gather_into");
    check_partner(output, input, shard_of(output.numel(), world_size(), rank()).size(), "all_gather_into");
    Collective collective = describe(Kind::kAllGatherInto, output);
    collective.bytes = static_cast<std::size_t>(input.numel()) * input.element_size();
    return submit(std::move(collective), input, output);
  }

  std::vector<at::Tensor> all_gather_uneven(const at::Tensor& input) override {
    check_copyable(input, "all_gather_uneven");
    if (input.dim() == 0) throw UsageError("all_gather_uneven was given a tensor without dimensions", "use all_gather");
    const std::vector<std::int64_t> rows = exchange_counts({input.size(0)}, row_elements(input));
    Collective collective = describe(Kind::kAllGather, input);
    std::vector<std::int64_t> counts = rows;
    for (std::int64_t& count : counts) count *= row_elements(input);
    use_counts(collective, counts);
    const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    const at::Tensor whole = at::empty(with_first(input, total, true), input.options().requires_grad(false));
    submit(std::move(collective), input, whole).wait();
    return cut(whole, rows);
  }

  Work all_to_all(const at::Tensor& input, const at::Tensor& output) override {
    check_copyable(input, "all_to_all");
    check_partner(input, output, input.numel(), "all_to_all");
    check_divisible(input, world_size(), "all_to_all");
    if (input.is_alias_of(output)) {
      throw UsageError("all_to_all was given the same memory as input and output", "pass a separate output tensor");
    }
    return submit(describe(Kind::kAllToAll, input), input, output);
  }

  std::vector<at::Tensor> all_to_all_uneven(const std::vector<at::Tensor>& inputs) override {
    check_list(inputs, world_size(), false, "all_to_all_uneven");
    std::vector<std::int64_t> own_counts;
    for (const at::Tensor& input : inputs) own_counts.push_back(input.size(0));
    const std::int64_t elements = row_elements(inputs.front());
    const std::vector<std::int64_t> rows = exchange_counts(own_counts, elements);
    const at::Tensor outbox = at::cat(inputs, 0).detach();
    Collective collective = describe(Kind::kAllToAll, outbox);
    std::vector<std::int64_t> counts = rows;
    for (std::int64_t& count : counts) count *= elements;
    use_counts(collective, counts);
    std::vector<std::int64_t> received;
    for (int from = 0; from < world_size(); ++from) {
      received.push_back(rows[index(from) * index(world_size()) + index(rank())]);
    }
    const std::int64_t total = std::accumulate(received.begin(), received.end(), std::int64_t{0});
    const at::Tensor whole = at::empty(with_first(outbox, total, true), outbox.options());
    submit(std::move(collective), outbox, whole).wait();
    return cut(whole, received);
  }

  Work gather(const at::Tensor& input, std::vector<at::Tensor>& out, int root) override {
    check_copyable(input, "gather");
    check_root(root, world_size(), "gather");
    Collective collective = describe(Kind::kGather, input);
    collective.call.root = root;
    if (root == rank()) return submit_gathering(std::move(collective), input, out);
    Work work = submit(std::move(collective), input, at::empty({0}, input.options().requires_grad(false)));
    out.clear();  // only now, because `input` may be in `out`
    return work;
  }

  Work scatter(const std::vector<at::Tensor>& inputs, const at::Tensor& output, int root) override {
    check_copyable(output, "scatter");
    check_root(root, world_size(), "scatter");
    at::Tensor outbox = at::empty({0}, output.options().requires_grad(false));
    if (root == rank()) {
      check_list(inputs, world_size(), true, "scatter");
      check_partner(output, inputs.front(), output.numel(), "scatter");
      std::vector<at::Tensor> flat;
      for (const at::Tensor& input : inputs) flat.push_back(input.detach().reshape({-1}));
      outbox = at::cat(flat);
    } else if (!inputs.empty()) {
      throw UsageError(
          fmt::format("scatter was given {} inputs on rank {}, but rank {} is the root", inputs.size(), rank(), root));
    }
    Collective collective = describe(Kind::kScatter, output);
    collective.call.root = root;
    collective.bytes = static_cast<std::size_t>(outbox.numel()) * outbox.element_size();
    return submit(std::move(collective), outbox, output);
  }

  Work send(const at::Tensor& tensor, int to) override {
    check_copyable(tensor, "send");
    check_peer(to, options_.place, "send");
    Collective message = describe(Kind::kSend, tensor);
    message.call.root = to;
    return submit(std::move(message), tensor, at::Tensor(), &channel(to, true));
  }

  Work recv(const at::Tensor& tensor, int from) override {
    check_copyable(tensor, "recv");
    check_peer(from, options_.place, "recv");
    check_written(tensor, "recv");
    Collective message = describe(Kind::kRecv, tensor);
    message.call.root = from;
    return submit(std::move(message), at::Tensor(), tensor, &channel(from, false));
  }

  Work barrier() override { return run(Collective{}, {}, {}, queue_.get()); }

  at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) override {
    check_bucket(numel, dtype);
    return backend_->allocate_bucket(numel, dtype);
  }

  using ProcessGroup::split;
  std::shared_ptr<ProcessGroup> split(int color, int key) override;

  void check() override {
    if (device_ != nullptr) device_->check();
    if (queue_ != nullptr) queue_->check();
    std::vector<std::shared_ptr<ProcessGroup>> children;
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) std::rethrow_exception(aborted_);
      for (const auto& child : children_) children.push_back(child.lock());
    }
    for (const auto& child : children) {
      if (child != nullptr) check_group(*child);
    }
  }

  StepCalls calls_of(const std::function<void()>& work) override {
    StepCalls calls;
    note_in(&calls);
    try {
      work();
    } catch (...) {
      note_in(nullptr);
      throw;
    }
    note_in(nullptr);
    return calls;
  }

  void note_on_host(const std::string& call) override {
    const std::lock_guard lock(mutex_);
    if (calls_ != nullptr && calls_->on_host.empty()) calls_->on_host = call;
  }

  void replay_step(std::uint64_t recorded, const std::function<void()>& launch) override {
    if (device_ == nullptr) {
      throw UsageError("a recorded step cannot be replayed in a group without NCCL",
                       "compute the step without the recording");
    }
    device_->replay(recorded, launch);
  }

  void abort(const std::string& reason) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) aborted_ = std::make_exception_ptr(PeerError("the group was aborted: " + reason));
    }
    if (device_ != nullptr) device_->abort(reason);
    if (queue_ != nullptr) queue_->abort(reason);
    const std::lock_guard lock(mutex_);
    for (const auto& child : children_) {
      if (const auto group = child.lock()) group->abort(reason);
    }
  }

  void close(bool orderly) noexcept override {
    if (closed_) return;
    closed_ = true;
    if (device_ != nullptr) device_->close(orderly);
    for (auto& [peer, channel] : channels_) channel->close(orderly);
    if (queue_ != nullptr) queue_->close(orderly);
  }

 private:
  Collective reduction(Kind kind, const at::Tensor& tensor, const ReduceOptions& options) {
    check_reducible(tensor, options.op, name_of(kind));
    Collective collective = describe(kind, tensor);
    if (options.replicas != 0) {
      collective.rows = check_rows(tensor, options, options_.place, name_of(kind));
      collective.bytes /= static_cast<std::size_t>(collective.rows);
      collective.call.numel /= collective.rows;
    }
    collective.call.op = static_cast<std::uint8_t>(options.op);
    collective.call.replicas = options.replicas;
    collective.call.exact = options.exact ? 1 : 0;
    collective.bucket = options.bucket;
    collective.buckets = options.buckets;
    return collective;
  }

  /// Returns the `own_counts` of all ranks, one after another. Also checks that all ranks have the same number of
  /// elements per row.
  std::vector<std::int64_t> exchange_counts(const std::vector<std::int64_t>& own_counts, std::int64_t row) {
    const auto size = static_cast<std::int64_t>(own_counts.size());
    const at::Tensor input = at::full({size + 1}, row, at::kLong);
    std::copy(own_counts.begin(), own_counts.end(), input.data_ptr<std::int64_t>());
    std::vector<at::Tensor> all;
    all_gather(input, all).wait();
    std::vector<std::int64_t> counts;
    for (int other = 0; other < world_size(); ++other) {
      const auto* other_counts = all[static_cast<std::size_t>(other)].data_ptr<std::int64_t>();
      if (other_counts[size] != row) {
        throw UsageError(
            fmt::format("rows have {} elements on rank {}, but {} on rank {}: only the first dimension may differ", row,
                        rank(), other_counts[size], other));
      }
      counts.insert(counts.end(), other_counts, other_counts + size);
    }
    return counts;
  }

  /// Submits the gather, then sets `out` to one part per rank: `input` may be in `out`.
  Work submit_gathering(Collective collective, const at::Tensor& input, std::vector<at::Tensor>& out) {
    const at::Tensor whole = at::empty(with_first(input, world_size(), false), input.options().requires_grad(false));
    Work work = submit(std::move(collective), input, whole);
    out.clear();
    for (int other = 0; other < world_size(); ++other) out.push_back(whole.select(0, other));
    return work;
  }

  Work submit_in_place(Collective collective, const at::Tensor& tensor) {
    return submit(std::move(collective), tensor, tensor);
  }

  Work submit(Collective collective, const at::Tensor& input, const at::Tensor& output) {
    check_written(output, name_of(collective.call.kind));
    if (device_ != nullptr && device_->takes(collective, input, output)) {
      note_recorded(collective.call);
      return device_->submit(std::move(collective), input, output);
    }
    if (alone_ != nullptr && !input.is_cpu() && !output.is_cpu()) {
      apply_alone(collective, input, output);
      return {};
    }
    return submit(std::move(collective), input, output, queue_.get());
  }

  // Strided tensors and device tensors are copied when the call is made and written back at the end.
  Work submit(Collective collective, const at::Tensor& input, const at::Tensor& output, OperationQueue* queue) {
    const at::Tensor from = input.defined() ? host_copy(input) : input;
    const bool in_place = input.is_same(output);
    at::Tensor to = output;
    if (in_place) {
      to = from;
    } else if (output.defined() && !is_plain(output)) {
      to = empty_host(output.sizes(), output);
    }
    if (from.defined()) collective.data = static_cast<const std::byte*>(from.data_ptr());
    if (to.defined()) collective.output = static_cast<std::byte*>(to.data_ptr());
    std::function<void()> finish;
    if (output.defined() && !to.is_same(output)) finish = write_back(to, output);
    return run(std::move(collective), {from, to}, std::move(finish), queue);
  }

  Work run(Collective collective, std::array<at::Tensor, 2> tensors, std::function<void()> finish,
           OperationQueue* queue) {
    if (alone_ != nullptr) {
      alone_->run(collective);
      if (finish) finish();
      return {};
    }
    if (is_noting()) note_on_host(call_text(collective.call));
    auto operation = std::make_shared<QueuedOperation>(std::move(collective), std::move(tensors), std::move(finish));
    queue->submit(operation);
    return Work(std::move(operation));
  }

  /// Records this group's calls in `calls`, for calls_of(); pass null to stop recording.
  void note_in(StepCalls* calls) {
    const std::lock_guard lock(mutex_);
    calls_ = calls;
  }
  [[nodiscard]] bool is_noting() {
    const std::lock_guard lock(mutex_);
    return calls_ != nullptr;
  }
  void note_recorded(const Descriptor& call) {
    const std::lock_guard lock(mutex_);
    if (calls_ != nullptr && tensor::is_recording()) {
      calls_->recorded = XXH3_64bits_withSeed(&call, sizeof(call), calls_->recorded) | 1;
    }
  }

  OperationQueue& channel(int peer, bool sending) {
    const std::lock_guard lock(mutex_);
    auto& queue = channels_[{peer, sending}];
    if (queue == nullptr) {
      queue = std::make_shared<OperationQueue>(backend_->open_channel(peer, sending), options_.timeout);
      queue->start();
    }
    return *queue;
  }

  const std::string name_;
  GroupOptions options_;
  Backend* backend_;  ///< the queue's backend, or alone_
  bool closed_ = false;
  int splits_ = 0;
  std::unique_ptr<Backend> alone_;         ///< backend of a world of one, without a queue or thread
  std::shared_ptr<OperationQueue> queue_;  ///< queue of any other world
  std::unique_ptr<DevicePath> device_;     ///< path for device tensors that are sent over a transport; may be null
  std::mutex mutex_;
  std::map<std::pair<int, bool>, std::shared_ptr<OperationQueue>> channels_;
  std::vector<std::weak_ptr<ProcessGroup>> children_;
  std::exception_ptr aborted_;  ///< set by abort()
  StepCalls* calls_ = nullptr;  ///< the result of calls_of()
};

std::shared_ptr<ProcessGroup> Group::split(int color, int key) {
  const std::vector<std::int64_t> all = exchange_counts({color, key}, 0);
  const int number = splits_++;
  if (color < 0) return nullptr;
  const auto color_of = [&](int other) { return all[2 * index(other)]; };
  const auto key_of = [&](int other) { return all[2 * index(other) + 1]; };
  Part part{.members = {}, .rank = 0, .name = fmt::format("split-{}/{}/", number, color)};
  for (int other = 0; other < world_size(); ++other) {
    if (color_of(other) == color) part.members.push_back(other);
  }
  std::stable_sort(part.members.begin(), part.members.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  const auto own_place = std::find(part.members.begin(), part.members.end(), rank());
  part.rank = static_cast<int>(own_place - part.members.begin());
  std::shared_ptr<OwnedGroup> group = options_.form_part(part);
  const std::lock_guard lock(mutex_);
  children_.push_back(group);
  return group;
}

}  // namespace

std::shared_ptr<OwnedGroup> make_group(std::unique_ptr<Backend> backend, GroupOptions options) {
  return std::make_shared<Group>(std::move(backend), std::move(options));
}

}  // namespace lockstep::comm

namespace lockstep {

void check_group(ProcessGroup& group) {
  if (auto* owned = dynamic_cast<comm::OwnedGroup*>(&group)) owned->check();
}

StepCalls calls_of(ProcessGroup& group, const std::function<void()>& work) {
  return dynamic_cast<comm::OwnedGroup&>(group).calls_of(work);
}

void note_on_host(ProcessGroup& group, const std::string& call) {
  if (auto* owned = dynamic_cast<comm::OwnedGroup*>(&group)) owned->note_on_host(call);
}

void replay_step(ProcessGroup& group, std::uint64_t recorded, const std::function<void()>& launch) {
  dynamic_cast<comm::OwnedGroup&>(group).replay_step(recorded, launch);
}

}  // namespace lockstep
