// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

namespace lockstep {
namespace {

constexpr std::size_t kLarge = std::size_t{64} << 20;

TEST(KeepFreedMemory, LargeBlocksAreNoLongerMappedOneByOne) {
  void* before = std::malloc(kLarge);
  ASSERT_NE(before, nullptr);
  EXPECT_GE(mallinfo2().hblks, 1U) << "glibc maps large blocks until it is told otherwise";
  std::free(before);
  keep_freed_memory();
  void* after = std::malloc(kLarge);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(mallinfo2().hblks, 0U);
  std::free(after);
  EXPECT_GE(mallinfo2().fordblks, kLarge) << "the freed block stays with the process";
}

}  // namespace
}  // namespace lockstep
