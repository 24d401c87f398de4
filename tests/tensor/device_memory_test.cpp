// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/device_memory.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace device_memory_test {

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

}  // namespace device_memory_test
}  // namespace lockstep
