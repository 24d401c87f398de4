// SPDX-License-Identifier: Apache-2.0
// Devices and memory.
#include <ATen/ops/ones.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/device_memory.h"
#include "lockstep/tensor/memory.h"
#include "support/sanitizer.h"

namespace lockstep::tensor {
namespace device_test {

using FakeCuda = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;

/// Uses a fake CUDA that knows only the current device of each thread. It replaces the real one, which is registered
/// before main().
class Device : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { static const c10::impl::DeviceGuardImplRegistrar kFake(c10::kCUDA, new FakeCuda()); }
};

int current_in_new_thread(bool adopts) {
  int index = -1;
  std::thread([&] {
    if (adopts) adopt_device();
    index = FakeCuda::getDeviceIndex();
  }).join();
  return index;
}

TEST_F(Device, TheGpusOfTheGuardAreCounted) {
  EXPECT_TRUE(has_cuda());
  EXPECT_EQ(cuda_device_count(), c10::impl::kFakeGuardImplMaxDevices);
}

TEST_F(Device, UseDeviceMakesItCurrentInTheCallingThread) {
  use_device({c10::kCUDA, 3});
  EXPECT_EQ(FakeCuda::getDeviceIndex(), 3);
}

TEST_F(Device, ANewThreadHasGpuZeroUntilItAdoptsTheProcessesDevice) {
  use_device({c10::kCUDA, 2});
  EXPECT_EQ(current_in_new_thread(false), 0);
  EXPECT_EQ(current_in_new_thread(true), 2);
}

TEST_F(Device, AfterTheCpuWasChosenNoThreadTouchesAGpu) {
  use_device({c10::kCUDA, 2});
  use_device(c10::Device(c10::kCPU));
  EXPECT_EQ(current_in_new_thread(true), 0);
}

}  // namespace device_test
}  // namespace lockstep::tensor

namespace lockstep {
namespace device_test {

TEST(DeviceMemory, OfTheCpuIsTheLargestResidentSet) {
  const c10::Device cpu(c10::kCPU);
  const std::int64_t before = memory_use(cpu).peak;
  EXPECT_GT(before, std::int64_t{1} << 20);
  constexpr std::int64_t kBytes = 256 << 20;
  { const at::Tensor written = at::ones({kBytes / 4}); }
  EXPECT_GE(memory_use(cpu).peak, kBytes) << "memory that was given back counts";
  EXPECT_GT(memory_use(cpu).peak, before);
  EXPECT_EQ(memory_use(cpu).reserved, std::nullopt);
}

TEST(DeviceMemory, OfAnotherKindOfDeviceIsAUsageError) {
  EXPECT_THROW((void)memory_use(c10::Device(c10::DeviceType::Meta)), UsageError);
}

TEST(DeviceMemory, IsReadFromTheKernelsTextWhateverElseStandsThere) {
  EXPECT_EQ(tensor::parse_peak_resident("Name:\tx\nVmPeak:\t 99 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 5 kB\n"),
            1234 * 1024);
  EXPECT_EQ(tensor::parse_peak_resident("Name:\tx\n"), 0);
  EXPECT_EQ(tensor::parse_peak_resident("VmHWM:"), 0);
}

constexpr std::size_t kLarge = std::size_t{64} << 20;

TEST(KeepFreedMemory, LargeBlocksAreNoLongerMappedOneByOne) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer has a malloc of its own";
  const std::size_t mapped = mallinfo2().hblks;  // the libraries have mapped blocks as well
  void* before = std::malloc(kLarge);
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped + 1) << "glibc maps large blocks unless an option says otherwise";
  std::free(before);
  keep_freed_memory();
  void* after = std::malloc(kLarge);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped);
  std::free(after);
  EXPECT_GE(mallinfo2().fordblks, kLarge) << "the freed block stays with the process";
}

/// The page faults of a thread that uses a block a second time. The block is larger than a thread's own arena.
std::int64_t faults_of_second_use() {
  constexpr std::size_t kBlock = 2 * kLarge;
  std::int64_t faults = 0;
  std::thread([&faults] {
    for (int use = 0; use < 2; ++use) {
      rusage before{};
      rusage after{};
      ::getrusage(RUSAGE_THREAD, &before);
      void* block = std::malloc(kBlock);
      std::memset(block, use, kBlock);
      std::free(block);
      ::getrusage(RUSAGE_THREAD, &after);
      faults = after.ru_minflt - before.ru_minflt;
    }
  }).join();
  return faults;
}

TEST(KeepFreedMemory, ALaterThreadFindsThePagesAgainThatItHasFreed) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer has a malloc of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts a new process, which has had no threads yet
  EXPECT_EXIT(
      {
        keep_freed_memory();
        std::_Exit(faults_of_second_use() < 100 ? 0 : 1);  // of 32,768 pages
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace device_test
}  // namespace lockstep
