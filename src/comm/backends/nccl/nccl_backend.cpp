// SPDX-License-Identifier: Apache-2.0
// Calls are put on our own stream, which starts behind the caller's and which nobody waits for but who waits for the
// Work. The communicator is non-blocking, so that a peer that never comes cannot keep a thread in here for ever.
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

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/core/device_advice.h"
#include "comm/core/failure.h"
#include "comm/core/moves.h"
#include "comm/core/tensor_tree.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/base/nccl_library.h"
#include "lockstep/tensor/device.h"

namespace lockstep::comm {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
// A call of a connected communicator completes within some 20 us: a thread that slept would wait longer.
constexpr auto kYield = std::chrono::microseconds(200);
constexpr auto kPoll = std::chrono::microseconds(100);
// NCCL's limit is longer: the hosts' comparison and the watch report first, since they know which rank a call waits
// for.
constexpr auto kSettleGrace = std::chrono::seconds(5);
constexpr auto kFinalizeLimit = std::chrono::seconds(10);

/// c10's interface to streams and events of any device.
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

/// NCCL's functions. The ranks have agreed on NCCL, so the library is there.
const nccl::Functions& calls() { return nccl::library().functions; }

/// A mean is a sum that is divided afterwards.
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

/// Adds the rows of this rank's partial sums into the first one.
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

ResourceError nccl_error(const char* call, const std::string& text) {
  const auto advice = nccl_advice(text);
  return ResourceError(
      fmt::format("{} failed: {}{}", call, advice ? advice->cause + " (" : "", text) + (advice ? ")" : ""),
      advice ? advice->remedy : "NCCL_DEBUG=INFO shows more");
}

nccl::UniqueId meet_for_id(const World& world, std::chrono::milliseconds timeout) {
  const std::string key = world.prefix + "nccl/id";
  nccl::UniqueId id;
  if (world.rank == 0) {
    const nccl::Result result = calls().get_unique_id(&id);
    if (result != nccl::kSuccess) throw nccl_error("ncclGetUniqueId", calls().get_error_string(result));
    if (world.size > 1) world.store->set(key, std::string(id.internal, sizeof(id.internal)));
    return id;
  }
  const std::string bytes = world.store->get(key, timeout);
  if (bytes.size() != sizeof(id.internal)) throw InternalError("the NCCL id in the store has a wrong length");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

/// Calls until end() form one operation. An error gives them up without end(), and the destructor still closes the
/// group: an open one would swallow every later call of this thread.
class CallGroup {
 public:
  CallGroup() {
    const nccl::Result result = calls().group_start();
    if (result != nccl::kSuccess) throw nccl_error("ncclGroupStart", calls().get_error_string(result));
  }
  ~CallGroup() {
    if (open_) (void)calls().group_end();
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  [[nodiscard]] nccl::Result end() {
    open_ = false;
    return calls().group_end();
  }

 private:
  bool open_ = true;
};

class NcclBackend final : public DeviceBackend {
 public:
  NcclBackend(const World& world, const c10::Device& device, std::chrono::milliseconds timeout)
      : rank_(world.rank),
        world_(world.size),
        device_(device),
        timeout_(timeout),
        stream_(guard_of(device).getStreamFromGlobalPool(device, true)) {
    const nccl::UniqueId id = meet_for_id(world, timeout);
    nccl::Config config;
    config.blocking = 0;
    try {
      wait_for(calls().comm_init_rank_config(&comm_, world_, id, rank_, &config), "ncclCommInitRank");
    } catch (...) {
      NcclBackend::abort();  // a constructor that throws runs no destructor
      throw;
    }
  }

  /// All enqueued work has ended by now, or was aborted (DevicePath::close).
  ~NcclBackend() override {
    if (std::uncaught_exceptions() > 0 || !finalize()) NcclBackend::abort();
  }

  std::string name() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

  bool takes(const Collective& collective) const override {
    if (is_move(collective.what.kind)) return true;
    if (!is_reduction(collective.what.kind)) return false;
    return nccl_type(dtype_of(collective.what)) && nccl_op(op_of(collective.what));
  }

  std::shared_ptr<DeviceEvent> enqueue(const Collective& collective, const at::Tensor& input,
                                       const at::Tensor& output) override {
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    if (aborted_) throw ResourceError("the NCCL communicator was aborted");
    StreamEvent(guard_of(device_).getStream(device_)).hold(stream_);
    const c10::StreamGuard guard(stream_);
    if (is_move(collective.what.kind)) {
      move(collective);
    } else {
      reduce(collective, input, output);
    }
    return std::make_shared<StreamEvent>(stream_);
  }

  std::shared_ptr<DeviceEvent> mark() override {
    return std::make_shared<StreamEvent>(guard_of(device_).getStream(device_));
  }

  /// A call under way reports its own problem: NCCL allows one thread at a time in a communicator, and since 2.26
  /// ncclCommGetAsyncError ends what the call began.
  std::optional<std::string> problem() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || aborted_ || comm_ == nullptr) return std::nullopt;
    nccl::Result state = nccl::kSuccess;
    if (calls().comm_get_async_error(comm_, &state) != nccl::kSuccess) return "ncclCommGetAsyncError failed";
    if (state == nccl::kSuccess || state == nccl::kInProgress) return std::nullopt;
    return error_text(state);
  }

  void abort() noexcept override {
    aborted_ = true;
    const std::lock_guard lock(mutex_);  // a call under way sees aborted_ and ends
    if (const nccl::Comm comm = std::exchange(comm_, nullptr)) (void)calls().comm_abort(comm);
  }

 private:
  [[nodiscard]] nccl::Stream cuda_stream() const { return static_cast<nccl::Stream>(tensor::native_stream(stream_)); }
  [[nodiscard]] std::string error_text(nccl::Result result) const {
    const char* last = comm_ == nullptr ? nullptr : calls().get_last_error(comm_);
    return fmt::format("{} {}", calls().get_error_string(result), last == nullptr ? "" : last);
  }

  /// Ends the communicator in order. Returns: false where it has not finished within a moment and still exists.
  [[nodiscard]] bool finalize() {
    const std::lock_guard lock(mutex_);
    if (aborted_ || comm_ == nullptr) return true;
    nccl::Result state = calls().comm_finalize(comm_);
    if (state == nccl::kInProgress) state = settle(AwakeClock::instance().now() + kFinalizeLimit);
    if (state != nccl::kSuccess) return false;
    (void)calls().comm_destroy(std::exchange(comm_, nullptr));
    return true;
  }

  /// Waits until a call of the non-blocking communicator has completed.
  [[nodiscard]] nccl::Result settle(SteadyTime end) {
    nccl::Result state = nccl::kInProgress;
    const SteadyTime begin = AwakeClock::instance().now();
    for (SteadyTime now = begin; state == nccl::kInProgress && !aborted_ && now < end;
         now = AwakeClock::instance().now()) {
      if (calls().comm_get_async_error(comm_, &state) != nccl::kSuccess) return nccl::kSystemError;
      if (state != nccl::kInProgress) break;
      if (now - begin < kYield) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPoll);
      }
    }
    return state;
  }

  void wait_for(nccl::Result result, const char* call) {
    if (result == nccl::kInProgress) result = settle(AwakeClock::instance().now() + timeout_ + kSettleGrace);
    if (result == nccl::kSuccess) return;
    if (aborted_) throw ResourceError("the NCCL communicator was aborted");
    if (result == nccl::kInProgress) {
      throw TimeoutError(
          fmt::format("{} timed out after {:.1f} s", call, std::chrono::duration<double>(timeout_).count()),
          nccl_hang_advice().remedy + "; or " + timeout_hint());
    }
    throw nccl_error(call, error_text(result));
  }

  void reduce(const Collective& collective, const at::Tensor& input, const at::Tensor& output) {
    const Descriptor& what = collective.what;
    if (collective.rows > 1) combine_rows(input.view({collective.rows, what.numel}), op_of(what));
    const nccl::DataType type = *nccl_type(dtype_of(what));
    const nccl::RedOp op = *nccl_op(op_of(what));
    const auto count = static_cast<std::size_t>(what.numel);
    if (what.kind == Kind::kAllReduce) {
      wait_for(calls().all_reduce(collective.data, collective.output, count, type, op, comm_, cuda_stream()),
               "ncclAllReduce");
    } else if (what.kind == Kind::kReduce) {
      wait_for(calls().reduce(collective.data, collective.output, count, type, op, what.root, comm_, cuda_stream()),
               "ncclReduce");
    } else {
      reduce_parts(collective, type, op);
    }
    const ElementRange mine = result_range(what, world_, rank_);
    const int divisor = divisor_of(what, world_);
    if (op_of(what) != ReduceOp::kMean || divisor == 1 || mine.size() == 0) return;
    output.view({-1}).narrow(0, 0, mine.size()).div_(divisor_tensor(output, divisor));
  }

  /// Parts of different lengths, which ncclReduceScatter does not take, are reduced one by one.
  void reduce_parts(const Collective& collective, nccl::DataType type, nccl::RedOp op) {
    if (const auto part = equal_part(collective, world_)) {
      wait_for(calls().reduce_scatter(collective.data, collective.output, static_cast<std::size_t>(*part), type, op,
                                      comm_, cuda_stream()),
               "ncclReduceScatter");
      return;
    }
    CallGroup group;
    for (int root = 0; root < world_; ++root) {
      const ElementRange part = result_range(collective.what, world_, root);
      if (part.size() == 0) continue;
      const std::byte* from = collective.data + static_cast<std::size_t>(part.begin) * collective.item_bytes;
      check(calls().reduce(from, collective.output, static_cast<std::size_t>(part.size()), type, op, root, comm_,
                           cuda_stream()),
            "ncclReduce");
    }
    wait_for(group.end(), "reduce_scatter");
  }

  void move(const Collective& collective) {
    if (collective.what.kind == Kind::kBroadcast) {
      wait_for(calls().broadcast(collective.data, collective.output, collective.bytes, nccl::kUint8,
                                 collective.what.root, comm_, cuda_stream()),
               "ncclBroadcast");
      return;
    }
    if (const auto part = equal_part(collective, world_)) {
      wait_for(calls().all_gather(collective.data, collective.output,
                                  static_cast<std::size_t>(*part) * collective.item_bytes, nccl::kUint8, comm_,
                                  cuda_stream()),
               "ncclAllGather");
      return;
    }
    const MovePlan plan = plan_of(collective, world_);
    CallGroup group;
    for (const Move& part : moves_from(plan, rank_)) {
      if (part.to == rank_) continue;
      check(calls().send(collective.data + part.offset, part.bytes, nccl::kUint8, part.to, comm_, cuda_stream()),
            "ncclSend");
    }
    for (const Move& part : moves_to(plan, rank_)) {
      if (part.from == rank_) {
        copy(collective.output + part.place, collective.data + part.offset, part.bytes);
      } else {
        check(calls().recv(collective.output + part.place, part.bytes, nccl::kUint8, part.from, comm_, cuda_stream()),
              "ncclRecv");
      }
    }
    wait_for(group.end(), name_of(collective.what.kind));
  }

  /// On stream_, which is the current one.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    if (to == from || bytes == 0) return;
    memory(to, bytes).copy_(memory(const_cast<std::byte*>(from), bytes), true);
  }

  /// Device memory as a tensor.
  [[nodiscard]] at::Tensor memory(std::byte* begin, std::size_t bytes) const {
    return at::for_blob(begin, {static_cast<std::int64_t>(bytes)})
        .options(at::TensorOptions(at::kByte).device(device_))
        .target_device(device_)
        .make_tensor();
  }

  /// Checks the result of calls inside a group, which only collects them.
  void check(nccl::Result result, const char* call) const {
    if (result != nccl::kSuccess && result != nccl::kInProgress) throw nccl_error(call, error_text(result));
  }

  const int rank_;
  const int world_;
  const c10::Device device_;
  const std::chrono::milliseconds timeout_;
  const c10::Stream stream_;
  std::mutex mutex_;  ///< held by the one thread that is in the communicator; its calls may wait for peers
  nccl::Comm comm_ = nullptr;
  std::atomic<bool> aborted_{false};
};

}  // namespace

const nccl::Library& usable_nccl() {
  static const nccl::Library none{.problem = cuda::library().obstacle.what};
  return tensor::has_cuda_parts() ? nccl::library() : none;
}

void take_part_beside_ranks_on_the_same_gpu(int rank) {
  // NCCL compares hosts and PCI addresses. With a host id of its own a rank seems to be alone with its GPU; messages
  // then go through sockets.
  ::setenv("NCCL_HOSTID", fmt::format("lockstep-rank-{}", rank).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ::setenv("NCCL_IB_DISABLE", "1", 0);                                        // NOLINT(concurrency-mt-unsafe)
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);                                    // NOLINT(concurrency-mt-unsafe)
}

std::unique_ptr<DeviceBackend> make_nccl_backend(const World& world, const c10::Device& device,
                                                 std::chrono::milliseconds timeout) {
  return std::make_unique<NcclBackend>(world, device, timeout);
}

}  // namespace lockstep::comm
