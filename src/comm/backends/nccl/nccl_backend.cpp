// SPDX-License-Identifier: Apache-2.0
// Calls go to a separate stream, which first waits for the caller's stream. Only Work::wait() waits for the separate
// stream.
#include "comm/backends/nccl/nccl_backend.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "comm/core/failure.h"
#include "comm/core/moves.h"
#include "comm/core/tensor_tree.h"
#include "lockstep/base/cuda_library.h"
#include "lockstep/tensor/device.h"

namespace lockstep::comm {
namespace {

/// Returns c10's interface to the streams and events of any device.
c10::impl::VirtualGuardImpl guard_of(const c10::Device& device) { return c10::impl::VirtualGuardImpl(device.type()); }

class StreamEvent final : public DeviceEvent {
 public:
  explicit StreamEvent(const c10::Stream& stream) : device_(stream.device()), event_(stream.device_type()) {
    event_.record(stream);
  }
  void hold_stream() override { hold(guard_of(device_).getStream(device_)); }
  void hold(const c10::Stream& stream) { event_.block(stream); }
  bool is_done() override {
    const std::lock_guard lock(mutex_);
    return event_.query();
  }

 private:
  const c10::Device device_;
  std::mutex mutex_;
  c10::Event event_;
};

std::optional<nccl::DataType> nccl_type(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return nccl::kFloat32;
    case at::kDouble:
      return nccl::kFloat64;
    case at::kHalf:
      return nccl::kFloat16;
    case at::kBFloat16:
      return nccl::kBfloat16;
    case at::kChar:
      return nccl::kInt8;
    case at::kByte:
      return nccl::kUint8;
    case at::kInt:
      return nccl::kInt32;
    case at::kLong:
      return nccl::kInt64;
    default:
      return std::nullopt;
  }
}

/// A mean uses NCCL's sum, which is divided afterwards.
std::optional<nccl::RedOp> nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return nccl::kSum;
    case ReduceOp::kProduct:
      return nccl::kProd;
    case ReduceOp::kMin:
      return nccl::kMin;
    case ReduceOp::kMax:
      return nccl::kMax;
    default:
      return std::nullopt;
  }
}

/// Combines the rows of this rank's partial sums into the first row.
void combine_rows(const at::Tensor& rows, ReduceOp op) {
  const at::Tensor first = rows[0];
  if (op == ReduceOp::kMin) {
    first.copy_(at::amin(rows, 0));
  } else if (op == ReduceOp::kMax) {
    first.copy_(at::amax(rows, 0));
  } else if (op == ReduceOp::kProduct) {
    first.copy_(at::prod(rows, 0));
  } else {
    for (std::int64_t row = 1; row < rows.size(0); ++row) first.add_(rows[row]);
  }
}

class NcclBackend final : public DeviceBackend {
 public:
  NcclBackend(const World& world, const c10::Device& device, std::chrono::milliseconds timeout)
      : rank_(world.rank),
        world_(world.size),
        device_(device),
        stream_(guard_of(device).getStreamFromGlobalPool(device, true)),
        communicator_(timeout) {}

  void connect(const World& world, const CheckOfHosts& check) { communicator_.connect(world, check); }

  std::string name() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

  bool takes(const Collective& collective) const override {
    if (is_move(collective.call.kind)) return true;
    if (!is_reduction(collective.call.kind)) return false;
    return nccl_type(dtype_of(collective.call)) && nccl_op(op_of(collective.call));
  }

  std::shared_ptr<DeviceEvent> enqueue(const Collective& collective, const at::Tensor& input,
                                       const at::Tensor& output) override {
    const at::NoGradGuard no_grad;
    communicator_.require_alive();
    StreamEvent(guard_of(device_).getStream(device_)).hold(stream_);
    const c10::StreamGuard guard(stream_);
    if (is_move(collective.call.kind)) {
      move(collective);
    } else {
      reduce(collective, input, output);
    }
    return std::make_shared<StreamEvent>(stream_);
  }

  std::shared_ptr<DeviceEvent> mark() override {
    return std::make_shared<StreamEvent>(guard_of(device_).getStream(device_));
  }
  std::optional<std::string> problem() override { return communicator_.problem(); }
  void abort() noexcept override { communicator_.abort(); }

 private:
  [[nodiscard]] nccl::Stream cuda_stream() const { return static_cast<nccl::Stream>(tensor::native_stream(stream_)); }

  void reduce(const Collective& collective, const at::Tensor& input, const at::Tensor& output) {
    const Descriptor& call = collective.call;
    if (collective.rows > 1) combine_rows(input.view({collective.rows, call.numel}), op_of(call));
    const nccl::DataType type = *nccl_type(dtype_of(call));
    const nccl::RedOp op = *nccl_op(op_of(call));
    const auto count = static_cast<std::size_t>(call.numel);
    if (call.kind == Kind::kAllReduce) {
      communicator_.run("ncclAllReduce", [&](nccl::Comm comm) {
        return nccl_calls().all_reduce(collective.data, collective.output, count, type, op, comm, cuda_stream());
      });
    } else if (call.kind == Kind::kReduce) {
      communicator_.run("ncclReduce", [&](nccl::Comm comm) {
        return nccl_calls().reduce(collective.data, collective.output, count, type, op, call.root, comm, cuda_stream());
      });
    } else {
      reduce_parts(collective, type, op);
    }
    const ElementRange own_range = result_range(call, world_, rank_);
    const int divisor = divisor_of(call, world_);
    if (op_of(call) != ReduceOp::kMean || divisor == 1 || own_range.size() == 0) return;
    output.view({-1}).narrow(0, 0, own_range.size()).div_(divisor_tensor(output, divisor));
  }

  /// Reduces parts of different lengths one by one: ncclReduceScatter does not support them.
  void reduce_parts(const Collective& collective, nccl::DataType type, nccl::RedOp op) {
    if (const auto part = equal_part(collective, world_)) {
      return communicator_.run("ncclReduceScatter", [&](nccl::Comm comm) {
        return nccl_calls().reduce_scatter(collective.data, collective.output, static_cast<std::size_t>(*part), type,
                                           op, comm, cuda_stream());
      });
    }
    std::vector<NcclCommunicator::Call> calls;
    for (int root = 0; root < world_; ++root) {
      const ElementRange part = result_range(collective.call, world_, root);
      if (part.size() == 0) continue;
      const std::byte* from = collective.data + static_cast<std::size_t>(part.begin) * collective.item_bytes;
      calls.emplace_back([=, this, to = collective.output](nccl::Comm comm) {
        return nccl_calls().reduce(from, to, static_cast<std::size_t>(part.size()), type, op, root, comm,
                                   cuda_stream());
      });
    }
    communicator_.run_as_one("reduce_scatter", calls);
  }

  void move(const Collective& collective) {
    if (collective.call.kind == Kind::kBroadcast) {
      return communicator_.run("ncclBroadcast", [&](nccl::Comm comm) {
        return nccl_calls().broadcast(collective.data, collective.output, collective.bytes, nccl::kUint8,
                                      collective.call.root, comm, cuda_stream());
      });
    }
    if (const auto part = equal_part(collective, world_)) {
      return communicator_.run("ncclAllGather", [&](nccl::Comm comm) {
        return nccl_calls().all_gather(collective.data, collective.output,
                                       static_cast<std::size_t>(*part) * collective.item_bytes, nccl::kUint8, comm,
                                       cuda_stream());
      });
    }
    move_parts(collective, plan_of(collective, world_));
  }

  void move_parts(const Collective& collective, const MovePlan& plan) {
    std::vector<NcclCommunicator::Call> calls;
    for (const Move& part : moves_from(plan, rank_)) {
      if (part.to == rank_) continue;
      calls.emplace_back([this, part, from = collective.data + part.offset](nccl::Comm comm) {
        return nccl_calls().send(from, part.bytes, nccl::kUint8, part.to, comm, cuda_stream());
      });
    }
    for (const Move& part : moves_to(plan, rank_)) {
      if (part.from == rank_) {
        copy(collective.output + part.place, collective.data + part.offset, part.bytes);
        continue;
      }
      calls.emplace_back([this, part, to = collective.output + part.place](nccl::Comm comm) {
        return nccl_calls().recv(to, part.bytes, nccl::kUint8, part.from, comm, cuda_stream());
      });
    }
    communicator_.run_as_one(name_of(collective.call.kind), calls);
  }

  /// Copies on stream_, which is the current stream.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    if (to == from || bytes == 0) return;
    memory(to, bytes).copy_(memory(const_cast<std::byte*>(from), bytes), true);
  }

  /// Returns device memory as a tensor.
  [[nodiscard]] at::Tensor memory(std::byte* begin, std::size_t bytes) const {
    return at::for_blob(begin, {static_cast<std::int64_t>(bytes)})
        .options(at::TensorOptions(at::kByte).device(device_))
        .target_device(device_)
        .make_tensor();
  }

  const int rank_;
  const int world_;
  const c10::Device device_;
  const c10::Stream stream_;
  NcclCommunicator communicator_;
};

}  // namespace

const nccl::Library& usable_nccl() {
  static const nccl::Library none{.problem = cuda::library().obstacle.problem};
  return tensor::has_cuda_parts() ? nccl::library() : none;
}

void take_part_beside_ranks_on_the_same_gpu(int rank) {
  // NCCL compares hosts and PCI addresses. A rank with its own host id appears to be alone on its host; messages then
  // go through sockets.
  ::setenv("NCCL_HOSTID", fmt::format("lockstep-rank-{}", rank).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ::setenv("NCCL_IB_DISABLE", "1", 0);                                        // NOLINT(concurrency-mt-unsafe)
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);                                    // NOLINT(concurrency-mt-unsafe)
}

std::unique_ptr<DeviceBackend> make_nccl_backend(const World& world, const c10::Device& device,
                                                 std::chrono::milliseconds timeout, const CheckOfHosts& check) {
  auto backend = std::make_unique<NcclBackend>(world, device, timeout);
  backend->connect(world, check);
  return backend;
}

}  // namespace lockstep::comm
