// SPDX-License-Identifier: Apache-2.0
// Gradients: their norm, sparse ones, and those of ranks that have run out of batches.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"
#include "parallel/reducer/reducer.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace gradients_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

// The gradient norm that reductions compute matches a pass over all gradients bit for bit.

/// Parameters of many blocks, of one, and in channels-last memory; their blocks straddle the boundaries of the ranks'
/// shares.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv", conv);
    register_module("first", first);
    register_module("last", last);
    const at::NoGradGuard no_grad;
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = first(conv(x).flatten(1)).relu();
    return (uses_last ? last(hidden) : hidden).pow(2).mean();
  }
  bool uses_last = true;
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(16, 33, 3)};
  torch::nn::Linear first{132, 150};
  torch::nn::Linear last{150, 3};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(3);
  return Net();
}

at::Tensor input(int replica, int step) {
  auto generator = make_generator(static_cast<std::uint64_t>(100 * replica + step));
  return at::rand({2, 16, 4, 4}, generator);
}

DdpOptions counting(int replicas) {
  return {.replicas = replicas, .first_bucket_bytes = 8000, .bucket_bytes = 50'000, .grad_norm = true};
}

struct Model {
  Model(Job& job, const DdpOptions& options)
      : ddp(make_net(), job, options),
        team(job.group(),
             {.replicas = options.replicas, .on_switch = [this](int local) { ddp.enter_replica(local); }}) {}
  void step(int number, double factor = 1) {
    for (at::Tensor& parameter : ddp.parameters()) parameter.mutable_grad().reset();
    team.run([&](Replica& replica) { (ddp(input(replica.index(), number)) * factor).backward(); });
  }
  DistributedDataParallel<NetImpl> ddp;
  ReplicaTeam team;
};

/// With the first step's buckets and with the rebuilt ones.
void compare_steps(Job& job, int replicas) {
  Model model(job, counting(replicas));
  for (int number = 0; number < 3; ++number) {
    model.step(number);
    const double expected = grad_norm(named_parameters_of(model.ddp));
    ASSERT_GT(expected, 0);
    EXPECT_EQ(model.ddp.grad_norm(), expected) << replicas << " replicas on " << job.world_size();
  }
}

class NormWorlds : public ::testing::TestWithParam<int> {};

TEST_P(NormWorlds, TheCountedNormHasTheBitsOfAPass) {
  run_ranks(current_test(),
            [](Job& job) {
              compare_steps(job, job.world_size());
              compare_steps(job, 5);
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, NormWorlds, ::testing::Values(1, 2, 3, 4));

RANKS_TEST(GradNorm, IsCountedInTheReductionsAndNotReadAfterwards, 2) {
  Model model(job, counting(4));
  model.step(0);
  const double counted = model.ddp.grad_norm();
  for (const auto& item : named_parameters_of(model.ddp)) item.second.mutable_grad().zero_();
  EXPECT_EQ(model.ddp.grad_norm(), counted);
  EXPECT_EQ(grad_norm(named_parameters_of(model.ddp)), 0);
}

RANKS_TEST(GradNorm, OfAccumulatedGradientsIsOfTheirSum, 2) {
  Model model(job, counting(2));
  model.step(0);
  model.step(1);
  {
    const NoSync local = model.ddp.no_sync();
    model.ddp(input(job.rank(), 2)).backward();
  }
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
  model.ddp(input(job.rank(), 3)).backward();
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, CountsAParameterThatKeptTheGradientOfAnEarlierStep, 2) {
  DdpOptions options = counting(2);
  options.find_unused_parameters = true;
  Model model(job, options);
  model.step(0);
  model.ddp.module().uses_last = false;
  const at::Tensor& kept = model.ddp.module().last->weight;
  kept.mutable_grad() = at::full(kept.sizes(), job.rank() + 1.0);  // so that the reduction gives a different value
  model.ddp(input(job.rank(), 1)).backward();
  ASSERT_EQ(kept.grad().max().item<double>(), job.rank() + 1.0);
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
  model.step(2);
  EXPECT_FALSE(model.ddp.module().last->weight.grad().defined());
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, ThatIsNotFiniteIsNotFiniteOnEveryRank, 3) {
  Model model(job, counting(3));
  const bool spoils = job.rank() == 1;
  model.step(0, spoils ? std::numeric_limits<double>::infinity() : 1.0);
  EXPECT_FALSE(std::isfinite(model.ddp.grad_norm()));
  EXPECT_EQ(clip_factor(model.ddp.grad_norm(), 1.0), 1.0);
  model.step(1);
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, OfShardedGradientsIsTheOptimizers, 2) {
  Model model(job, counting(2));
  ZeroRedundancyOptimizer optimizer(model.ddp, job, {}, {.shard_gradients = true});
  model.step(0);
  EXPECT_THROW((void)model.ddp.grad_norm(), UsageError);
  EXPECT_GT(optimizer.grad_norm(), 0);
}

}  // namespace gradients_test

namespace sparse_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Sparse gradients of embeddings, compared bit for bit with dense ones.

constexpr std::int64_t kWords = 23;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool sparse) : words(torch::nn::EmbeddingOptions(kWords, 6).sparse(sparse)) {
    register_module("words", words);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& indices) { return head(words(indices)).square().mean(); }
  torch::nn::Embedding words;
  torch::nn::Linear head{6, 3};
};
TORCH_MODULE(Net);

Net make_net(bool sparse) {
  seed_all(3);
  return Net(sparse);
}

/// Replica 2 has no words at all; replica r has 3 + 4 r, some of them twice.
at::Tensor input(int replica, int part = 0) {
  if (replica == 2) return at::zeros({0}, at::kLong);
  auto generator = make_generator(static_cast<std::uint64_t>(10 * replica + part));
  return at::randint(kWords, {3 + 4 * replica}, generator, at::kLong);
}

at::Tensor loss(const at::Tensor& output) { return output.nan_to_num(); }  // the mean over no words

at::Tensor dense_gradient(int replica, int parts) {
  Net net = make_net(false);
  for (int part = 0; part < parts; ++part) loss(net->forward(input(replica, part))).backward();
  return net->words->weight.grad();
}

class SparseWorlds : public ::testing::TestWithParam<int> {};

TEST_P(SparseWorlds, SparseGradientsHaveTheBitsOfDenseOnes) {
  run_ranks(current_test(),
            [](Job& job) {
              constexpr int kReplicas = 4;
              DistributedDataParallel ddp(make_net(true), job, DdpOptions{.replicas = kReplicas, .bucket_bytes = 64});
              ReplicaTeam team(job.group(),
                               {.replicas = kReplicas, .on_switch = [&](int local) { ddp.enter_replica(local); }});
              for (int parts = 1; parts < 4; ++parts) {
                team.run([&](Replica& replica) {
                  for (int part = 0; part < parts; ++part) {
                    const auto run = [&] { loss(ddp(input(replica.index(), part))).backward(); };
                    if (part + 1 == parts) {
                      run();
                    } else {
                      const NoSync local = ddp.no_sync();
                      run();
                    }
                  }
                });
                std::vector<at::Tensor> dense;
                for (int replica = 0; replica < kReplicas; ++replica) dense.push_back(dense_gradient(replica, parts));
                const at::Tensor gradient = ddp.module().words->weight.grad();
                ASSERT_TRUE(gradient.is_sparse() && gradient.is_coalesced());
                EXPECT_LT(gradient._nnz(), kWords);
                const at::Tensor expected = comm::model(dense, ReduceOp::kMean);
                EXPECT_TRUE(at::allclose(gradient.to_dense(), expected, 1e-5, 1e-7));
                // With several parts, autograd adds a word's rows in a different order.
                if (parts == 1) {
                  EXPECT_TRUE(comm::same_bits(gradient.to_dense(), expected));
                }
                ddp.module().zero_grad(/*set_to_none=*/true);
              }
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, SparseWorlds, ::testing::Values(1, 2, 3, 4));

constexpr int kNoUser = -1;  ///< no rank looks a word up

struct Functional : torch::nn::Module {
  Functional() { weight = register_parameter("table", at::ones({kWords, 2})); }
  at::Tensor forward(const at::Tensor& indices) { return at::embedding(weight, indices, -1, false, /*sparse=*/true); }
  at::Tensor weight;
};

RANKS_TEST(Sparse, ATableWithoutAModuleIsNamedInTheOptions, 2) {
  DistributedDataParallel model(Functional(), job, {.sparse_parameters = {"table"}});
  model(at::tensor({std::int64_t{1} + job.rank()})).sum().backward();
  const at::Tensor gradient = model.module().weight.grad();
  EXPECT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.indices().select(0, 0).numel(), 2);
  EXPECT_TRUE(gradient.values().eq(0.5).all().item<bool>());
}

RANKS_TEST(Sparse, AGradientThatLibtorchHasZeroedCountsAsNone, 2) {
  struct Table : torch::nn::Module {
    Table() {
      register_module("words", words);
      register_module("line", line);
    }
    at::Tensor forward(bool with_words) {
      const at::Tensor y = line(at::ones({1, 2}));
      return with_words ? y + words(at::zeros({1}, at::kLong)) : y;
    }
    torch::nn::Embedding words{torch::nn::EmbeddingOptions(kWords, 2).sparse(true)};
    torch::nn::Linear line{2, 2};
  };
  DistributedDataParallel model(Table(), job, {.find_unused_parameters = true});
  const at::Tensor weight = model.module().words->weight;
  for (const int user : {0, kNoUser, 0}) {
    for (const at::Tensor& each : model.parameters()) {
      if (each.grad().defined()) each.mutable_grad().detach_().zero_();  // as zero_grad() of libtorch 1.13 does
    }
    model(job.rank() == user).sum().backward();
    EXPECT_EQ(weight.grad()._nnz(), user == kNoUser ? 0 : 1);
    EXPECT_EQ(weight.grad().to_dense()[0][0].item<float>(), user == kNoUser ? 0.0F : 0.5F);
  }
}

RANKS_TEST(Sparse, ASparseGradientThatNobodyExpectedSaysWhatToSet, 2) {
  DistributedDataParallel model(Functional(), job);
  try {
    model(at::tensor({std::int64_t{1}})).sum().backward();
    ADD_FAILURE() << "it was taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.hint(), HasSubstr("DdpOptions::sparse_parameters = {\"table\"}"));
  }
}

RANKS_TEST(Sparse, AWrongNameIsAnErrorThatKnowsTheRightOne, 1) {
  try {
    DistributedDataParallel model(Functional(), job, {.sparse_parameters = {"tabel"}});
    ADD_FAILURE() << "it was taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("no trained parameter 'tabel'"), HasSubstr("did you mean 'table'")));
  }
}

TEST(SparseTreeSum, TakesRowsOfOneSideAsTheyAreAndAddsTheOthersInTreeOrder) {
  using parallel::SparseRows;
  const auto rows = [](const std::vector<std::int64_t>& indices, const std::vector<float>& values) {
    return SparseRows{at::tensor(indices), at::tensor(values).view({-1, 1})};
  };
  // tree(0, 3) = (0 + 1) + 2: 1e8 swallows the 1 unless the 1 is added last.
  const SparseRows sum =
      parallel::sparse_tree_sum({rows({2, 5}, {1e8F, 3}), rows({2, 9}, {-1e8F, 4}), rows({2, 5}, {1, 1})}, {0, 3});
  EXPECT_TRUE(sum.indices.equal(at::tensor(std::vector<std::int64_t>{2, 5, 9})));
  EXPECT_TRUE(sum.values.equal(at::tensor(std::vector<float>{1, 4, 4}).view({-1, 1})));
}

}  // namespace sparse_test

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
    ADD_FAILURE() << "no error";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "rank 1 has no more data, but 2 other ranks do");
  }
  EXPECT_EQ(begun, 1);
}

/// Sums a number over all ranks; a rank without data adds 0.
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
  EXPECT_EQ(sums.source(), 2);  // the highest of the ranks that finish last
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
