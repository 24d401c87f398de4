// SPDX-License-Identifier: Apache-2.0
// Sparse gradients of embeddings: compared bit for bit with what dense ones give.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "parallel/reducer/reducer.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace sparse_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

/// Replica 2 has no words at all; the others have as many as their number allows, some of them twice.
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
                // Of several parts autograd adds the rows of a word in another order.
                if (parts == 1) {
                  EXPECT_TRUE(comm::same_bits(gradient.to_dense(), expected));
                }
                ddp.module().zero_grad(/*set_to_none=*/true);
              }
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, SparseWorlds, ::testing::Values(1, 2, 3, 4));

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
    EXPECT_THAT(error.message(), AllOf(HasSubstr("no parameter 'tabel'"), HasSubstr("did you mean 'table'")));
  }
}

TEST(SparseTreeSum, TakesRowsOfOneSideAsTheyAreAndAddsTheOthersInTreeOrder) {
  using parallel::SparseRows;
  const auto rows = [](const std::vector<std::int64_t>& indices, const std::vector<float>& values) {
    return SparseRows{at::tensor(indices), at::tensor(values).view({-1, 1})};
  };
  // tree(0, 3) = (0 + 1) + 2: 1e8 swallows the 1 unless it is added last to what is left.
  const SparseRows sum =
      parallel::sparse_tree_sum({rows({2, 5}, {1e8F, 3}), rows({2, 9}, {-1e8F, 4}), rows({2, 5}, {1, 1})}, {0, 3});
  EXPECT_TRUE(sum.indices.equal(at::tensor(std::vector<std::int64_t>{2, 5, 9})));
  EXPECT_TRUE(sum.values.equal(at::tensor(std::vector<float>{1, 4, 4}).view({-1, 1})));
}

}  // namespace sparse_test
}  // namespace lockstep
