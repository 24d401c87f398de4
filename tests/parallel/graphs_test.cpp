// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel over graphs other than one forward and one backward through every parameter: unused
// parameters, recomputed segments, several forwards, and backwards that bypass the wrapper.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/random.h"
#include "parallel/reducer/reducer.h"
#include "support/alone.h"
#include "support/recomputed.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace graphs_test {

using ::lockstep::testing::alone;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// `fc` is used `repeats` times, recomputed or not; `branch` on request; `never` never.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("fc", fc);
    register_module("head", head);
    register_module("branch", branch);
    register_module("never", never);
  }
  at::Tensor forward(at::Tensor x, bool with_branch = false) {
    for (int i = 0; i < repeats; ++i) x = recompute ? testing::recomputed(segment, x) : segment(x);
    const at::Tensor y = head(x);
    return with_branch ? y + branch(x) : y;
  }

  int repeats = 1;
  bool recompute = false;
  testing::Segment segment = [this](const at::Tensor& x) { return fc(x).tanh(); };
  torch::nn::Linear fc{3, 3};
  torch::nn::Linear head{3, 2};
  torch::nn::Linear branch{3, 2};
  torch::nn::Linear never{2, 5};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(1);
  return Net();
}

at::Tensor batch_of(int rank) {
  return at::randn({5, 3}, make_generator(static_cast<std::uint64_t>(rank) + 50)).requires_grad_();
}

/// The mean gradient over `world` ranks, each computing its loss on a separate net; undefined if no rank has one.
std::map<std::string, at::Tensor> expected_gradients(int world,
                                                     const std::function<void(NetImpl&, int rank)>& backward) {
  std::map<std::string, at::Tensor> means;
  for (int rank = 0; rank < world; ++rank) {
    Net net = make_net();
    backward(*net, rank);
    for (const auto& [name, value] : named_parameters_of(net)) {
      at::Tensor& mean = means[name];
      if (!value.grad().defined()) continue;
      mean = mean.defined() ? mean + value.grad() / world : value.grad() / world;
    }
  }
  return means;
}

void expect_gradients(NetImpl& net, const std::map<std::string, at::Tensor>& expected) {
  for (const auto& [name, value] : named_parameters_of(net)) {
    const at::Tensor& mean = expected.at(name);
    ASSERT_EQ(value.grad().defined(), mean.defined()) << name;
    if (!mean.defined()) continue;
    EXPECT_TRUE(at::allclose(value.grad(), mean, 1e-5, 1e-6)) << name;
  }
}

template <class Action>
std::string usage_error(const Action& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.message() + " / " + error.hint();
  }
  return "";
}

const DdpOptions kFindsUnused{.find_unused_parameters = true, .first_bucket_bytes = 8, .bucket_bytes = 40};
const DdpOptions kStatic{.static_graph = true, .first_bucket_bytes = 8, .bucket_bytes = 40};

RANKS_TEST(Graphs, ABranchOfOneRankOnlyGetsTheMeanWithZeroAndWhatNobodyUsesStaysAsItWas, 3) {
  DistributedDataParallel model(make_net(), job, kFindsUnused);
  const auto user = [](int step, int rank) { return step == 2 || (step == 0 && rank == 1); };
  for (int step = 0; step < 3; ++step) {
    const auto backward = [&](auto& net, int rank) { net.forward(batch_of(rank), user(step, rank)).sum().backward(); };
    backward(model, job.rank());
    expect_gradients(model.module(), expected_gradients(3, backward));
    model.module().zero_grad(/*set_to_none=*/true);
  }
  const at::Tensor own = at::full({5}, 7.0);
  model.module().never->bias.mutable_grad() = own;
  model(batch_of(job.rank())).sum().backward();
  EXPECT_TRUE(model.module().never->bias.grad().is_same(own) && own.equal(at::full({5}, 7.0)));
}

RANKS_TEST(Graphs, AnUnusedParameterIsReadyBeforeTheFirstGradient, 2) {
  DistributedDataParallel model(make_net(), job, kFindsUnused);
  std::size_t halfway = 0;
  const at::Tensor output = model(batch_of(job.rank()));
  (void)output.register_hook(
      [&](const at::TensorBase&) { halfway = model.reducer().step().gradients().buckets().started(); });
  std::size_t then = 0;
  (void)model.module().fc->weight.register_hook(
      [&](const at::TensorBase&) { then = model.reducer().step().gradients().buckets().started(); });
  output.sum().backward();
  EXPECT_EQ(halfway, 0U);
  EXPECT_GE(then, 2U);  // those of never
}

RANKS_TEST(Graphs, AnOutputThatTheLossLeavesOutCountsAsUnused, 2) {
  struct Two : NetImpl {
    std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {head(fc(x)), branch(x)}; }
  };
  DistributedDataParallel model(std::make_shared<Two>(), job, kFindsUnused);
  for (int step = 0; step < 2; ++step) {
    model(batch_of(job.rank())).first.sum().backward();
    EXPECT_TRUE(model.module().head->bias.grad().equal(at::full({2}, 5.0)));
    EXPECT_FALSE(model.module().branch->bias.grad().defined());
    model.module().zero_grad(true);
  }
}

RANKS_TEST(Graphs, FindUnusedNamesAParameterThatIsUsedOutsideOfForward, 2) {
  DistributedDataParallel model(make_net(), job, kFindsUnused);
  const auto backward = [&] { (model(batch_of(0)).sum() + model.module().branch->bias.sum()).backward(); };
  EXPECT_THAT(usage_error(backward), AllOf(HasSubstr("'branch.bias' got a gradient, but no output of forward"),
                                           HasSubstr("use it only inside forward")));
}

struct Opaque {
  at::Tensor value;
};
struct Transparent {
  at::Tensor value;
  template <class Visit>
  void visit_tensors(const Visit& visit) const {
    visit(value);
  }
};
template <class Output>
struct Returns : NetImpl {
  Output forward(const at::Tensor& x) { return {NetImpl::forward(x)}; }
};

TEST(Graphs, FindUnusedLooksIntoResultsAndRefusesThoseItCannotSee) {
  Job job = alone();
  DistributedDataParallel opaque(std::make_shared<Returns<Opaque>>(), job, kFindsUnused);
  EXPECT_THAT(usage_error([&] { (void)opaque(batch_of(0)); }), HasSubstr("cannot inspect what forward returns"));
  DistributedDataParallel seen(std::make_shared<Returns<Transparent>>(), job, kFindsUnused);
  seen(batch_of(0)).value.sum().backward();
}

TEST(VisitTensors, FindsThemInNestedContainers) {
  const at::Tensor a = at::ones({1});
  int count = 0;
  const auto visit = [&](const at::Tensor& tensor) { count += tensor.is_same(a) ? 1 : 100; };
  std::map<std::string, std::vector<std::optional<at::Tensor>>> nested{{"x", {a, std::nullopt, a}}, {"y", {}}};
  EXPECT_TRUE(parallel::visit_tensors(std::tuple(nested, std::pair(a, 3.0), std::make_shared<at::Tensor>(a)), visit));
  EXPECT_EQ(count, 4);
  EXPECT_FALSE(parallel::visit_tensors(std::pair(a, Opaque{a}), visit));
}

RANKS_TEST(Graphs, AStaticGraphMayUseALayerInSeveralRecomputedSegmentsAndLeaveSomeOut, 2) {
  DistributedDataParallel model(make_net(), job, kStatic);
  const auto backward = [&](auto& net, NetImpl& inner, int rank) {
    inner.repeats = 2;
    inner.recompute = true;
    net.forward(batch_of(rank)).square().mean().backward();
  };
  const auto expected = expected_gradients(2, [&](NetImpl& net, int rank) { backward(net, net, rank); });
  for (int step = 0; step < 3; ++step) {
    backward(model, model.module(), job.rank());
    expect_gradients(model.module(), expected);
    model.module().zero_grad(/*set_to_none=*/step == 0);
  }
}

RANKS_TEST(Graphs, ARecomputedSegmentNeedsNoOption, 2) {
  DistributedDataParallel model(make_net(), job, {.first_bucket_bytes = 8, .bucket_bytes = 40});
  const auto backward = [&](auto& net, NetImpl& inner, int rank) {
    inner.recompute = true;
    const at::Tensor y = net.forward(batch_of(rank), true);
    (y.square().mean() + inner.never(y).sum()).backward();
  };
  const auto expected = expected_gradients(2, [&](NetImpl& net, int rank) { backward(net, net, rank); });
  for (int step = 0; step < 3; ++step) {
    backward(model, model.module(), job.rank());
    expect_gradients(model.module(), expected);
    model.module().zero_grad();
  }
}

RANKS_TEST(Graphs, TwoGradientsInOneBackwardPointToStaticGraph, 2) {
  DistributedDataParallel model(make_net(), job);
  model.module().repeats = 2;
  model.module().recompute = true;
  EXPECT_THAT(usage_error([&] { model(batch_of(0)).sum().backward(); }),
              AllOf(HasSubstr("got two gradients in one backward"), HasSubstr("DdpOptions::static_graph")));
}

RANKS_TEST(Graphs, AStaticGraphThatChangesIsAnErrorThatNamesTheParameter, 2) {
  DistributedDataParallel model(make_net(), job, kStatic);
  model(batch_of(0)).sum().backward();
  const std::string more = usage_error([&] { model(batch_of(0), /*with_branch=*/true).sum().backward(); });
  EXPECT_THAT(more, AllOf(HasSubstr("the graph has changed: parameter 'branch."), HasSubstr("and 0 in the first")));
}

TEST(Graphs, AStaticGraphThatLosesAParameterIsAnErrorThatNamesIt) {
  Job job = alone();
  DistributedDataParallel model(make_net(), job, kStatic);
  model(batch_of(0), /*with_branch=*/true).sum().backward();
  EXPECT_THAT(usage_error([&] { model(batch_of(0)).sum().backward(); }),
              HasSubstr("parameter 'branch.weight' got 0 gradients in this backward and 1 in the first step's"));
}

struct Used : NetImpl {  // every parameter
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = NetImpl::forward(x, true);
    return y.sum() + never(y).sum();
  }
};

RANKS_TEST(Graphs, SeveralForwardsBeforeOneBackwardAddUp, 2) {
  seed_all(1);
  DistributedDataParallel model(std::make_shared<Used>(), job);
  const auto run = [&](auto&& net) { (net(batch_of(job.rank())) + net(batch_of(job.rank() + 5))).backward(); };
  run(model);
  const at::Tensor together = model.module().head->weight.grad().clone();
  model.module().zero_grad();
  for (const int shift : {0, 5}) model(batch_of(job.rank() + shift)).backward();
  EXPECT_TRUE(at::allclose(model.module().head->weight.grad(), together));
  model.module().zero_grad();
  const at::Tensor first = model(batch_of(job.rank()));
  const at::Tensor second = model(batch_of(job.rank() + 5));
  first.backward();
  second.backward();
  EXPECT_TRUE(at::allclose(model.module().head->weight.grad(), together));
}

RANKS_TEST(Graphs, SeveralForwardsMayGoThroughBatchNormBeforeOneBackward, 2) {
  DistributedDataParallel model(torch::nn::BatchNorm1d(3), job);
  const auto loss = [&](int shift) { return model(batch_of(job.rank() + shift)).exp().sum(); };
  for (const int shift : {0, 5}) loss(shift).backward();
  const at::Tensor apart = model.module().weight.grad().clone();
  model.module().zero_grad();
  const at::Tensor first = loss(0);
  const at::Tensor second = loss(5);
  (first + second).backward();
  EXPECT_TRUE(at::allclose(model.module().weight.grad(), apart));
  EXPECT_EQ(model.module().num_batches_tracked.item<std::int64_t>(), 4);
}

RANKS_TEST(Graphs, OneForwardOutsideOfNoSyncMakesTheBackwardOfSeveralASyncedOne, 2) {
  seed_all(1);
  DistributedDataParallel model(std::make_shared<Used>(), job);
  at::Tensor local;
  {
    const auto no_sync = model.no_sync();
    local = model(batch_of(job.rank()));
  }
  (local + model(batch_of(job.rank() + 5))).backward();
  std::vector<at::Tensor> all;
  job.group().all_gather(model.module().fc->weight.grad(), all).wait();
  EXPECT_TRUE(all[0].equal(all[1]));
}

RANKS_TEST(Graphs, GradientsOfInputsAndOfGradientsAreTaken, 2) {
  seed_all(1);
  DistributedDataParallel model(std::make_shared<Used>(), job);
  for (int step = 0; step < 2; ++step) {
    const at::Tensor x = batch_of(job.rank());
    const at::Tensor loss = model(x).square();
    // autograd::grad() reduces nothing; the penalty's backward goes through the graph of its result.
    const at::Tensor slope = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
    (loss + slope.square().sum()).backward();
    std::vector<at::Tensor> all;
    job.group().all_gather(model.module().fc->weight.grad(), all).wait();
    EXPECT_TRUE(all[0].equal(all[1]));
    EXPECT_EQ(model.module().fc->weight.grad().data_ptr(),
              model.reducer().step().gradients().buckets().view(0).data_ptr());
    model.module().zero_grad();
  }
}

void go_round(Job& job) {
  DistributedDataParallel model(make_net(), job);
  const std::string error = usage_error([&] { model.module().forward(batch_of(0)).sum().backward(); });
  EXPECT_THAT(error, AllOf(HasSubstr("did not come through a forward of this DistributedDataParallel"),
                           HasSubstr("model(x), not model.module()(x)")));
}

RANKS_TEST(Graphs, ABackwardRoundTheWrapperIsAnErrorThatNamesTheCall, 2) { go_round(job); }

TEST(Graphs, ABackwardRoundTheWrapperIsTheSameErrorInAWorldOfOne) {
  Job job = alone();
  go_round(job);
}

RANKS_TEST(Graphs, TheInnerModuleMayBeUsedWithoutGradients, 2) {
  seed_all(1);
  DistributedDataParallel model(std::make_shared<Used>(), job);
  {
    const at::NoGradGuard no_grad;
    if (job.is_main()) (void)model.module().forward(batch_of(0));
  }
  model(batch_of(0)).backward();
}

RANKS_TEST(Graphs, OwnGradientsStayTheUsersTensors, 2) {
  seed_all(1);
  DistributedDataParallel model(std::make_shared<Used>(), job, {.gradient_as_bucket_view = false});
  const at::Tensor weight = model.module().head->weight;
  weight.mutable_grad() = at::zeros({2, 3});
  const at::Tensor own = weight.grad();
  for (int step = 0; step < 2; ++step) {
    model(batch_of(job.rank())).backward();
    EXPECT_TRUE(weight.grad().is_same(own));
    std::vector<at::Tensor> all;
    job.group().all_gather(own, all).wait();
    EXPECT_TRUE(all[0].equal(all[1]));
    EXPECT_GT(own.abs().sum().item<double>(), 0);
  }
}

RANKS_TEST(Graphs, AWrapperKeepsTheJobThatItWasMadeWith, 2) {
  const int rank = job.rank();
  const auto wrap = [&] {
    Job last = std::exchange(job, Job());
    return DistributedDataParallel(torch::nn::Linear(3, 2), last);
  };
  auto model = wrap();
  model(at::full({1, 3}, static_cast<double>(rank))).sum().backward();
  EXPECT_TRUE(model.module().weight.grad().eq(0.5).all().item<bool>());
}

// A GAN in which each of two networks is frozen while the other one learns.

void freeze(torch::nn::Module& net, bool frozen) {
  for (at::Tensor& parameter : net.parameters()) parameter.requires_grad_(!frozen);
}

void descend(torch::nn::Module& net, double rate) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net.parameters()) parameter.sub_(parameter.grad().mul(rate));
  net.zero_grad();
}

struct Gan {
  torch::nn::Linear generator{3, 3};
  torch::nn::Linear critic{3, 1};
  /// Trains the critic, then the generator. `backward` runs the backward of a loss for an input on all ranks.
  template <class Backward>
  void step(const Backward& backward, double rate) {
    freeze(*generator, true);
    backward([](auto& fake, auto& judge, const at::Tensor& x) { return judge(fake(x)).mean() - judge(x).mean(); });
    descend(*critic, rate);
    freeze(*generator, false);
    freeze(*critic, true);
    backward([](auto& fake, auto& judge, const at::Tensor& x) { return -judge(fake(x)).mean(); });
    descend(*generator, rate);
    freeze(*critic, false);
  }
};

RANKS_TEST(Graphs, TheNetworksOfAGanAreFrozenInTurnsAndTrainAsInOneProcess, 2) {
  seed_all(1);
  Gan wrapped;
  seed_all(1);
  Gan plain;
  DistributedDataParallel generator(wrapped.generator, job);
  DistributedDataParallel critic(wrapped.critic, job);
  for (int step = 0; step < 3; ++step) {
    const auto input = [&](int rank) { return batch_of(10 * step + rank).detach(); };
    wrapped.step([&](const auto& loss) { loss(generator, critic, input(job.rank())).backward(); }, 0.5);
    const auto backward_of_all = [&](const auto& loss) {
      for (const int rank : {0, 1}) loss(plain.generator, plain.critic, input(rank)).backward();
    };
    plain.step(backward_of_all, 0.25);  // the sum of two gradients instead of their mean
    EXPECT_TRUE(wrapped.generator->weight.equal(plain.generator->weight)) << step;
    EXPECT_TRUE(wrapped.critic->weight.equal(plain.critic->weight)) << step;
  }
}

/// A network with a head of its own over a trunk that other networks use too.
struct HeadedImpl : torch::nn::Module {
  HeadedImpl(const torch::nn::Linear& common, std::int64_t outputs) : trunk(common), head(3, outputs) {
    register_module("trunk", trunk);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(trunk(x).tanh()).sum(); }
  torch::nn::Linear trunk;
  torch::nn::Linear head;
};
TORCH_MODULE(Headed);

struct ActorAndCritic {
  torch::nn::Linear trunk{3, 3};
  Headed actor{trunk, 2};
  Headed critic{trunk, 1};
};

RANKS_TEST(Graphs, TwoWrappersOfOneTrunkTrainInTurnsAsInOneProcess, 2) {
  seed_all(1);
  ActorAndCritic wrapped;
  seed_all(1);
  ActorAndCritic plain;
  DistributedDataParallel actor(wrapped.actor, job);
  DistributedDataParallel critic(wrapped.critic, job);
  for (int step = 0; step < 3; ++step) {
    const auto input = [&](int rank) { return batch_of(10 * step + rank).detach(); };
    const auto learn = [&](auto& model, HeadedImpl& inner, HeadedImpl& alone) {
      model(input(job.rank())).backward();
      descend(inner, 0.5);
      for (const int rank : {0, 1}) alone.forward(input(rank)).backward();
      descend(alone, 0.25);  // the sum of two gradients instead of their mean
    };
    learn(actor, *wrapped.actor, *plain.actor);
    learn(critic, *wrapped.critic, *plain.critic);
    EXPECT_TRUE(wrapped.trunk->weight.equal(plain.trunk->weight)) << step;
    EXPECT_TRUE(wrapped.critic->head->weight.equal(plain.critic->head->weight)) << step;
  }
}

RANKS_TEST(Graphs, OneBackwardThroughTwoWrappersOfOneParameterIsAnErrorThatNamesIt, 2) {
  seed_all(1);
  ActorAndCritic nets;
  DistributedDataParallel actor(nets.actor, job);
  DistributedDataParallel critic(nets.critic, job);
  EXPECT_THAT(usage_error([&] { (actor(batch_of(0)) + critic(batch_of(0))).backward(); }),
              AllOf(HasSubstr("parameter 'trunk."), HasSubstr("wrap one module that contains both")));
}

RANKS_TEST(Graphs, AModelMayBeWrappedAgainWhileTheOldWrapperLives, 2) {
  seed_all(1);
  torch::nn::Linear net(3, 2);
  DistributedDataParallel before(net, job);
  before(batch_of(job.rank())).sum().backward();
  const at::Tensor expected = net->weight.grad().clone();
  DistributedDataParallel after(net, job);
  net->zero_grad();
  after(batch_of(job.rank())).sum().backward();
  EXPECT_TRUE(net->weight.grad().equal(expected));
}

TEST(Graphs, ABackwardOfParametersAloneIsAnErrorThatSaysWhereARegulariserBelongs) {
  Job job = alone();
  DistributedDataParallel model(torch::nn::Linear(3, 2), job);
  model(batch_of(0)).sum().backward();
  EXPECT_THAT(usage_error([&] { model.module().weight.square().sum().backward(); }),
              HasSubstr("add a regulariser to the loss and call backward once"));
}

TEST(Graphs, AComplexParameterIsAnErrorThatNamesItWhenItIsWrapped) {
  struct Phase : torch::nn::Module {
    Phase() { register_parameter("phase", at::ones({8}, at::kComplexFloat)); }
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  Job job = alone();
  EXPECT_THAT(usage_error([&] { DistributedDataParallel(Phase(), job); }),
              HasSubstr("parameter 'phase' is ComplexFloat"));
}

RANKS_TEST(Options, InitSyncOffLeavesEveryRanksWeights, 2) {
  seed_all(static_cast<std::uint64_t>(job.rank()));
  Net net;
  const at::Tensor before = net->fc->weight.detach().clone();
  DistributedDataParallel model(net, job, {.init_sync = false});
  EXPECT_TRUE(net->fc->weight.equal(before));
}

RANKS_TEST(Graphs, AGivenBucketSizeHoldsForTheFirstBucketToo, 2) {
  const auto first_size = [&](const DdpOptions& options) {
    DistributedDataParallel model(torch::nn::Linear(600, 600), job, options);
    return model.reducer().step().gradients().buckets().all().size();
  };
  EXPECT_EQ(first_size({.bucket_bytes = std::int64_t{2} << 20}), 1U);
  EXPECT_EQ(first_size({.first_bucket_bytes = 1024, .bucket_bytes = std::int64_t{2} << 20}), 2U);
}

}  // namespace graphs_test
}  // namespace lockstep
