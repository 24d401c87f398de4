// SPDX-License-Identifier: Apache-2.0
// The choice of liblockstep-cuda.so, and the error if none can be loaded. Libraries and driver are stand-ins; each
// place has its own program, since the search starts in the program's folder.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "lockstep/base/cuda_library.h"
#include "support/process.h"

namespace lockstep {
namespace cuda_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kFolder = LOCKSTEP_CUDA_STAND_INS;
const std::string kDriver = kFolder + "/driver";

struct Setting {
  std::string place;                     ///< the program's folder: "whole/bin"
  std::string system = {};               ///< the folder of system libraries
  std::vector<std::string> loaded = {};  ///< libraries that the program has loaded
};

/// Returns the output of a program in this setup.
std::string found(const Setting& setting) {
  std::vector<std::string> command = {kFolder + "/" + setting.place + "/probe"};
  for (const std::string& file : setting.loaded) command.push_back(kFolder + "/" + file);
  test::Process probe({.command = command, .environment = {{"LD_LIBRARY_PATH", setting.system}}});
  const test::ProcessResult result = probe.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

std::string loaded(const std::string& file) {
  return "path '" + kFolder + "/" + file + "' parts 'a word'\nforeseen '' found '' next ''\n";
}

/// Expects that nothing was loaded and that both calls report `what`.
auto lacks(const std::string& what) {
  return AllOf(StartsWith("path '' parts ''\n"), HasSubstr("foreseen '" + what), HasSubstr("found '" + what));
}

/// Empty if the build has no CUDA parts of its own.
std::string why_not_alone() { return LOCKSTEP_BUILT_FOR_CUDA ? "this build has its own" : ""; }

const std::string kTorch = "torch/libc10.so";
const std::string kTorchOfCpu = "cpu_torch/libc10.so";

TEST(CudaLibrary, IsLoadedWhereADriverAndALibtorchWithCudaAre) {
  EXPECT_EQ(found({.place = "whole/bin", .system = kDriver, .loaded = {kTorch}}),
            loaded("whole/lib/liblockstep-cuda.so"));
  EXPECT_EQ(found({.place = "beside", .system = kDriver, .loaded = {kTorch}}), loaded("beside/liblockstep-cuda.so"));
}

TEST(CudaLibrary, IsFoundWhereTheLoaderLooks) {
  if (const std::string why = why_not_alone(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(found({.place = "alone", .system = kDriver + ":" + kFolder + "/beside", .loaded = {kTorch}}),
            loaded("beside/liblockstep-cuda.so"));
}

TEST(CudaLibrary, IsLeftAloneWithoutADriver) {
  if (::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "the system has a driver";
  const std::string said = found({.place = "whole/bin", .loaded = {kTorch}});
  EXPECT_THAT(said, lacks("no NVIDIA driver was found (libcuda.so.1: "));
  EXPECT_THAT(said, HasSubstr("next 'install the driver; start a container with --gpus all'"));
}

TEST(CudaLibrary, IsLeftAloneWithALibtorchForTheCpu) {
  const std::string said = found({.place = "whole/bin", .system = kDriver, .loaded = {kTorchOfCpu}});
  EXPECT_THAT(said, lacks("this libtorch has no CUDA (" + kFolder + "/cpu_torch has no libtorch_cuda.so)"));
  EXPECT_THAT(said, HasSubstr("next 'install a libtorch for CUDA of the same version'"));
}

TEST(CudaLibrary, ThatTheBuildDoesNotHaveIsTheFirstThingToSay) {
  if (const std::string why = why_not_alone(); !why.empty()) GTEST_SKIP() << why;
  const std::string said = found({.place = "alone", .loaded = {kTorchOfCpu}});
  EXPECT_THAT(said, lacks("this build of Lockstep has no CUDA'"));
  EXPECT_THAT(said, HasSubstr("next 'build it with a libtorch for CUDA'"));
}

TEST(CudaLibrary, ThatDoesNotFitSaysWhy) {
  EXPECT_THAT(found({.place = "old", .system = kDriver, .loaded = {kTorch}}),
              AllOf(StartsWith("path '' parts ''\nforeseen '' found '"),
                    HasSubstr("old/liblockstep-cuda.so cannot be loaded: it does not belong to Lockstep ")));
  EXPECT_THAT(found({.place = "torn", .system = kDriver, .loaded = {kTorch}}),
              AllOf(HasSubstr("liblockstep-cuda.so cannot be loaded: "), HasSubstr("file too short")));
}

TEST(CudaLibrary, IsSoughtBesideTheProgramAndInTheFolderOfLibraries) {
  const cuda::Search search = cuda::search_from("/opt/bin/lockstep", "/site/lockstep/bin/../../torch/lib");
  ASSERT_GE(search.folders.size(), 2);
  EXPECT_EQ(search.folders[0], "/opt/bin");
  EXPECT_EQ(search.folders[1], "/opt/lib");
  EXPECT_THAT(search.torch_folders, ElementsAre("/site/torch/lib")) << "the one that is loaded, and no other";
  EXPECT_THAT(cuda::search_from("/opt/bin/lockstep", "").torch_folders, Not(Contains("")));
}

}  // namespace cuda_test
}  // namespace lockstep
