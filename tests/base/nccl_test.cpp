// SPDX-License-Identifier: Apache-2.0
// The NCCL that a process picks. The libraries are stand-ins, and a separate program loads each.
#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/nccl_library.h"
#include "support/process.h"
#include "support/sanitizer.h"

namespace lockstep {
namespace nccl_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFolder = LOCKSTEP_NCCL_STAND_INS;

std::string stand_in(const std::string& kind) { return kFolder + "/" + kind + "/libnccl.so.2"; }

struct Setting {
  std::string named = {};                ///< LOCKSTEP_NCCL
  std::string system = {};               ///< the folder of system libraries
  std::vector<std::string> loaded = {};  ///< libraries that the program has loaded
};

/// Returns the output of a program in this setup.
std::string found(const Setting& setting) {
  std::vector<std::string> command = {kFolder + "/probe"};
  command.insert(command.end(), setting.loaded.begin(), setting.loaded.end());
  test::Process probe(
      {.command = command, .environment = {{"LOCKSTEP_NCCL", setting.named}, {"LD_LIBRARY_PATH", setting.system}}});
  const test::ProcessResult result = probe.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

std::string usable(const std::string& path) { return "path '" + path + "' version '2.28.9' problem ''\n"; }

TEST(NcclLibrary, IsTheOneThatTheUserNames) { EXPECT_EQ(found({.named = stand_in("good")}), usable(stand_in("good"))); }

TEST(NcclLibrary, OfTheUserCallsItsOwnFunctionsAlthoughAnotherIsLoaded) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer refuses RTLD_DEEPBIND";
  EXPECT_EQ(found({.named = stand_in("good"), .system = kFolder + "/old", .loaded = {stand_in("old")}}),
            usable(stand_in("good")));
}

TEST(NcclLibrary, OfTheUserIsTakenOrNone) {
  const std::string said = found({.named = "/nowhere/libnccl.so.2", .system = kFolder + "/good"});
  EXPECT_THAT(said, StartsWith("path '' version ''"));
  EXPECT_THAT(said, HasSubstr("LOCKSTEP_NCCL=/nowhere/libnccl.so.2 cannot be loaded: "));
  EXPECT_THAT(said, HasSubstr("No such file"));
}

TEST(NcclLibrary, IsTheOneThatTheProgramHasLoadedAlready) {
  EXPECT_EQ(found({.system = kFolder + "/old", .loaded = {stand_in("good")}}), usable(stand_in("good")));
  const std::string inside = kFolder + "/inside/libtorch_cuda.so";
  EXPECT_EQ(found({.system = kFolder + "/old", .loaded = {inside}}), usable(inside));
}

TEST(NcclLibrary, IsTheOneBesideLibtorch) {
  const std::string torch = kFolder + "/site/torch/lib/libc10.so";
  EXPECT_EQ(found({.system = kFolder + "/old", .loaded = {torch}}),
            usable(kFolder + "/site/nvidia/nccl/lib/libnccl.so.2"));
  const std::string archive = kFolder + "/archive/lib/libc10.so";
  EXPECT_EQ(found({.system = kFolder + "/old", .loaded = {archive}}), usable(kFolder + "/archive/lib/libnccl.so.2"));
}

TEST(NcclLibrary, IsTheSystemsWhereThereIsNoOther) {
  EXPECT_EQ(found({.system = kFolder + "/good"}), usable(stand_in("good")));
  const std::string torch = kFolder + "/alone/lib/libc10.so";
  EXPECT_EQ(found({.system = kFolder + "/good", .loaded = {torch}}), usable(stand_in("good")));
}

TEST(NcclLibrary, ThatIsNowhereGivesTheReason) {
  const std::string said = found({});
  if (said.starts_with("path '/")) GTEST_SKIP() << "the system has one: " << said;
  EXPECT_THAT(said, HasSubstr("problem 'NCCL cannot be loaded: libnccl.so.2: "));
}

TEST(NcclLibrary, ThatDoesNotFitSaysItsFileAndWhatIsWrong) {
  EXPECT_EQ(found({.named = stand_in("old")}), "path '" + stand_in("old") + "' version '2.10.3' problem '" +
                                                   stand_in("old") +
                                                   " is NCCL 2.10.3, but Lockstep needs 2.14.0 or later'\n");
  EXPECT_THAT(found({.named = stand_in("torn")}), HasSubstr(stand_in("torn") + " has no function ncclSend'"));
  EXPECT_THAT(found({.named = stand_in("mute")}), HasSubstr(stand_in("mute") + " does not report its version'"));
}

TEST(NcclLibrary, IsSoughtWhereAProgramLoadsItsLibrariesFrom) {
  const nccl::Search search = nccl::search_among(
      {"", "/lib/libc.so.6", "/site/torch/lib/libtorch_cpu.so", "/other/libc10.so", "/n/libnccl.so.2"});
  EXPECT_EQ(search.torch_folder, "/site/torch/lib");
  EXPECT_EQ(search.loaded, "/n/libnccl.so.2");
  EXPECT_EQ(nccl::search_among({"/lib/libtorchvision.so", "/lib/libc10d.so"}).torch_folder, "");
}

TEST(NcclLibrary, IsLookedForInOneOrder) {
  EXPECT_THAT(nccl::places({.named = "/a", .loaded = "/b", .torch_folder = "/c"}), ElementsAre("/a"));
  EXPECT_THAT(nccl::places({.loaded = "/b", .torch_folder = "/c"}), ElementsAre("/b"));
  EXPECT_THAT(nccl::places({.torch_folder = "/site/torch/lib"}),
              ElementsAre("/site/torch/lib/libnccl.so.2", "/site/nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2"));
  EXPECT_THAT(nccl::places({}), ElementsAre("libnccl.so.2"));
}

}  // namespace nccl_test
}  // namespace lockstep
