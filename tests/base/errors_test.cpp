// SPDX-License-Identifier: Apache-2.0
// Errors: the effect of their type, messages passed on from other programs, and the record of a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "base/device_error.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/invariant.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace errors_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Error, ItsTypeDecidesTheExitCode) {
  EXPECT_EQ(guarded_main([]() -> int { throw UsageError("wrong"); }), 64);
  EXPECT_EQ(guarded_main([]() -> int { throw DataError("torn"); }), 65);
  EXPECT_EQ(guarded_main([]() -> int { throw std::bad_alloc(); }), 69);
  EXPECT_EQ(guarded_main([]() -> int { throw std::runtime_error("?"); }), 71);
  EXPECT_EQ(guarded_main([]() -> int { throw InternalError("ours"); }), 70);
  EXPECT_EQ(guarded_main([]() -> int { throw IoError("disk"); }), 74);
  EXPECT_EQ(guarded_main([]() -> int { throw PeerError("dead"); }), 75);
  EXPECT_EQ(guarded_main([]() -> int { throw TimeoutError("late"); }), 76);
  EXPECT_EQ(guarded_main([] { return 3; }), 3);
}

TEST(Invariant, ThatDoesNotHoldEndsTheProcessWithItsState) {
  const auto check = [](int sum) { LOCKSTEP_INVARIANT(sum < 3, "a sum of {}", sum); };
  check(2);
  EXPECT_EXIT(check(3), ::testing::ExitedWithCode(70), "sum < 3 \\(.*errors_test.cpp:[0-9]+\\); a sum of 3");
}

TEST(Error, TheHintStandsOnALineOfItsOwn) {
  const UsageError error("no such key", "try epochs");
  EXPECT_STREQ(error.what(), "no such key\n  next  try epochs");
}

TEST(Error, AnErrorThatCrossedAProcessKeepsItsType) {
  EXPECT_THROW(throw_error("PeerError", "rank 1 died"), PeerError);
  EXPECT_THROW(throw_error("ProgramError", "your program threw"), ProgramError);
  EXPECT_THROW(throw_error("NoSuchType", "?"), InternalError);
}

TEST(Error, TheLaunchersErrorFileIsWritten) {
  const auto path = std::filesystem::temp_directory_path() / "lockstep_error_test.json";
  ::setenv("LOCKSTEP_ERROR_FILE", path.c_str(), 1);
  EXPECT_EQ(guarded_main([]() -> int { throw DataError("x.png is \"torn\""); }), 65);
  ::unsetenv("LOCKSTEP_ERROR_FILE");
  const std::string json = FileSystem::system().read(path);
  EXPECT_NE(json.find(R"("message": "DataError: x.png is \"torn\"")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("type": "DataError")"), std::string::npos) << json;
  std::filesystem::remove(path);
}

TEST(Error, TheErrorFileOfWrongNumbersSaysWhichRankErred) {
  const auto path = std::filesystem::temp_directory_path() / "lockstep_corruption_test.json";
  ::setenv("LOCKSTEP_ERROR_FILE", path.c_str(), 1);
  EXPECT_EQ(guarded_main([]() -> int { throw CorruptionError("rank 3 on host b has other weights", "", 3); }), 77);
  ::unsetenv("LOCKSTEP_ERROR_FILE");
  const std::string json = FileSystem::system().read(path);
  EXPECT_NE(json.find(R"("erred": 3}}})"), std::string::npos) << json;
  std::filesystem::remove(path);
}

// Every writer of a failure record writes the same record, wherever it writes it.

FailureRecord through_json(const FailureRecord& record) { return parse_failure(to_json(record)).value(); }

TEST(FailureRecord, OfWrongNumbersNamesTheRankThatErred) {
  EXPECT_EQ(through_json(record_of(CorruptionError("other weights", "", 3), /*rank=*/0)).erred, 3);
  EXPECT_EQ(through_json(record_of(DataError("torn"), 0)).erred, -1);
}

TEST(FailureRecord, IsTheSameAfterItsJson) {
  const FailureRecord record{.kind = FailureKind::kTimeout,
                             .type = "TimeoutError",
                             .message = "rank 2 is late\n  waiting for   rank 2",
                             .hint = "look at rank 2",
                             .rank = 1,
                             .host = "host-a",
                             .time_ns = 1'700'000'000'000'000'000};
  const FailureRecord read = through_json(record);
  EXPECT_EQ(read.kind, record.kind);
  EXPECT_EQ(read.type, record.type);
  EXPECT_EQ(read.message, record.message);
  EXPECT_EQ(read.hint, record.hint);
  EXPECT_EQ(read.rank, record.rank);
  EXPECT_EQ(read.host, record.host);
  EXPECT_EQ(read.time_ns, record.time_ns);
}

TEST(FailureRecord, BecomesTheErrorThatItWas) {
  EXPECT_THROW(rethrow(through_json(record_of(DataError("broken image", "look at it")))), DataError);
  EXPECT_THROW(rethrow(through_json(record_of(MismatchError("the ranks differ")))), MismatchError);
  EXPECT_THROW(rethrow(through_json(record_of(MismatchError("the ranks differ")))), UsageError);
  try {
    rethrow(through_json(record_of(IoError("the disk is full", "remove something"))));
  } catch (const IoError& error) {
    EXPECT_EQ(error.message(), "the disk is full");
    EXPECT_EQ(error.hint(), "remove something");
  }
}

TEST(FailureRecord, KnowsTheKindByTheTypeAndByNoText) {
  EXPECT_EQ(record_of(UsageError("the ranks called different collectives")).kind, FailureKind::kFailed);
  EXPECT_EQ(record_of(MismatchError("anything")).kind, FailureKind::kMismatch);
  EXPECT_EQ(record_of(PeerError("rank 1 died")).kind, FailureKind::kPeer);
  EXPECT_EQ(record_of(TimeoutError("late")).kind, FailureKind::kTimeout);
  EXPECT_EQ(record_of(std::runtime_error("theirs")).kind, FailureKind::kFailed);
}

TEST(FailureRecord, OfAnExceptionOfTheProgramsOwnNamesItsType) {
  EXPECT_THAT(words_of(record_of(std::runtime_error("theirs"))), HasSubstr("theirs"));
  EXPECT_EQ(words_of(record_of(DataError("broken"))), "DataError: broken");
  EXPECT_EQ(words_of({.message = "killed by signal 9"}), "killed by signal 9");
}

TEST(FailureRecord, IsReadWhereOnlyWordsWereWritten) {
  const auto record = parse_failure(R"({"rank": 3, "host": "host", "what": "say \"no\""})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->rank, 3);
  EXPECT_THAT(words_of(*record), StartsWith("say \"no\""));
  for (const char* bad : {"", "[]", "{", R"({"rank":"x"})", R"({"host":"h"})"}) EXPECT_FALSE(parse_failure(bad)) << bad;
}

TEST(FailureRecord, SteersNoTerminalAndShowsNoSecret) {
  const auto record = parse_failure(
      R"({"rank": 1, "host": "\u001b[2Jhost\n", "what": "\u001b]0;owned\u0007 of https://ann:s3cret@h/x?token=t"})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->host, "\\x1b[2Jhost\\n");
  EXPECT_EQ(words_of(*record), "\\x1b]0;owned\\x07 of https://***@h/x?token=***");
}

}  // namespace errors_test
}  // namespace lockstep

namespace lockstep::base {
namespace errors_test {

using ::testing::HasSubstr;
using ::testing::Not;

// The messages are those of libtorch 1.13 and 2.x, line by line.

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
            "CUDA_LAUNCH_BLOCKING=1 is set: the error names the call whose kernel failed");
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

/// The launcher's record of a program that fails with `what`.
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
  EXPECT_THAT(json, HasSubstr("the error names the call"));
}

TEST(DeviceError, OtherErrorsAreTheProgramsOwn) {
  const std::string json = reported("Expected all tensors to be on the same device", "1");
  EXPECT_THAT(json, HasSubstr("your program threw std::runtime_error"));
  EXPECT_THAT(json, HasSubstr("next  your program threw it"));
}

}  // namespace errors_test
}  // namespace lockstep::base
