// SPDX-License-Identifier: Apache-2.0
// The texts are those of libtorch 1.13 and 2.x, line by line as they print them.
#include "base/device_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::base {
namespace device_error_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAgain = "the kernel that failed may be an earlier one: run again with CUDA_LAUNCH_BLOCKING=1";

constexpr const char* kAssert113 =
    "CUDA error: device-side assert triggered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\n"
    "Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:31 (most recent call "
    "first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x6c (0x7f0 in libc10.so)\n";

constexpr const char* kAccess26 =
    "CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n";

constexpr const char* kLaunch29 =
    "CUDA error: unspecified launch failure\n"
    "Search for `cudaErrorLaunchFailure' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
    "for "
    "more information.\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\n";

TEST(DeviceError, AKernelThatFailedMayBeAnEarlierOne) {
  for (const char* text :
       {kAssert113, kAccess26, kLaunch29, "CUDA error: misaligned address\n", "CUDA error: hardware stack error",
        "CUDA error: an illegal instruction was encountered", "CUDA error: invalid program counter",
        "CUDA error: the launch timed out and was terminated", "CUDA driver error: unspecified launch failure",
        "CUDA error: operation not supported on global/shared address space",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"}) {
    EXPECT_EQ(device_error_hint(text, false), kAgain) << text;
  }
}

TEST(DeviceError, WhereTheHostWaitedTheCallNamedIsTheOne) {
  EXPECT_EQ(device_error_hint(kAssert113, true),
            "CUDA_LAUNCH_BLOCKING=1 is set: the call named is the one whose kernel failed");
}

TEST(DeviceError, ErrorsOfTheCallItselfGetNoHint) {
  for (const char* text :
       {"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity)",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
        "CUDA error: invalid device ordinal", "CUDA error: invalid configuration argument",
        "CUDA error: no kernel image is available for execution on the device",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Expected all tensors to be on the same device", "a file with a misaligned address", ""}) {
    EXPECT_EQ(device_error_hint(text, false), "") << text;
  }
}

/// What a launcher reads of a program that ends with `what`.
std::string reported(const char* what, const char* blocking) {
  const test::TempDir folder;
  ::setenv("LOCKSTEP_ERROR_FILE", (folder / "error.json").c_str(), 1);
  ::setenv("CUDA_LAUNCH_BLOCKING", blocking, 1);
  EXPECT_EQ(guarded_main([&]() -> int { throw std::runtime_error(what); }), 71);
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  ::unsetenv("LOCKSTEP_ERROR_FILE");
  return FileSystem::system().read(folder / "error.json");
}

TEST(DeviceError, EveryProgramThatEndsWithOneSaysTheHint) {
  const std::string json = reported(kAssert113, "0");
  EXPECT_THAT(json, HasSubstr("next  the kernel that failed may be an earlier one"));
  EXPECT_THAT(json, Not(HasSubstr("please report")));
  EXPECT_THAT(json, Not(HasSubstr("frame #0")));
  EXPECT_THAT(json, Not(HasSubstr("backtrace")));
}

TEST(DeviceError, TheStackIsShownWhereItNamesTheCall) {
  const std::string json = reported(kAssert113, "1");
  EXPECT_THAT(json, HasSubstr("backtrace"));
  EXPECT_THAT(json, HasSubstr("the call named is the one"));
}

TEST(DeviceError, OtherErrorsAreTheProgramsOwn) {
  const std::string json = reported("Expected all tensors to be on the same device", "1");
  EXPECT_THAT(json, HasSubstr("your program threw std::runtime_error"));
  EXPECT_THAT(json, HasSubstr("next  the exception is the program's"));
}

}  // namespace device_error_test
}  // namespace lockstep::base
