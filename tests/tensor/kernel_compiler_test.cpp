// SPDX-License-Identifier: Apache-2.0
// NVRTC itself, if it can be loaded: LD_LIBRARY_PATH may name the folder of Python's nvidia-cuda-nvrtc package. No GPU
// is needed.
#include "tensor/kernel_compiler.h"

#include <gmock/gmock.h>

namespace lockstep::tensor {
namespace kernel_compiler_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr KernelSource kFill{
    .name = "fill.cu",
    .text = "extern \"C\" __global__ void fill(float* const to) { to[threadIdx.x] = VALUE; }\n",
    .before = "#define VALUE 1.0f\n"};

#define LOCKSTEP_NEEDS_NVRTC(found) \
  if (found.problem.starts_with("NVRTC cannot be loaded")) GTEST_SKIP() << found.problem

TEST(KernelCompiler, MakesMachineCodeForAGpuThatItKnows) {
  const CompiledKernels found = compile_kernels(kFill, 90);
  LOCKSTEP_NEEDS_NVRTC(found);
  EXPECT_EQ(found.problem, "");
  EXPECT_THAT(found.image, StartsWith("\x7F"
                                      "ELF"));
}

TEST(KernelCompiler, MakesPtxForAYoungerGpu) {
  const CompiledKernels found = compile_kernels(kFill, 9990);
  LOCKSTEP_NEEDS_NVRTC(found);
  EXPECT_EQ(found.problem, "");
  EXPECT_THAT(found.image, HasSubstr(".visible .entry fill"));
}

TEST(KernelCompiler, SaysWhatDoesNotCompile) {
  const CompiledKernels found = compile_kernels({.name = "wrong.cu", .text = "int main( {", .before = ""}, 90);
  LOCKSTEP_NEEDS_NVRTC(found);
  EXPECT_EQ(found.image, "");
  EXPECT_THAT(found.problem, HasSubstr("NVRTC cannot compile wrong.cu: wrong.cu(1): error"));
}

}  // namespace kernel_compiler_test
}  // namespace lockstep::tensor
