// SPDX-License-Identifier: Apache-2.0
// Bits that do not depend on threads, processors or earlier random numbers.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randperm.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/blas.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/tensor/torch_version.h"
#include "support/scarce.h"
#include "support/shell.h"

namespace lockstep {
namespace threads_test {

using ::testing::HasSubstr;

TEST(SetThreads, SetsThoseOfLibtorch) {
  const int before = at::get_num_threads();
  tensor::set_threads(3);
  EXPECT_EQ(at::get_num_threads(), 3);
  tensor::set_threads(before);
}

// Less than a stack is left, and threads that ended before the fork left too few stacks. libtorch's own pool would wait
// forever for a thread that never started.
TEST(SetThreads, ThatTheSystemDoesNotGiveAreAnErrorAndNoHang) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  EXPECT_EXIT(
      {
        ::alarm(20);
        test::leave_address_space(4U << 20U);
        ::_exit(guarded_main([] {
          tensor::set_threads(64);
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "cannot start a thread for libtorch .*ulimit -v");
}

// After a fork, libtorch rebuilds its pool on the first call; other callers used to find none at that moment.
TEST(SetThreads, OfSixteenThreadsAtOnceAfterAFork) {
  const int before = at::get_num_threads();
  tensor::set_threads(4);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EXIT(
        {
          std::vector<std::thread> team;
          for (int thread = 0; thread < 16; ++thread) {
            team.emplace_back([] { tensor::set_threads_in_turn(1); });
          }
          for (std::thread& each : team) each.join();
          ::_exit(0);
        },
        ::testing::ExitedWithCode(0), "");
  }
  tensor::set_threads(before);
}

/// Sets libtorch's thread count for the object's lifetime.
struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { tensor::set_threads(count); }
  ~Threads() { tensor::set_threads(before); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int before;
};

TEST(ParallelFor, RunsOnAsManyThreadsAsWereSet) {
#if defined(__clang__)
  GTEST_SKIP() << "Clang's OpenMP is not libtorch's";
#endif
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    std::mutex mutex;
    std::set<std::thread::id> found;
    tensor::parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) {
      const std::lock_guard lock(mutex);
      found.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(found.size(), static_cast<std::size_t>(count));
  }
}

TEST(ParallelFor, TakesEachNumberOnceInRangesOfTheGrainAtLeast) {
  const Threads threads(3);
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  tensor::parallel_for(5, 47, 20, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  std::int64_t next = 5;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, next);
    if (end != 47) {
      EXPECT_GE(end - begin, 14);  // libtorch's own: 42 numbers on three threads
    }
    next = end;
  }
  EXPECT_EQ(next, 47);
}

TEST(ParallelFor, GivesTheErrorOfARangeToItsCaller) {
  const Threads threads(2);
  EXPECT_THROW(tensor::parallel_for(0, 2, 1,
                                    [](std::int64_t begin, std::int64_t end) {
                                      if (begin <= 1 && end > 1) throw std::runtime_error("the second");
                                    }),
               std::runtime_error);
  std::atomic<int> calls = 0;
  tensor::parallel_for(3, 3, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

// These tests restart their program with a different OPENBLAS_CORETYPE: OpenBLAS reads it before main.

/// A product that wide and narrow kernels round differently: 700 terms per sum.
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

/// The output of the test PrintsItsKernels in a program started with `setting`.
std::string printed_with(const std::string& setting) {
  return lockstep::testing::run_shell(setting + " " + lockstep::testing::this_program() +
                                      " --gtest_filter=BlasKernels.PrintsItsKernels")
      .text;
}

TEST(BlasKernels, PrintsItsKernels) {
  const auto library = tensor::product_library();
  fmt::print("kernels [{}] digest [{}]\n", library ? library->text() : "none", digest_of_a_product());
}

TEST(BlasKernels, AreThoseThatTheProcessorCanRunWithoutBeingAsked) {
  const auto library = tensor::product_library();
  if (!library || library->core.empty()) GTEST_SKIP() << "this libtorch multiplies without OpenBLAS";
  if (library->by_user) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  EXPECT_EQ(blas::better_core(library->core, blas::cpu_features()), "") << library->text();
}

TEST(BlasKernels, OfAProgramThatChangedThemHaveTheBitsOfOneThatBeganWithThem) {
  const auto library = tensor::product_library();
  if (!library || library->core.empty()) GTEST_SKIP() << "this libtorch multiplies without OpenBLAS";
  // Both are new programs: threads and memory of earlier tests affect how a product is split.
  const std::string changed = printed_with("env -u OPENBLAS_CORETYPE");
  const std::size_t digest = changed.find("digest [");
  ASSERT_NE(digest, std::string::npos) << changed;
  EXPECT_THAT(printed_with("OPENBLAS_CORETYPE=" + library->core),
              HasSubstr(changed.substr(digest, changed.find(']', digest) - digest + 1)))
      << library->text();
}

TEST(BlasKernels, AreThoseOfTheLibraryThatLibtorchWasBuiltWith) {
  const std::string config = at::show_config();
  const auto library = tensor::product_library();
  if (config.find("BLAS_INFO=mkl") != std::string::npos) {
    ASSERT_TRUE(library);
    EXPECT_THAT(library->text(), ::testing::StartsWith("MKL"));
    EXPECT_EQ(library->core, "");
  } else if (library) {
    EXPECT_THAT(library->text(), ::testing::StartsWith("OpenBLAS"));
  }
}

TEST(BlasKernels, OfMklAreNamedByItsVersion) {
  EXPECT_EQ(tensor::mkl_version("  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for"),
            "MKL 2024.2");
  EXPECT_EQ(tensor::mkl_version("  - CPU capability usage: AVX512"), "MKL");
}

TEST(BlasKernels, OfTheUserStay) {
  if (at::hasMKL() || !blas::loaded() || !blas::cpu_features().avx2)
    GTEST_SKIP() << "no OpenBLAS with kernels to choose from";
  EXPECT_THAT(printed_with("OPENBLAS_CORETYPE=Nehalem"), HasSubstr("Nehalem kernels (OPENBLAS_CORETYPE was set)"));
}

TEST(BlasKernels, AreNamedToProgramsThatALauncherStarts) {
  const auto library = blas::loaded();
  if (!library || library->by_user) GTEST_SKIP() << "nothing to choose";
  EXPECT_EQ(blas::core_for_programs(), library->detected.empty() ? "" : library->core);
}

TEST(Random, StateBringsTheSameNumbersBack) {
  seed_all(7);
  const at::Tensor state = random_state();
  const at::Tensor first = at::rand({5});
  EXPECT_FALSE(at::rand({5}).equal(first));
  set_random_state(state);
  EXPECT_TRUE(at::rand({5}).equal(first));
}

TEST(Random, GeneratorGivesPythonsPermutation) {
  // python3: torch.randperm(8, generator=torch.Generator().manual_seed(3)).tolist()
  const at::Tensor order = at::randperm(8, make_generator(3));
  const std::vector<std::int64_t> got(order.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>() + 8);
  EXPECT_EQ(got, (std::vector<std::int64_t>{2, 4, 3, 5, 1, 0, 6, 7}));
}

TEST(Random, StreamsOfOneSeedDiffer) {
  EXPECT_NE(stream_seed(1, 0), stream_seed(1, 1));
  EXPECT_NE(stream_seed(1, 1), stream_seed(2, 1));
  EXPECT_EQ(stream_seed(5, 9), stream_seed(5, 9));
}

TEST(Random, RefusesAForeignState) { EXPECT_THROW(set_random_state(at::ones({3})), DataError); }

}  // namespace threads_test
}  // namespace lockstep
