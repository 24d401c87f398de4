// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

#include "support/sanitizer.h"

namespace lockstep {
namespace memory_test {

constexpr std::size_t kLarge = std::size_t{64} << 20;

TEST(KeepFreedMemory, LargeBlocksAreNoLongerMappedOneByOne) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer has a malloc of its own";
  const std::size_t mapped = mallinfo2().hblks;  // the libraries have some of their own
  void* before = std::malloc(kLarge);
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped + 1) << "glibc maps large blocks until it is told otherwise";
  std::free(before);
  keep_freed_memory();
  void* after = std::malloc(kLarge);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped);
  std::free(after);
  EXPECT_GE(mallinfo2().fordblks, kLarge) << "the freed block stays with the process";
}

}  // namespace memory_test
}  // namespace lockstep
