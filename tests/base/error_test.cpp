// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <new>

#include "lockstep/base/file_system.h"

namespace lockstep {
namespace error_test {

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

}  // namespace error_test
}  // namespace lockstep
