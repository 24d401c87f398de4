// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/scarce.h"

namespace lockstep {
namespace threads_test {

TEST(SetThreads, SetsThoseOfLibtorch) {
  const int before = at::get_num_threads();
  tensor::set_threads(3);
  EXPECT_EQ(at::get_num_threads(), 3);
  tensor::set_threads(before);
}

// Less than a stack is left. libtorch's pool alone would wait for ever for a thread that never began.
TEST(SetThreads, ThatTheSystemDoesNotGiveAreAnErrorAndNoHang) {
  EXPECT_EXIT(
      {
        ::alarm(20);
        test::leave_address_space(4U << 20U);
        ::_exit(guarded_main([] {
          tensor::set_threads(4);
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "cannot start a thread for libtorch .*ulimit -v");
}

}  // namespace threads_test
}  // namespace lockstep
