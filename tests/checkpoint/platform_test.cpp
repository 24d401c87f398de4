// SPDX-License-Identifier: Apache-2.0
// A checkpoint's record of the machine, and choosing the same kernels in a replay.
#include "lockstep/checkpoint/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/checkpoint/inspect.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {
namespace platform_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Sets an environment variable for its lifetime.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Manifest manifest_of_here() {
  return {.libtorch = tensor::libtorch_version(),
          .instruction_set = checkpoint::instruction_set(),
          .blas = checkpoint::blas_kernels(),
          .kernel_variables = checkpoint::kernel_variables()};
}

TEST(KernelVariables, AreThoseThatAreSet) {
  EXPECT_EQ(checkpoint::kernel_variables(), "none");
  const Variable one("ONEDNN_MAX_CPU_ISA", "AVX2");
  const Variable two("ATEN_CPU_CAPABILITY", "avx\n2");
  EXPECT_EQ(checkpoint::kernel_variables(), "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2");
  EXPECT_THAT(checkpoint::platform(), HasSubstr(", ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2"));
}

TEST(KernelVariables, DoNotRepeatTheKernelsOfTheProducts) {
  const auto library = tensor::product_library();
  if (!library || library->core.empty()) GTEST_SKIP() << "no OpenBLAS";
  const Variable own("OPENBLAS_CORETYPE", library->core.c_str());
  EXPECT_EQ(checkpoint::kernel_variables(), "none");
  const Variable other("OPENBLAS_CORETYPE", "Prescott");
  EXPECT_EQ(checkpoint::kernel_variables(), "OPENBLAS_CORETYPE=Prescott");
}

TEST(KernelVariables, OfAnotherRunAreADifference) {
  Manifest manifest = manifest_of_here();
  EXPECT_EQ(platform_difference(manifest), "");
  {
    const Variable set("MKL_CBWR", "AVX2");
    EXPECT_THAT(platform_difference(manifest), AllOf(HasSubstr("written with libtorch"), HasSubstr("MKL_CBWR=AVX2")));
    manifest.kernel_variables = "";  // an older checkpoint
    EXPECT_EQ(platform_difference(manifest), "");
  }
  manifest.kernel_variables = "MKL_CBWR=AVX2";
  EXPECT_THAT(platform_difference(manifest), HasSubstr("MKL_CBWR=AVX2, but this is"));
}

TEST(WordsForEnv, GiveAProgramTheSameVariablesAndNoOthers) {
  const std::vector<std::string> words = checkpoint::words_for_env(
      {.blas = "OpenBLAS 0.3.21 Haswell", .kernel_variables = "ATEN_CPU_CAPABILITY=avx2 LD_PRELOAD=/tmp/x.so"});
  EXPECT_THAT(words, AllOf(Contains("ATEN_CPU_CAPABILITY=avx2"), Contains("OPENBLAS_CORETYPE=Haswell"),
                           Contains("ONEDNN_MAX_CPU_ISA"), Not(Contains(HasSubstr("LD_PRELOAD")))));
  EXPECT_THAT(checkpoint::words_for_env({.blas = "MKL 2024.2", .kernel_variables = "none"}), Each(Not(HasSubstr("="))));
  EXPECT_THAT(checkpoint::words_for_env({.blas = "OpenBLAS 0.3.21 Haswell"}), IsEmpty());
}

}  // namespace platform_test
}  // namespace lockstep
