// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/blas.h"

#include <gtest/gtest.h>

namespace lockstep::blas {
namespace blas_test {

constexpr CpuFeatures kOld{};
constexpr CpuFeatures kAvx2{.avx2 = true};
constexpr CpuFeatures kAvx512{.avx2 = true, .avx512 = true};
constexpr CpuFeatures kBf16{.avx2 = true, .avx512 = true, .avx512_bf16 = true};

TEST(Blas, AProcessorThatOpenBlasTakesForAnOlderOneGetsTheWidestKernelsItCanRun) {
  EXPECT_EQ(better_core("Haswell", kBf16), "Cooperlake");
  EXPECT_EQ(better_core("Prescott", kBf16), "Cooperlake");
  EXPECT_EQ(better_core("Haswell", kAvx512), "SkylakeX");
  EXPECT_EQ(better_core("Zen", kAvx512), "SkylakeX");
  EXPECT_EQ(better_core("Prescott", kAvx2), "Haswell");
  EXPECT_EQ(better_core("unknown", kAvx2), "Haswell");
}

TEST(Blas, WhatIsWideEnoughStays) {
  for (const char* core : {"SkylakeX", "Cooperlake", "SapphireRapids"}) EXPECT_EQ(better_core(core, kBf16), "") << core;
  EXPECT_EQ(better_core("Haswell", kAvx2), "");
  EXPECT_EQ(better_core("Zen", kAvx2), "");
  EXPECT_EQ(better_core("Prescott", kOld), "");
}

TEST(Blas, TheTextNamesVersionKernelsAndWhyTheyWereChosen) {
  Library library{.version = "OpenBLAS 0.3.21", .core = "SapphireRapids", .detected = "", .by_user = false};
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels");
  library.detected = "Haswell";
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels (it took this processor for a Haswell)");
  library.by_user = true;
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels (OPENBLAS_CORETYPE was set)");
}

TEST(Blas, WiderFeaturesIncludeTheNarrower) {
  const CpuFeatures features = cpu_features();
  EXPECT_LE(features.avx512, features.avx2);
  EXPECT_LE(features.avx512_bf16, features.avx512);
}

}  // namespace blas_test
}  // namespace lockstep::blas
