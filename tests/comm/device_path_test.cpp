// SPDX-License-Identifier: Apache-2.0
// A rank's device, and the path its tensors take.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

#include "comm/backends/local/local_backend.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/core/device_path.h"
#include "comm/core/group.h"
#include "comm/wiring/device_choice.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group_check.h"
#include "support/fault_of.h"

namespace lockstep::comm {
namespace device_path_test {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The path for device tensors, tested with a fake device: its memory is the host's, and the test decides when its work
// ends. Two ranks are threads that share one mapping.

/// The test's view of the fake device.
struct Device {
  std::atomic<bool> done{true};
  std::atomic<bool> aborted{false};
  std::atomic<bool> faulty{false};    ///< it is lost: every query returns an error
  std::atomic<bool> connects{false};  ///< a call keeps waiting for peers until it is aborted
  std::atomic<bool> full{false};      ///< a call returns an error
  std::atomic<int> holds{0};
  std::function<void()> on_abort = nullptr;  ///< called before anything ends
  std::vector<Collective> calls;
};

class FakeEvent final : public DeviceEvent {
 public:
  explicit FakeEvent(Device& device) : device_(device) {}
  void hold_stream() override { ++device_.holds; }
  bool is_done() override {
    if (device_.faulty) throw std::runtime_error("CUDA error: unspecified launch failure");
    return device_.done || device_.aborted;
  }

 private:
  Device& device_;
};

class FakeTransport final : public DeviceBackend {
 public:
  explicit FakeTransport(Device& device) : device_(device) {}
  std::string name() const override { return "fake"; }
  c10::Device device() const override { return c10::kCPU; }
  bool takes(const Collective& collective) const override { return op_of(collective.call) != ReduceOp::kBitXor; }
  std::shared_ptr<DeviceEvent> enqueue(const Collective& collective, const at::Tensor& /*input*/,
                                       const at::Tensor& output) override {
    device_.calls.push_back(collective);
    if (device_.full) throw ResourceError("a GPU's memory is full");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (device_.connects && !device_.aborted) {
      if (std::chrono::steady_clock::now() > end) throw TimeoutError("ncclAllReduce timed out");
      std::this_thread::yield();
    }
    if (device_.connects) throw ResourceError("the communicator was aborted");
    output.mul_(10);
    return std::make_shared<FakeEvent>(device_);
  }
  std::shared_ptr<DeviceEvent> mark() override { return std::make_shared<FakeEvent>(device_); }
  std::optional<std::string> problem() override { return std::nullopt; }
  void abort() noexcept override {
    if (device_.on_abort) device_.on_abort();
    device_.aborted = true;
  }

 private:
  Device& device_;
};

Collective all_reduce_of(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum) {
  Collective collective;
  collective.call.kind = Kind::kAllReduce;
  collective.call.op = static_cast<std::uint8_t>(op);
  collective.call.numel = tensor.numel();
  collective.call.dtype = static_cast<std::int8_t>(tensor.scalar_type());
  collective.item_bytes = tensor.element_size();
  collective.bytes = tensor.nbytes();
  return collective;
}

TEST(DevicePath, AloneItEnqueuesTheTensorsOwnMemoryAndWaitsOnlyOnTheStream) {
  Device device;
  device.done = false;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  const at::Tensor tensor = at::full({3}, 2.0F);
  Work work = path.submit(all_reduce_of(tensor), tensor, tensor);
  work.wait();
  EXPECT_EQ(device.holds, 1);
  EXPECT_FALSE(work.is_done());
  EXPECT_EQ(device.calls.front().output, tensor.data_ptr());
  EXPECT_TRUE(device.calls.front().on_device);
  device.done = true;
  EXPECT_TRUE(work.is_done());
}

TEST(DevicePath, AStridedTensorGetsItsResultWhenTheStreamHasWaited) {
  Device device;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  const at::Tensor whole = at::full({4, 2}, 1.0F);
  const at::Tensor column = whole.select(1, 0);
  Work work = path.submit(all_reduce_of(column), column, column);
  work.wait();
  work.wait();
  EXPECT_EQ(whole.sum().item<float>(), 4 * 10 + 4);
}

TEST(DevicePath, AStridedTensorOfInferenceModeGetsItsResultOutsideThatMode) {
  Device device;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  at::Tensor whole;
  Work work;
  {
    const c10::InferenceMode mode;
    whole = at::full({4, 2}, 1.0F);
    const at::Tensor column = whole.select(1, 0);
    work = path.submit(all_reduce_of(column), column, column);
  }
  work.wait();
  EXPECT_EQ(whole.sum().item<float>(), 4 * 10 + 4);
}

TEST(DevicePath, TakesWhatLiesOnItsDeviceAndItsTransportCanCarry) {
  Device device;
  const DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  const at::Tensor here = at::zeros({1});
  const at::Tensor elsewhere = at::zeros({1}, at::TensorOptions(c10::kMeta));
  EXPECT_TRUE(path.takes(all_reduce_of(here), here, here));
  EXPECT_FALSE(path.takes(all_reduce_of(here, ReduceOp::kBitXor), here, here));
  EXPECT_FALSE(path.takes(all_reduce_of(here), here, elsewhere));
}

/// A world of one rank on the fake device.
std::shared_ptr<OwnedGroup> group_on(Device& device) {
  GroupOptions options{.place = {0, 1}, .timeout = milliseconds(60'000)};
  options.transport = std::make_unique<FakeTransport>(device);
  return make_group(make_local_backend(), std::move(options));
}

TEST(DevicePath, AReplayHasOneEventWhateverItsCollectives) {
  Device device;
  device.done = false;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  int launches = 0;
  path.replay(7, [&] { ++launches; });
  EXPECT_EQ(launches, 1);
  EXPECT_TRUE(device.calls.empty()) << "they are in the recording";
  device.faulty = true;
  EXPECT_THAT(test::fault_of<ResourceError>([&] { path.check(); }), HasSubstr("failed while step graph was under way"));
}

TEST(DevicePath, AHostThatReadsAResultThatAnAbortCutShortFindsTheFailure) {
  Device device;
  device.done = false;
  const auto group = group_on(device);
  const at::Tensor sum = at::full({3}, 2.0F);
  group->all_reduce(sum).wait();  // blocks the stream; the host continues
  EXPECT_NO_THROW(check_group(*group));
  std::string found_at_abort;
  device.on_abort = [&] {
    try {
      check_group(*group);
    } catch (const PeerError& error) {
      found_at_abort = error.what();
    }
  };
  group->abort("rank 1 is gone");
  EXPECT_THAT(found_at_abort, HasSubstr("rank 1 is gone")) << "known before what is under way ends with garbage";
  EXPECT_THROW(check_group(*group), PeerError);
  device.on_abort = nullptr;
}

TEST(DevicePath, ADeviceThatFailedEndsInAnErrorAndNotTheProcess) {
  Device device;
  device.done = false;
  auto group = group_on(device);
  const at::Tensor sum = at::full({3}, 2.0F);
  Work work = group->all_reduce(sum);
  device.faulty = true;
  EXPECT_TRUE(work.is_done());
  try {
    work.wait();
    ADD_FAILURE() << "a result of a device that is lost";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the GPU of rank 0 failed while all_reduce was under way"));
    EXPECT_THAT(error.what(), HasSubstr("unspecified launch failure"));
  }
  group.reset();  // joins the watch thread
  EXPECT_TRUE(device.aborted);
}

TEST(CheckGroup, OfAGroupThatWasAbortedThrowsTheReason) {
  const auto group = make_group(make_local_backend(), {.place = {0, 1}, .timeout = milliseconds(60'000)});
  EXPECT_NO_THROW(check_group(*group));
  group->abort("picture 7 is broken");
  EXPECT_THROW(check_group(*group), PeerError);
}

/// One of two ranks that share memory.
struct Rank {
  Rank(const std::shared_ptr<Segment>& segment, int rank, milliseconds timeout) {
    const World world{.rank = rank, .size = 2, .hosts = {"a", "a"}};
    ShmConnection connection;
    connection.segment = rank == 0 ? segment : Segment::share(*segment, rank);
    queue = std::make_shared<OperationQueue>(std::make_unique<ShmBackend>(std::move(connection), world), timeout);
    queue->start();
    path = std::make_unique<DevicePath>(std::make_unique<FakeTransport>(device), queue, world, timeout);
  }
  ~Rank() {
    path->close(false);
    queue->close(true);
    path.reset();
  }

  Work all_reduce(std::int64_t elements) {
    const at::Tensor tensor = at::zeros({elements});
    return path->submit(all_reduce_of(tensor), tensor, tensor);
  }

  /// Calls collectives until one fails, and returns the error.
  template <class Error>
  std::string failure() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      try {
        all_reduce(1).wait();
      } catch (const Error& error) {
        return error.what();
      }
      std::this_thread::yield();
    }
    return "no failure";
  }

  /// The watch thread aborts shortly after the error is known.
  bool is_aborted() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!device.aborted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return device.aborted;
  }

  Device device;
  std::shared_ptr<OperationQueue> queue;
  std::unique_ptr<DevicePath> path;
};

TEST(DevicePath, RanksThatCallDifferentCollectivesBothGetAnErrorThatNamesBoth) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(60'000));
  Rank second(segment, 1, milliseconds(60'000));
  first.device.done = false;  // like GPUs, they wait for each other forever
  second.device.done = false;
  (void)first.all_reduce(12);
  (void)second.all_reduce(13);
  EXPECT_THAT(first.failure<UsageError>(), AllOf(HasSubstr("of 12 float32"), HasSubstr("of 13 float32")));
  EXPECT_THAT(second.failure<UsageError>(), AllOf(HasSubstr("of 12 float32"), HasSubstr("of 13 float32")));
  EXPECT_TRUE(first.is_aborted());
  EXPECT_TRUE(second.is_aborted());
}

/// The error that `rank` gets when it calls all_reduce() and waits.
std::string error_of_call(Rank& rank, std::int64_t elements) {
  try {
    rank.all_reduce(elements).wait();
  } catch (const UsageError& error) {
    return error.what();
  } catch (const Error& error) {
    return std::string("another: ") + error.what();
  }
  return "no error";
}

TEST(DevicePath, WhileATransportConnectsAMismatchIsFoundAtOnceAndNamesBoth) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(60'000));
  Rank second(segment, 1, milliseconds(60'000));
  first.device.connects = true;
  second.device.connects = true;
  auto found = std::async(std::launch::async, [&] { return error_of_call(second, 13); });
  EXPECT_THAT(error_of_call(first, 12), AllOf(HasSubstr("of 12 float32"), HasSubstr("of 13 float32")));
  EXPECT_THAT(found.get(), AllOf(HasSubstr("of 12 float32"), HasSubstr("of 13 float32")));
}

TEST(DevicePath, WhileATransportConnectsARankThatNeverComesIsNamed) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(200));
  Rank second(segment, 1, milliseconds(200));
  first.device.connects = true;
  EXPECT_THAT(error_of_call(first, 12), HasSubstr("waiting for   rank 1"));
}

TEST(DevicePath, ACallThatFailsAfterThePeersHaveMetItEndsThemToo) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(60'000));
  Rank second(segment, 1, milliseconds(60'000));
  first.device.full = true;
  second.device.done = false;
  (void)second.all_reduce(12);
  EXPECT_THAT(error_of_call(first, 12), HasSubstr("memory is full"));
  EXPECT_THAT(second.failure<PeerError>(), HasSubstr("memory is full"));
  EXPECT_TRUE(second.is_aborted());
}

TEST(DevicePath, PeersAreToldBeforeATransportWhoseAbortHangs) {
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(60'000));
  Rank second(segment, 1, milliseconds(60'000));
  first.device.full = true;
  first.device.on_abort = [release] { release.wait(); };
  second.device.done = false;
  (void)second.all_reduce(12);
  auto found = std::async(std::launch::async, [&] { return error_of_call(first, 12); });
  EXPECT_THAT(second.failure<PeerError>(), HasSubstr("memory is full"));
  EXPECT_EQ(found.wait_for(milliseconds(10'000)), std::future_status::ready) << "it waits for its own abort";
  released.set_value();
  EXPECT_THAT(found.get(), HasSubstr("memory is full"));
  EXPECT_TRUE(first.is_aborted());
}

TEST(DevicePath, ClosingInOrderLetsWhatIsUnderWayEnd) {
  Device device;
  device.done = false;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  const at::Tensor tensor = at::full({3}, 2.0F);
  (void)path.submit(all_reduce_of(tensor), tensor, tensor);
  auto closed = std::async(std::launch::async, [&] { path.close(true); });
  EXPECT_EQ(closed.wait_for(milliseconds(50)), std::future_status::timeout);
  device.done = true;
  closed.get();
  EXPECT_FALSE(device.aborted);
}

TEST(DevicePath, ClosingWithAnErrorEndsWhatIsUnderWay) {
  Device device;
  device.done = false;
  DevicePath path(std::make_unique<FakeTransport>(device), nullptr, World{}, milliseconds(60'000));
  const at::Tensor tensor = at::full({3}, 2.0F);
  (void)path.submit(all_reduce_of(tensor), tensor, tensor);
  path.close(false);
  EXPECT_TRUE(device.aborted);
}

TEST(DevicePath, ARankThatNeverComesIsNamedAndWhatWaitsForItIsAborted) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(200));
  Rank second(segment, 1, milliseconds(200));
  first.device.done = false;
  (void)first.all_reduce(12);
  EXPECT_THAT(first.failure<TimeoutError>(), HasSubstr("rank 1"));
  EXPECT_TRUE(first.is_aborted());
}

TEST(DevicePath, MatchingCallsOfManyOperationsAllEnd) {
  const auto segment = Segment::create(2);
  Rank first(segment, 0, milliseconds(60'000));
  Rank second(segment, 1, milliseconds(60'000));
  for (int i = 0; i < 100; ++i) {
    first.all_reduce(i).wait();
    second.all_reduce(i).wait();
  }
  EXPECT_FALSE(first.device.aborted);
  EXPECT_EQ(first.device.calls.size(), 100U);
}

DeviceRequest on_host(int local_rank, int gpus) { return {.local_rank = local_rank, .gpus = gpus}; }

template <class Error>
std::string error_of(const DeviceRequest& request) {
  try {
    const c10::Device device = choose_device(request);
    return "no error but " + device.str();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(DeviceChoice, AutoIsTheCpuWhereThereIsNoGpu) { EXPECT_EQ(choose_device({.local_rank = 3}).str(), "cpu"); }

TEST(DeviceChoice, AutoAndCudaAreTheGpuOfTheLocalRank) {
  DeviceRequest request = on_host(2, 4);
  EXPECT_EQ(choose_device(request).str(), "cuda:2");
  request.wanted = "cuda";
  EXPECT_EQ(choose_device(request).str(), "cuda:2");
}

TEST(DeviceChoice, CpuIsTheCpuHoweverManyGpusThereAre) {
  DeviceRequest request = on_host(0, 4);
  request.wanted = "cpu";
  EXPECT_EQ(choose_device(request).str(), "cpu");
}

TEST(DeviceChoice, ARankThatSeesItsOwnGpusOnlyTakesOneOfThem) {
  EXPECT_EQ(choose_device(on_host(3, 1)).str(), "cuda:0") << "srun --gpus-per-task=1";
  EXPECT_EQ(choose_device(on_host(3, 2)).str(), "cuda:1") << "srun --gpus-per-task=2";
}

TEST(DeviceChoice, TheErrorShowsWhatHidesGpus) {
  DeviceRequest request = on_host(0, 1);
  request.visible = "3";
  request.wanted = "cuda:1";
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("1 GPU (CUDA_VISIBLE_DEVICES=3)"));
}

const cuda::Obstacle kObstacle{cuda::Lack::kDriver, "no NVIDIA driver was found", "install the driver"};

TEST(DeviceChoice, GpusThatNobodyUsesAreSaid) {
  DeviceRequest request{.devices = 2, .obstacle = kObstacle};
  EXPECT_THAT(idle_gpus_warning(request), HasSubstr("this host has 2 GPUs, but no NVIDIA driver was found: "));
  EXPECT_THAT(idle_gpus_warning(request), HasSubstr("otherwise install the driver)"));
  request.obstacle = {};
  EXPECT_THAT(idle_gpus_warning(request), HasSubstr("this host has 2 GPUs, but CUDA finds none of them"));
  request.gpus = 2;
  EXPECT_EQ(idle_gpus_warning(request), "");
  EXPECT_EQ(idle_gpus_warning({}), "");
  EXPECT_EQ(idle_gpus_warning({.wanted = "cpu", .devices = 2}), "") << "this is what the user wants";
}

TEST(DeviceChoice, OnlyTheUserMayHaveRanksShareAGpu) {
  DeviceRequest request = on_host(0, 1);
  for (const char* wanted : {"auto", "cuda"}) {
    request.wanted = wanted;
    EXPECT_FALSE(may_share_gpu(request)) << wanted;
  }
  request.share = true;
  EXPECT_TRUE(may_share_gpu(request));
  request = {.wanted = "cuda:0"};
  EXPECT_TRUE(may_share_gpu(request));
}

TEST(DeviceChoice, CudaWithoutAGpuSaysWhatIsLacking) {
  DeviceRequest request{.wanted = "cuda", .obstacle = kObstacle};
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("there is no CUDA device: no NVIDIA driver was found"));
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("install the driver; or use --device cpu"));
  request.obstacle = {};
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("this host has 0 GPUs"));
}

TEST(DeviceChoice, AnIndexIsTakenAsItIsAndMustBeThere) {
  DeviceRequest request = on_host(0, 2);
  request.wanted = "cuda:1";
  EXPECT_EQ(choose_device(request).str(), "cuda:1");
  request.wanted = "cuda:2";
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("there is no device cuda:2: this host has 2 GPUs"));
}

TEST(DeviceChoice, AWordThatNamesNoDeviceIsAUsageError) {
  for (const char* word : {"gpu", "cuda:x", "xla", "meta", ""}) {
    DeviceRequest request = on_host(0, 2);
    request.wanted = word;
    EXPECT_THAT(error_of<UsageError>(request), HasSubstr("use auto, cpu, cuda or cuda:N")) << word;
  }
}

}  // namespace device_path_test
}  // namespace lockstep::comm
