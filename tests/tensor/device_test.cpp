// SPDX-License-Identifier: Apache-2.0
// With a make-believe CUDA that only knows which device is current in which thread.
#include "lockstep/tensor/device.h"

#include <c10/core/impl/FakeGuardImpl.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep::tensor {
namespace device_test {

using FakeCuda = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, FakeCuda);

int current_in_new_thread(bool adopts) {
  int index = -1;
  std::thread([&] {
    if (adopts) adopt_device();
    index = FakeCuda::getDeviceIndex();
  }).join();
  return index;
}

TEST(Device, TheGpusOfTheGuardAreCounted) {
  EXPECT_TRUE(has_cuda());
  EXPECT_EQ(cuda_device_count(), c10::impl::kFakeGuardImplMaxDevices);
}

TEST(Device, UseDeviceMakesItCurrentInTheCallingThread) {
  use_device({c10::kCUDA, 3});
  EXPECT_EQ(FakeCuda::getDeviceIndex(), 3);
}

TEST(Device, ANewThreadHasGpuZeroUntilItAdoptsTheProcessesDevice) {
  use_device({c10::kCUDA, 2});
  EXPECT_EQ(current_in_new_thread(false), 0);
  EXPECT_EQ(current_in_new_thread(true), 2);
}

TEST(Device, AfterTheCpuWasChosenNoThreadTouchesAGpu) {
  use_device({c10::kCUDA, 2});
  use_device(c10::Device(c10::kCPU));
  EXPECT_EQ(current_in_new_thread(true), 0);
}

}  // namespace device_test
}  // namespace lockstep::tensor
