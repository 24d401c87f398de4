// SPDX-License-Identifier: Apache-2.0
// Out of memory: the messages, and the search for the largest batch.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <set>
#include <stdexcept>
#include <vector>

#include "lockstep/optim/adamw.h"
#include "support/alone.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/setup/batch_search.h"
#include "train/step/out_of_memory.h"

namespace lockstep::train {
namespace out_of_memory_test {

struct Search {
  std::int64_t found = 0;
  std::vector<std::int64_t> tried;
};

/// A search with memory for `limit` samples.
Search search(std::int64_t most, std::int64_t limit) {
  Search search;
  search.found = largest_batch(most, [&](std::int64_t batch) {
    search.tried.push_back(batch);
    return batch <= limit;
  });
  return search;
}

/// The expected result, found by counting up.
std::int64_t expected(std::int64_t most, std::int64_t limit) {
  if (limit >= most) return most;
  return limit < 8 ? limit : limit / 8 * 8;
}

TEST(BatchSearch, FindsTheLargestForEveryLimitAndEveryDataSet) {
  for (std::int64_t most = 1; most <= 150; ++most) {
    for (std::int64_t limit = 0; limit <= 160; ++limit) {
      ASSERT_EQ(search(most, limit).found, expected(most, limit)) << "most " << most << ", limit " << limit;
    }
  }
}

TEST(BatchSearch, FindsTheLargestAmongMany) {
  for (const std::int64_t limit : {511, 512, 513, 1000, 4095, 40'000, 65'535, 65'536, 1'000'000}) {
    EXPECT_EQ(search(65'536, limit).found, expected(65'536, limit)) << limit;
  }
}

TEST(BatchSearch, WhereNothingFitsItIsZeroAfterAHandfulOfTrials) {
  const Search nothing = search(65'536, 0);
  EXPECT_EQ(nothing.found, 0);
  EXPECT_EQ(nothing.tried, (std::vector<std::int64_t>{8, 4, 2, 1}));
}

TEST(BatchSearch, WhereEverythingFitsItIsTheWholeDataSet) {
  const Search all = search(100, 1'000'000);
  EXPECT_EQ(all.found, 100);
  EXPECT_EQ(all.tried, (std::vector<std::int64_t>{8, 16, 32, 64, 100}));
}

TEST(BatchSearch, NoTrialIsRepeatedNorBeyondTheMostNorTwiceWhatFits) {
  for (const std::int64_t most : {1, 7, 8, 9, 1000, 65'536}) {
    for (const std::int64_t limit : {0, 1, 7, 8, 20, 333, 5000, 70'000}) {
      const Search one = search(most, limit);
      EXPECT_EQ(std::set(one.tried.begin(), one.tried.end()).size(), one.tried.size());
      EXPECT_LE(*std::max_element(one.tried.begin(), one.tried.end()),
                std::min(most, std::max<std::int64_t>(8, 2 * limit)));
      EXPECT_LE(static_cast<double>(one.tried.size()), 2 * std::log2(std::max(1.0, static_cast<double>(most) / 8)) + 4);
    }
  }
}

TEST(BatchSearch, WithoutSamplesNothingIsTried) {
  EXPECT_EQ(search(0, 100).found, 0);
  EXPECT_TRUE(search(0, 100).tried.empty());
}

}  // namespace out_of_memory_test
}  // namespace lockstep::train

#ifdef __SANITIZE_ADDRESS__
// These tests request more than 1 TiB of memory. The C library simply fails such a request, but AddressSanitizer ends
// the program unless the options returned by this function, which it reads before ASAN_OPTIONS, allow the failure.
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options();  // NOLINT(bugprone-reserved-identifier)
const char* __asan_default_options() { return "allocator_may_return_null=1"; }
}
#endif

namespace lockstep {
namespace out_of_memory_test {

using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyNet;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using train::OutOfMemory;

constexpr std::int64_t kMoreThanThereIs = std::int64_t{1} << 46;  // elements: no machine has 256 TiB

/// A task that requests too much memory in training or in evaluation, from the n-th forward pass on.
class GreedyTask final : public Task {
 public:
  GreedyTask(bool training, int from) : training_(training), from_(from) {}

  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    if (model.is_training() == training_ && ++forwards_ >= from_) (void)at::empty({kMoreThanThereIs});
    return noisy_.forward(model, batch);
  }

  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override { return noisy_.make_dataset(folder); }
  std::shared_ptr<torch::nn::Module> make_model() override { return noisy_.make_model(); }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return noisy_.loss(output, batch); }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override { return noisy_.count(output, batch); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override { return noisy_.metrics(counts); }
  [[nodiscard]] std::string model_name() const override { return noisy_.model_name(); }

 private:
  NoisyTask noisy_;
  bool training_;
  int from_;
  int forwards_ = 0;
};

ResourceError error_of(GreedyTask task, std::int64_t replicas) {
  const TempDir folder;
  TrainConfig config = noisy_config();
  config.replicas = replicas;
  try {
    Trainer(alone(), task, config, {.recipe = "noisy", .run_dir = folder / "run"}).fit();
  } catch (const ResourceError& error) {
    return error;
  }
  return ResourceError("no error");
}

TEST(OutOfMemory, InTrainingNamesStepBatchAndTensorsAndProposesASmallerBatch) {
  for (const std::int64_t replicas : {1, 4}) {  // several replicas run as threads
    // With two batches per step, a replica's fifth forward pass is in its third step.
    const ResourceError error = error_of({true, static_cast<int>(4 * replicas + 1)}, replicas);
    EXPECT_THAT(error.message(), HasSubstr("out of memory in step 3 (batch_size 3): "));
    EXPECT_THAT(error.message(), HasSubstr("can't allocate memory"));
    EXPECT_THAT(error.message(), HasSubstr("first.weight (weight) 128 B"));
    EXPECT_THAT(error.message(), HasSubstr("first.weight.exp_avg (optimizer) 128 B"));
    EXPECT_THAT(error.message(), Not(HasSubstr("Exception raised from")));
    EXPECT_THAT(error.hint(), HasSubstr("TrainConfig::batch_size = 2 TrainConfig::accumulate_steps = 4"));
  }
}

TEST(OutOfMemory, InEvaluationSaysSo) {
  const ResourceError error = error_of({false, 1}, 1);
  EXPECT_THAT(error.message(), HasSubstr("out of memory in the evaluation after step "));
}

TEST(OutOfMemory, IsWhatTheAllocatorsThrowAndNothingElse) {
  EXPECT_TRUE(train::is_out_of_memory(std::bad_alloc()));
  try {
    (void)at::empty({kMoreThanThereIs});
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_TRUE(train::is_out_of_memory(error)) << error.what();
  }
  EXPECT_TRUE(train::is_out_of_memory(c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "CUDA out of memory")));
  for (const char* text :
       {"CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"}) {
    EXPECT_TRUE(train::is_out_of_memory(c10::Error({__func__, __FILE__, __LINE__}, text))) << text;
  }
  EXPECT_FALSE(train::is_out_of_memory(c10::Error({__func__, __FILE__, __LINE__}, "sizes do not match")));
  EXPECT_FALSE(train::is_out_of_memory(std::runtime_error("can't allocate memory")));
}

TEST(OutOfMemory, NamesTheFiveLargestTensorsLargestFirst) {
  OutOfMemory what{.when = "step 7", .cause = "wanted 3 GB\nException raised from", .batch_size = 8};
  what.use = {.peak = 5'000'000'000, .reserved = 6'000'000'000};
  for (const std::int64_t bytes : {10, 40, 20, 60, 50, 30})
    what.largest.push_back({"t" + std::to_string(bytes), bytes});
  const ResourceError error = train::out_of_memory_error(what);
  EXPECT_EQ(error.message(),
            "out of memory in step 7 (batch_size 8): wanted 3 GB\n"
            "  peak      5.0 GB in tensors, 6.0 GB reserved\n"
            "  largest   t60 60 B, t50 50 B, t40 40 B, t30 30 B, t20 20 B\n"
            "  together  210 B");
  EXPECT_THAT(error.hint(), HasSubstr("batch_size=4 --set accumulate_steps=2"));
}

TEST(OutOfMemory, ProposesNoSmallerBatchThanOneSample) {
  const ResourceError error = train::out_of_memory_error({.when = "step 1", .cause = "", .batch_size = 1});
  EXPECT_THAT(error.hint(), Not(HasSubstr("batch_size")));
}

TEST(OutOfMemory, NamesNoBatchWhereNoneIsKnown) {
  const ResourceError error = train::out_of_memory_error({.when = "setup", .cause = "wanted 3 GB", .setting_up = true});
  EXPECT_THAT(error.message(), HasSubstr("out of memory in setup: wanted 3 GB"));
}

TEST(OutOfMemory, BeforeTheFirstBatchASmallerOneIsNoAdvice) {
  const ResourceError error =
      train::out_of_memory_error({.when = "setup", .cause = "wanted 3 GB", .setting_up = true, .batch_size = 64});
  EXPECT_THAT(error.hint(), AllOf(HasSubstr("a smaller one would not help"), HasSubstr("lockstep inspect gpu"),
                                  HasSubstr("ema.decay=0"), Not(HasSubstr("batch_size="))));
}

TEST(OutOfMemory, KnowsWeightsGradientsBuffersAndState) {
  NoisyNet net;
  AdamW optimizer(NamedTensors{{"first.weight", net.named_parameters()["first.weight"]}});
  net.forward(at::ones({4, 2})).sum().backward();
  std::vector<std::string> names;
  for (const train::Holder& holder : train::holders(net, optimizer)) names.push_back(holder.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"first.weight (weight)", "first.weight (gradient)",
                                              "first.weight.exp_avg (optimizer)", "level (buffer)"}));
}

}  // namespace out_of_memory_test
}  // namespace lockstep
