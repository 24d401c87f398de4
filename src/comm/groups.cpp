// SPDX-License-Identifier: Apache-2.0
#include "comm/groups.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "comm/operation_queue.h"
#include "comm/tree_reduce.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/tree_sum.h"

namespace lockstep::comm {
namespace {

constexpr const char* kReducible = "float32, bfloat16, float16, float64, int32, int64";

bool is_copyable(c10::ScalarType dtype) {
  return is_reducible(dtype) || dtype == c10::ScalarType::Byte || dtype == c10::ScalarType::Char ||
         dtype == c10::ScalarType::Short || dtype == c10::ScalarType::Bool;
}

void check_defined(const at::Tensor& tensor, const char* verb) {
  if (!tensor.defined()) throw UsageError(fmt::format("{} was given an undefined tensor", verb));
  if (tensor.layout() != c10::Layout::Strided) {
    throw UsageError(fmt::format("{} was given a tensor that is not dense", verb), "use .to_dense()");
  }
}

void check_all_reduce(const at::Tensor& tensor, ReduceOp op) {
  check_defined(tensor, "all_reduce");
  if (!is_reducible(tensor.scalar_type())) {
    throw UsageError(
        fmt::format("all_reduce cannot reduce {}: it knows {}", dtype_name(tensor.scalar_type()), kReducible));
  }
  if (op == ReduceOp::kMean && c10::isIntegralType(tensor.scalar_type(), true)) {
    throw UsageError(fmt::format("the mean of {} is not defined", dtype_name(tensor.scalar_type())),
                     "use ReduceOp::kSum, or convert to a floating type first");
  }
}

/// How many partial sums a rank brings; checks that the tensor holds them.
int check_rows(const at::Tensor& tensor, const ReduceOptions& options, int rank, int world) {
  if (options.replicas == 0) return 1;
  if (options.replicas < world) {
    throw UsageError(fmt::format("all_reduce over {} replicas in a world of {}", options.replicas, world));
  }
  const ReplicaSpan block = replicas_of_rank(rank, world, options.replicas);
  const auto rows = options.exact ? static_cast<int>(whole_subtrees(block, options.replicas).size()) : 1;
  if (tensor.dim() == 0 || tensor.size(0) != rows) {
    throw UsageError(fmt::format("all_reduce over {} replicas was given {} rows on rank {} of {}, which has {}",
                                 options.replicas, tensor.dim() == 0 ? 0 : tensor.size(0), rank, world, rows));
  }
  return rows;
}

void check_copyable(const at::Tensor& tensor, const char* verb) {
  check_defined(tensor, verb);
  if (is_copyable(tensor.scalar_type())) return;
  throw UsageError(fmt::format("{} cannot carry {}: it knows {}, uint8, int8, int16, bool", verb,
                               dtype_name(tensor.scalar_type()), kReducible));
}

void check_root(int root, int world) {
  if (root >= 0 && root < world) return;
  throw UsageError(fmt::format("broadcast from rank {} in a world of {}", root, world));
}

void check_bucket(std::int64_t numel, c10::ScalarType dtype) {
  if (numel >= 0 && is_reducible(dtype)) return;
  throw UsageError(fmt::format("a bucket of {} elements of {}: buckets hold {}", numel, dtype_name(dtype), kReducible));
}

class LocalGroup final : public OwnedGroup {
 public:
  using ProcessGroup::all_reduce;
  int rank() const noexcept override { return 0; }
  int world_size() const noexcept override { return 1; }
  std::string backend_name() const override { return "local"; }
  Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) override {
    check_all_reduce(tensor, options.op);
    check_rows(tensor, options, 0, 1);
    // One row: the sum of all replicas.
    if (options.replicas > 1 && options.op == ReduceOp::kMean) {
      const at::Tensor sum = tensor.detach();
      const at::Tensor plain = sum.cpu().contiguous();
      tree_sum({{plain, {0, options.replicas}}}, plain, {ReduceOp::kMean, options.replicas});
      if (!plain.is_same(sum)) sum.copy_(plain);
    }
    return {};
  }
  Work broadcast(const at::Tensor& tensor, int root) override {
    check_copyable(tensor, "broadcast");
    check_root(root, 1);
    return {};
  }
  Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) override {
    check_copyable(input, "all_gather");
    out = {input.detach().clone()};
    return {};
  }
  Work barrier() override { return {}; }
  at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) override {
    check_bucket(numel, dtype);
    return at::zeros({numel}, dtype);
  }
  void abort(const std::string& /*reason*/) noexcept override {}
  void close(bool /*orderly*/) noexcept override {}
};

class QueuedGroup final : public OwnedGroup {
 public:
  QueuedGroup(std::unique_ptr<Backend> backend, int rank, int world, std::chrono::milliseconds timeout)
      : name_(backend->name()),
        rank_(rank),
        world_(world),
        queue_(std::make_shared<OperationQueue>(std::move(backend), timeout)) {
    queue_->start();
  }
  ~QueuedGroup() override { QueuedGroup::close(false); }

  using ProcessGroup::all_reduce;
  int rank() const noexcept override { return rank_; }
  int world_size() const noexcept override { return world_; }
  std::string backend_name() const override { return name_; }

  Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) override {
    check_all_reduce(tensor, options.op);
    Collective collective = describe(Kind::kAllReduce, tensor);
    collective.rows = check_rows(tensor, options, rank_, world_);
    collective.bytes /= static_cast<std::size_t>(collective.rows);
    collective.what.numel /= collective.rows;
    collective.what.op = static_cast<std::uint8_t>(options.op);
    collective.what.replicas = options.replicas;
    collective.what.exact = options.exact ? 1 : 0;
    return submit_in_place(std::move(collective), tensor);
  }

  Work broadcast(const at::Tensor& tensor, int root) override {
    check_copyable(tensor, "broadcast");
    check_root(root, world_);
    Collective collective = describe(Kind::kBroadcast, tensor);
    collective.what.root = root;
    return submit_in_place(std::move(collective), tensor);
  }

  Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) override {
    check_copyable(input, "all_gather");
    Collective collective = describe(Kind::kAllGather, input);
    const at::Tensor source = input.detach().cpu().contiguous();
    collective.data = static_cast<std::byte*>(source.data_ptr());
    std::vector<at::Tensor> kept = {source};
    std::vector<at::Tensor> results;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    for (int r = 0; r < world_; ++r) {
      at::Tensor host = at::empty(input.sizes(), source.options());
      collective.outputs.push_back(static_cast<std::byte*>(host.data_ptr()));
      kept.push_back(host);
      results.push_back(input.is_cpu() ? host : at::empty(input.sizes(), input.options()));
      if (!input.is_cpu()) copies.emplace_back(results.back(), host);
    }
    std::function<void()> finish;
    if (!copies.empty()) {
      finish = [copies] {
        for (const auto& [to, from] : copies) to.copy_(from);
      };
    }
    out = std::move(results);
    return submit(std::move(collective), std::move(kept), std::move(finish));
  }

  Work barrier() override { return submit({}, {}, {}); }

  at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) override {
    check_bucket(numel, dtype);
    return queue_->backend().allocate_bucket(numel, dtype);
  }

  void abort(const std::string& reason) noexcept override { queue_->abort(reason); }

  void close(bool orderly) noexcept override {
    if (closed_) return;
    closed_ = true;
    queue_->close(orderly);
  }

 private:
  static Collective describe(Kind kind, const at::Tensor& tensor) {
    Collective collective;
    collective.what.kind = kind;
    collective.what.numel = tensor.numel();
    collective.what.dtype = static_cast<std::int8_t>(tensor.scalar_type());
    collective.item_bytes = tensor.element_size();
    collective.bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
    return collective;
  }

  // Strided and device memory goes through a copy that is taken at the call and written back at the end.
  Work submit_in_place(Collective collective, const at::Tensor& tensor) {
    const at::Tensor plain = tensor.detach();
    if (plain.is_cpu() && plain.is_contiguous()) {
      collective.data = static_cast<std::byte*>(plain.data_ptr());
      return submit(std::move(collective), {plain}, {});
    }
    const at::Tensor staged = at::empty(plain.sizes(), plain.options().device(c10::kCPU)).copy_(plain);
    collective.data = static_cast<std::byte*>(staged.data_ptr());
    return submit(std::move(collective), {staged}, [plain, staged] { plain.copy_(staged); });
  }

  Work submit(Collective collective, std::vector<at::Tensor> tensors, std::function<void()> finish) {
    auto operation = std::make_shared<Operation>(std::move(collective), std::move(tensors), std::move(finish));
    queue_->submit(operation);
    return Work(std::move(operation));
  }

  const std::string name_;
  const int rank_;
  const int world_;
  bool closed_ = false;
  std::shared_ptr<OperationQueue> queue_;
};

}  // namespace

std::unique_ptr<OwnedGroup> make_local_group() { return std::make_unique<LocalGroup>(); }

std::unique_ptr<OwnedGroup> make_queued_group(std::unique_ptr<Backend> backend, int rank, int world,
                                              std::chrono::milliseconds timeout) {
  return std::make_unique<QueuedGroup>(std::move(backend), rank, world, timeout);
}

}  // namespace lockstep::comm
