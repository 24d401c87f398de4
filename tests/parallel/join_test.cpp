// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/join.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/random.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace join_test {

using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("fc", fc);
    register_module("norm", norm);
    register_module("words", words);
    register_module("branch", branch);
  }
  at::Tensor forward(const at::Tensor& x, bool with_branch = true) {
    const at::Tensor y = norm(fc(x)).tanh() + words(x.select(1, 0).abs().to(at::kLong).clamp_max(4));
    return (with_branch ? y + branch(x) : y).square().mean();
  }
  torch::nn::Linear fc{3, 4};
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(5, 4).sparse(true)};
  torch::nn::Linear branch{3, 4};
};
TORCH_MODULE(Net);

at::Tensor batch_of(int step, int rank) {
  return at::randn({5, 3}, make_generator(static_cast<std::uint64_t>(100 * step + rank)));
}

/// Rank 0 has no data at all, the last rank the most.
int steps_of(const Job& job) { return 2 * job.rank(); }

bool equal_on_all_ranks(const StateDict& state, Job& job) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value))
      flat.push_back(tensor->detach().to(at::kDouble).flatten());
  }
  std::vector<at::Tensor> all;
  job.group().all_gather(at::cat(flat), all).wait();
  for (const at::Tensor& one : all) {
    if (!one.equal(all.front())) return false;
  }
  return true;
}

void expect_an_equal_end(Job& job, const DdpOptions& options, const std::function<void(int step)>& before = {}) {
  seed_all(static_cast<std::uint64_t>(job.rank()));
  DistributedDataParallel model(Net(), job, options);
  Join join({&model});
  int steps = 0;
  join.run([&] {
    for (int step = 0; step < steps_of(job); ++step, ++steps) {
      if (before) before(step);
      model.module().zero_grad(/*set_to_none=*/true);
      model(batch_of(step, job.rank()), !options.find_unused_parameters || step % 2 == 0).backward();
      const at::NoGradGuard no_grad;
      for (at::Tensor& value : model.parameters()) {
        if (value.grad().defined()) value.add_(value.grad(), -0.1);
      }
    }
  });
  EXPECT_EQ(steps, steps_of(job));
  EXPECT_TRUE(equal_on_all_ranks(model.state_dict(), job));
}

RANKS_TEST(Join, EveryRankUsesAllItsDataAndEndsWithTheLastOnesModel, 3) {
  expect_an_equal_end(job, {.bucket_bytes = 32});
  expect_an_equal_end(job, {.find_unused_parameters = true, .bucket_bytes = 32});
  expect_an_equal_end(job, {.static_graph = true, .gradient_as_bucket_view = false});
  expect_an_equal_end(job, {.exact = false, .hook = hooks::bf16_compress(), .bucket_bytes = 32});
}

RANKS_TEST(Join, AccumulationAndSeveralForwardsAreShadowed, 2) {
  DistributedDataParallel model(Net(), job);
  Join join({&model});
  join.run([&] {
    for (int step = 0; step < steps_of(job); ++step) {
      {
        const auto local = model.no_sync();
        model(batch_of(step, job.rank())).backward();
      }
      (model(batch_of(step, 7)) + model(batch_of(step, 8))).backward();
      model.module().zero_grad(/*set_to_none=*/true);
    }
  });
  EXPECT_TRUE(equal_on_all_ranks(model.state_dict(), job));
}

RANKS_TEST(Join, AMeanOverThoseThatHaveDataIsTheirs, 2) {
  DistributedDataParallel model(torch::nn::Linear(1, 1), job);
  const at::Tensor weight = model.module().weight;
  for (const bool by_initial : {true, false}) {
    Join join({&model}, {.divide_by_initial_world_size = by_initial});
    join.run([&] {
      if (job.is_main()) return;
      model.module().zero_grad();
      model(at::full({1, 1}, 6.0)).sum().backward();
      EXPECT_EQ(weight.grad().item<float>(), by_initial ? 3 : 6);
    });
    EXPECT_EQ(weight.grad().item<float>(), by_initial ? 3 : 6);  // on the rank without data too
  }
}

RANKS_TEST(Join, SparseGradientsAndHooksAreDividedByThoseThatHaveDataToo, 2) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(3, 1).sparse(true));
  DistributedDataParallel sparse(table, job);
  torch::nn::Linear line(1, 1);
  DistributedDataParallel hooked(line, job, {.hook = hooks::bf16_compress()});
  Join join({&sparse, &hooked}, {.divide_by_initial_world_size = false});
  join.run([&] {
    if (job.is_main()) return;
    (sparse(at::full({1}, 2, at::kLong)).sum() * 6).backward();
    hooked(at::full({1, 1}, 6.0)).sum().backward();
  });
  EXPECT_EQ(table->weight.grad().to_dense()[2].item<float>(), 6);
  EXPECT_EQ(line->weight.grad().item<float>(), 6);
}

RANKS_TEST(Join, TheOptimizersStateOfTheLastIsEverybodys, 3) {
  DistributedDataParallel model(torch::nn::Linear(3, 2), job);
  AdamW optimizer(model, {.lr = 1e-2});
  JoinedState state(optimizer, job.group());
  Join join({&model, &state});
  for (int epoch = 0; epoch < 2; ++epoch) {
    join.run([&] {
      for (int step = 0; step < steps_of(job); ++step) {
        model(batch_of(step, job.rank())).square().mean().backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    });
    EXPECT_EQ(optimizer.steps(), 4 * (epoch + 1));
    EXPECT_TRUE(equal_on_all_ranks(optimizer.state_dict(), job));
    EXPECT_TRUE(equal_on_all_ranks(model.state_dict(), job));
  }
}

RANKS_TEST(Join, EarlyTerminationIsAnErrorOnEveryRank, 3) {
  DistributedDataParallel model(Net(), job);
  Join join({&model}, {.throw_on_early_termination = true});
  int begun = 0;
  try {
    join.run([&] {
      for (int step = 0; step < (job.rank() == 1 ? 1 : 3); ++step, ++begun) model(batch_of(step, 0)).backward();
    });
    ADD_FAILURE() << "nobody noticed";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "rank 1 has no more data, 2 other ranks have");
  }
  EXPECT_EQ(begun, 1);
}

/// Sums a number over all ranks; one without data brings 0.
class Sums : public Joinable {
 public:
  explicit Sums(ProcessGroup& group) : group_(group) {}
  ProcessGroup& join_group() override { return group_; }
  void set_join(std::optional<JoinHandle> handle) override { join_ = handle; }
  void shadow(int action, const JoinStatus& status) override {
    EXPECT_EQ(action, 5);
    EXPECT_EQ(status.active, group_.world_size() - 1);
    group_.all_reduce(at::full({1}, 0.0)).wait();
  }
  void after_join(int source) override { source_ = source; }
  double add(double value) {
    if (join_) (void)join_->announce(5);
    const at::Tensor sum = at::full({1}, value);
    group_.all_reduce(sum).wait();
    return sum.item<double>();
  }
  [[nodiscard]] int source() const { return source_; }

 private:
  ProcessGroup& group_;
  std::optional<JoinHandle> join_;
  int source_ = -1;
};

RANKS_TEST(Join, TakesAClassOfOnesOwn, 3) {
  Sums sums(job.group());
  Join join({&sums});
  join.run([&] {
    if (job.rank() == 1) return;
    EXPECT_EQ(sums.add(job.rank() + 1), 4);
  });
  EXPECT_EQ(sums.source(), 2);  // the highest of the last
}

RANKS_TEST(Join, WorksAlone, 1) { expect_an_equal_end(job, {}, {}); }

RANKS_TEST(Join, RefusesSeveralReplicasOnARank, 2) {
  DistributedDataParallel model(torch::nn::Linear(1, 1), job, {.replicas = 3});
  try {
    Join join({&model});
    ADD_FAILURE() << "it began";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("one replica on each rank: there are 3 on 2"));
  }
}

}  // namespace join_test
}  // namespace lockstep
