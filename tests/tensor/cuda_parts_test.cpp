// SPDX-License-Identifier: Apache-2.0
// The CUDA parts are loaded before main() if possible, and each function dispatches to them. Libraries and driver are
// stand-ins; a preloaded libc10.so determines which folder is treated as libtorch's.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "support/process.h"

namespace lockstep {
namespace cuda_parts_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFolder = LOCKSTEP_CUDA_STAND_INS;

/// Returns the output of a program whose libtorch has CUDA.
std::string said(const std::string& system) {
  test::Process probe({.command = {kFolder + "/probe"},
                       .environment = {{"LD_LIBRARY_PATH", system},
                                       {"LD_PRELOAD", kFolder + "/torch/libc10.so"},
                                       {"ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"}}});
  const test::ProcessResult result = probe.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

TEST(CudaParts, AreLoadedBeforeMainWhereADriverIs) {
  EXPECT_EQ(said(kFolder + "/driver"),
            "loaded\nmain\ngraph: true\nmemory: 101\nforgets GPU 1\nforgotten: true\nstream: 7\n"
            "address: 0000:3b:00.0\n"
            "address of another: ResourceError: the PCI address of GPU 1 cannot be read: invalid device ordinal\n"
            "name: NVIDIA A100-PCIE-40GB\n");
}

TEST(CudaParts, ThatAreNotLoadedAreAnErrorOfWhoeverAsksForThem) {
  if (::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "the system has a driver";
  const std::string text = said("");
  EXPECT_THAT(text, StartsWith("main\ngraph: false\n"));
  for (const char* wanted :
       {"memory: UsageError: the memory of GPU 1 cannot be read, since no NVIDIA driver was found",
        "forgotten: UsageError: ", "stream: UsageError: ", "address: UsageError: ", "name: GPU\n"}) {
    EXPECT_THAT(text, HasSubstr(wanted));
  }
}

}  // namespace cuda_parts_test
}  // namespace lockstep
