// SPDX-License-Identifier: Apache-2.0
// Programs are started again with another OPENBLAS_CORETYPE: OpenBLAS reads it before main.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "lockstep/base/blas.h"
#include "support/shell.h"

namespace lockstep {
namespace blas_kernels_test {

using ::testing::HasSubstr;

/// A product that wide and narrow kernels round differently: 700 terms a sum.
std::uint64_t digest_of_a_product() {
  std::vector<float> left(300 * 700);
  std::vector<float> right(700 * 200);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i * 7919 % 10007) / 10007.0F;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i * 6007 % 9973) / 9973.0F - 0.3F;
  const at::Tensor product =
      at::matmul(at::from_blob(left.data(), {300, 700}), at::from_blob(right.data(), {700, 200}));
  std::uint64_t digest = 14695981039346656037ULL;
  for (const float number :
       std::vector<float>(product.data_ptr<float>(), product.data_ptr<float>() + product.numel())) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    digest = (digest ^ bits) * 1099511628211ULL;
  }
  return digest;
}

/// What the test PrintsItsKernels says in a program that is started with `setting`.
std::string printed_with(const std::string& setting) {
  return lockstep::testing::run_shell(setting + " " + lockstep::testing::this_program() +
                                      " --gtest_filter=BlasKernels.PrintsItsKernels")
      .text;
}

TEST(BlasKernels, PrintsItsKernels) {
  const auto library = blas::loaded();
  fmt::print("kernels [{}] digest [{}]\n", library ? library->text() : "none", digest_of_a_product());
}

TEST(BlasKernels, AreThoseThatTheProcessorCanRunWithoutBeingAsked) {
  const auto library = blas::loaded();
  if (!library) GTEST_SKIP() << "this libtorch multiplies without OpenBLAS";
  if (library->by_user) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  EXPECT_EQ(blas::better_core(library->core, blas::cpu_features()), "") << library->text();
}

TEST(BlasKernels, OfAProgramThatChangedThemHaveTheBitsOfOneThatBeganWithThem) {
  const auto library = blas::loaded();
  if (!library) GTEST_SKIP() << "this libtorch multiplies without OpenBLAS";
  const std::string digest = fmt::format("digest [{}]", digest_of_a_product());
  EXPECT_THAT(printed_with("OPENBLAS_CORETYPE=" + library->core), HasSubstr(digest)) << library->text();
}

TEST(BlasKernels, OfTheUserStay) {
  if (!blas::loaded() || !blas::cpu_features().avx2) GTEST_SKIP() << "no OpenBLAS with kernels to choose from";
  EXPECT_THAT(printed_with("OPENBLAS_CORETYPE=Nehalem"), HasSubstr("Nehalem kernels (OPENBLAS_CORETYPE was set)"));
}

TEST(BlasKernels, AreNamedToProgramsThatALauncherStarts) {
  const auto library = blas::loaded();
  if (!library || library->by_user) GTEST_SKIP() << "nothing to choose";
  EXPECT_EQ(blas::core_for_programs(), library->detected.empty() ? "" : library->core);
}

}  // namespace blas_kernels_test
}  // namespace lockstep
