// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel: its results, errors and comparisons, at every world size.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/sharing.h"
#include "parallel/reducer/reducer.h"
#include "support/recomputed.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace distributed_data_parallel_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Strides = std::vector<std::int64_t>;

/// Layers are used in the order of registration or in reverse; `unused` is used only on request.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t inner = 4, bool with_unused = false) : inner_layer(3, inner), outer_layer(inner, 2) {
    register_module("fc", inner_layer);
    register_module("head", outer_layer);
    if (with_unused) register_module("unused", unused);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor middle = inner_layer(x).tanh();
    if (before_inner_backward) (void)middle.register_hook(before_inner_backward);
    return outer_layer(middle);
  }
  std::function<void(const at::TensorBase&)> before_inner_backward;
  torch::nn::Linear inner_layer;
  torch::nn::Linear outer_layer;
  torch::nn::Linear unused{3, 5};
};
TORCH_MODULE(Net);

struct ConvNet : torch::nn::Module {
  ConvNet() {
    register_module("conv", conv);
    register_module("norm", norm);
    conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(conv(x)).relu().mean(); }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(16, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm{8};
};

const DdpOptions kTinyBuckets{.first_bucket_bytes = 8, .bucket_bytes = 40};

at::Tensor batch_of(int rank) { return at::randn({5, 3}, make_generator(static_cast<std::uint64_t>(rank) + 50)); }

std::vector<at::Tensor> gather(const at::Tensor& tensor, Job& job) {
  std::vector<at::Tensor> all;
  job.group().all_gather(tensor.detach().contiguous(), all).wait();
  return all;
}

bool equal_on_all_ranks(const at::Tensor& tensor, Job& job) {
  bool equal = true;
  for (const auto& other : gather(tensor, job)) equal = equal && other.equal(tensor.detach());
  return equal;
}

/// Gradients of the mean loss over all ranks' batches, computed locally.
NamedTensors reference_gradients(NetImpl& net, int world) {
  NetImpl copy;
  load_model_state_dict(copy, model_state_dict(net));
  std::vector<at::Tensor> batches;
  for (int rank = 0; rank < world; ++rank) batches.push_back(batch_of(rank));
  copy.forward(at::cat(batches)).square().mean().backward();
  NamedTensors gradients;
  for (const auto& [name, value] : named_parameters_of(copy)) gradients.emplace_back(name, value.grad());
  return gradients;
}

void expect_gradients(NetImpl& net, const NamedTensors& expected, double factor = 1) {
  const NamedTensors parameters = named_parameters_of(net);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(parameters[i].second.grad().defined()) << expected[i].first;
    const at::Tensor difference = parameters[i].second.grad().sub(expected[i].second, factor);
    EXPECT_LT(difference.abs().max().item<double>(), 1e-6) << expected[i].first;
  }
}

/// The message of the UsageError that `action` throws, or "".
template <class Action>
std::string usage_error(const Action& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "";
}

void train_against_the_whole_batch(Job& job) {
  seed_all(static_cast<std::uint64_t>(job.rank()));
  DistributedDataParallel model(Net(), job, kTinyBuckets);
  for (const auto& item : named_parameters_of(model)) EXPECT_TRUE(equal_on_all_ranks(item.second, job)) << item.first;
  for (int step = 0; step < 3; ++step) {  // before and after the buckets are rebuilt
    const NamedTensors expected = reference_gradients(model.module(), job.world_size());
    model(batch_of(job.rank())).square().mean().backward();
    expect_gradients(model.module(), expected);
    model.module().zero_grad();
  }
}

TEST(DistributedDataParallel, GradientsAreThoseOfTheWholeBatch) {
  for (const int world : {1, 2, 3}) {
    testing::run_ranks("DistributedDataParallel.GradientsAreThoseOfTheWholeBatch", train_against_the_whole_batch,
                       {.world = world});
  }
}

RANKS_TEST(DistributedDataParallel, RebuildsItsBucketsOnceInOrderOfArrival, 2) {
  struct Reversed : NetImpl {  // the layer registered first is used last: its gradients come first
    at::Tensor forward(const at::Tensor& x) {
      return inner_layer(outer_layer->forward(x.matmul(at::ones({3, 4}))).matmul(at::ones({2, 3})));
    }
  };
  DistributedDataParallel model(std::make_shared<Reversed>(), job, kTinyBuckets);
  const auto& buckets = model.reducer().step().gradients().buckets();
  const auto members = [&] {
    std::vector<std::vector<std::size_t>> of_all;
    for (const auto& bucket : buckets.all()) of_all.push_back(bucket.members);
    return of_all;
  };
  at::Tensor first;
  std::vector<std::vector<std::size_t>> after_first;
  EXPECT_EQ(buckets.all().front().members.front(), 3U);  // reverse registration: head.bias
  for (int step = 0; step < 3; ++step) {
    model(batch_of(job.rank())).square().mean().backward();
    if (step == 0) after_first = members();
    EXPECT_EQ(members(), after_first);
    EXPECT_LT(buckets.all().front().members.front(), 2U);  // now a parameter of fc
    for (const auto& value : model.parameters()) EXPECT_TRUE(equal_on_all_ranks(value.grad(), job));
    if (step == 0) first = model.module().outer_layer->weight.grad().clone();
    EXPECT_TRUE(model.module().outer_layer->weight.grad().equal(first));  // no gradient is lost in the rebuild
    EXPECT_GT(first.abs().sum().item<double>(), 0);
    model.module().zero_grad();
  }
}

RANKS_TEST(DistributedDataParallel, GradIsTheBucketsViewWhateverTheUserDid, 2) {
  DistributedDataParallel model(Net(), job, kTinyBuckets);
  const auto backward = [&] { model(batch_of(job.rank())).square().mean().backward(); };
  const NamedTensors expected = reference_gradients(model.module(), 2);
  backward();
  const at::Tensor weight = model.module().inner_layer->weight;
  const void* place = weight.grad().data_ptr();
  EXPECT_EQ(place, model.reducer().step().gradients().buckets().view(0).data_ptr());
  weight.mutable_grad() = at::zeros({4, 3});  // a tensor that the user set
  model.module().outer_layer->weight.mutable_grad() = at::Tensor();
  for (const auto& value : {model.module().inner_layer->bias, model.module().outer_layer->bias}) value.grad().zero_();
  backward();
  EXPECT_EQ(weight.grad().data_ptr(), place);
  expect_gradients(model.module(), expected);
  AdamW(model).zero_grad(/*set_to_none=*/false);  // needs detach_(), an error on autograd's views
  model(batch_of(job.rank())).square().mean().backward({}, /*keep_graph=*/{}, /*create_graph=*/true);
  EXPECT_EQ(weight.grad().data_ptr(), place);
  expect_gradients(model.module(), expected);
}

RANKS_TEST(DistributedDataParallel, NoSyncAccumulatesUntilTheNextSyncedBackward, 2) {
  DistributedDataParallel model(Net(), job, kTinyBuckets);
  const NamedTensors expected = reference_gradients(model.module(), 2);
  const auto backward = [&] { model(batch_of(job.rank())).square().mean().backward(); };
  const at::Tensor weight = model.module().inner_layer->weight;
  for (int round = 0; round < 2; ++round) {
    {
      const auto local = model.no_sync();
      backward();
      EXPECT_FALSE(equal_on_all_ranks(weight.grad(), job));
      backward();
    }
    EXPECT_FALSE(equal_on_all_ranks(weight.grad(), job));
    backward();
    expect_gradients(model.module(), expected, 3);
    EXPECT_TRUE(equal_on_all_ranks(weight.grad(), job));
    model.module().zero_grad();
  }
}

/// Counts finished all_reduces and can wait for the first.
class ReduceSink : public trace::Sink {
 public:
  void begin(const trace::Event&) noexcept override {}
  void end(const trace::Event& event) noexcept override {
    if (event.name != "all_reduce") return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ++ends_;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait_for_one() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return ends_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int ends_ = 0;
};

RANKS_TEST(DistributedDataParallel, ReducesTheFirstBucketWhileBackwardStillRuns, 2) {
  static ReduceSink sink;
  DistributedDataParallel model(Net(), job, kTinyBuckets);
  ASSERT_TRUE(trace::add_sink(sink));
  bool overlapped = false;
  // The inner layer's backward begins only after the outer one's bucket is reduced.
  model.module().before_inner_backward = [&](const at::TensorBase&) { overlapped = sink.wait_for_one(); };
  model(batch_of(job.rank())).square().mean().backward();
  trace::remove_sink(sink);
  EXPECT_TRUE(overlapped);
}

RANKS_TEST(DistributedDataParallel, ViewsFollowChannelsLastWeights, 2) {
  seed_all(static_cast<std::uint64_t>(job.rank()));
  DistributedDataParallel model(ConvNet(), job, {.first_bucket_bytes = 8});
  const at::Tensor weight = model.module().conv->weight;
  EXPECT_TRUE(equal_on_all_ranks(weight, job));
  AdamW optimizer(model, {.lr = 1e-2});
  const at::Tensor start = weight.detach().clone();
  for (int step = 0; step < 3; ++step) {
    const at::Tensor images = at::randn({2, 16, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor loss;
    {
      const Autocast autocast(job.device().type(), Amp::kBf16);
      loss = model(images);
    }
    loss.backward();
    EXPECT_EQ(weight.grad().strides(), (Strides{144, 1, 48, 16}));
    EXPECT_TRUE(equal_on_all_ranks(weight.grad(), job));
    optimizer.step(clip_factor(grad_norm(optimizer.parameters()), 1.0));
    optimizer.zero_grad();
  }
  EXPECT_FALSE(weight.detach().equal(start));
  for (const auto& value : model.parameters()) EXPECT_TRUE(equal_on_all_ranks(value, job));
}

RANKS_TEST(DistributedDataParallel, TrainingTakesRankZerosBuffersAndEvaluationNothing, 2) {
  DistributedDataParallel model(ConvNet(), job);
  auto& norm = model.module().norm;
  const auto images = [] { return at::ones({2, 16, 6, 6}); };
  if (!job.is_main()) {
    norm->num_batches_tracked.fill_(100);
    norm->running_mean.fill_(7);
  }
  (void)model(images());
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
  EXPECT_TRUE(equal_on_all_ranks(norm->running_mean, job));  // the same images on both ranks
  model.eval();
  if (job.is_main()) (void)model(images());  // would hang if it communicated
  model.train();
  const NoGrad evaluation;
  if (job.is_main()) (void)model(images());
}

RANKS_TEST(DistributedDataParallel, NamesTheParameterWhoseShapeDiffers, 2) {
  const std::string message = usage_error([&] { DistributedDataParallel model(Net(4 + job.rank()), job); });
  EXPECT_THAT(message, HasSubstr("parameter 'fc.weight' is Float [4, 3], trained on rank 0 and Float [5, 3], trained"));
  const std::string extra = usage_error([&] { DistributedDataParallel model(Net(4, job.rank() == 1), job); });
  EXPECT_THAT(extra, HasSubstr("parameter 'unused.weight' (Float [5, 3], trained) is on rank 1 but not on rank 0"));
}

RANKS_TEST(DistributedDataParallel, NamesTheParameterThatWasReplaced, 2) {
  DistributedDataParallel model(Net(), job);
  model.module().replace_module("fc", torch::nn::Linear(3, 4).ptr());
  EXPECT_THAT(usage_error([&] { (void)model(batch_of(0)); }), HasSubstr("'fc.weight' was replaced"));
}

RANKS_TEST(DistributedDataParallel, NamesTheParameterThatWasConvertedOrFrozen, 1) {
  DistributedDataParallel model(Net(), job);
  model.module().inner_layer->bias.requires_grad_(false);
  EXPECT_THAT(usage_error([&] { (void)model(batch_of(0)); }), HasSubstr("'fc.bias' has a different requires_grad"));
  model.module().inner_layer->bias.requires_grad_(true);
  model.module().inner_layer->weight.set_data(at::ones({3, 4}).t());
  EXPECT_THAT(usage_error([&] { (void)model(batch_of(0)); }), HasSubstr("'fc.weight' has a different dtype, shape"));
}

void leave_one_out(Job& job) {
  DistributedDataParallel model(Net(4, true), job);
  const std::string message = usage_error([&] { model(batch_of(job.rank())).sum().backward(); });
  EXPECT_THAT(message, HasSubstr("2 of 6 parameters got no gradient in backward: unused.weight, unused.bias"));
}

TEST(DistributedDataParallel, NamesParametersThatGotNoGradient) {
  for (const int world : {1, 2}) {
    testing::run_ranks("DistributedDataParallel.NamesParametersThatGotNoGradient", leave_one_out, {.world = world});
  }
}

RANKS_TEST(DistributedDataParallel, OneRanksUnusedParameterIsAnErrorOnAllRanks, 2) {
  DistributedDataParallel model(Net(4, true), job);
  std::string message;
  try {
    at::Tensor loss = model(batch_of(job.rank())).sum();
    if (job.is_main()) loss = loss.add(model.module().unused(batch_of(0)).sum());
    loss.backward();
  } catch (const Error& error) {
    message = error.message();
  }
  EXPECT_THAT(message, HasSubstr("unused.weight"));
}

RANKS_TEST(DistributedDataParallel, RefusesToGoOnAfterABackwardThatBrokeHalfway, 2) {
  DistributedDataParallel model(Net(), job, kTinyBuckets);
  model.module().before_inner_backward = [](const at::TensorBase&) { throw DataError("broken on purpose"); };
  EXPECT_THROW(model(batch_of(job.rank())).sum().backward(), DataError);
  EXPECT_THAT(usage_error([&] { (void)model(batch_of(0)); }), HasSubstr("an earlier backward ended with an error"));
}

RANKS_TEST(DistributedDataParallel, StateHasTheNamesOfTheInnerModule, 1) {
  DistributedDataParallel model(ConvNet(), job);
  const StateDict state = model.state_dict();
  EXPECT_EQ(state.begin()->first, "conv.bias");
  EXPECT_EQ(state.count("norm.running_var"), 1U);
  model.load_state_dict(state);
}

RANKS_TEST(DistributedDataParallel, StateHasTiedWeightsUnderAllTheirNamesAsPythonNeedsThem, 2) {
  struct Tied : torch::nn::Module {
    Tied() {
      register_module("words", words);
      register_parameter("head", words->weight);
    }
    at::Tensor forward(const at::Tensor& x) { return words(x); }
    torch::nn::Embedding words{4, 2};
  };
  DistributedDataParallel model(Tied(), job);
  const StateDict state = model.state_dict();
  EXPECT_EQ(state.size(), 2U);
  EXPECT_EQ(state.count("head") + state.count("words.weight"), 2U);
  EXPECT_EQ(model.bucket_bytes(), std::vector<std::int64_t>{32}) << "its gradient is reduced once";
  model.load_state_dict({{"words.weight", at::ones({4, 2})}});  // a checkpoint of earlier versions
  EXPECT_TRUE(model.module().words->weight.detach().eq(1).all().item<bool>());
}

RANKS_TEST(DistributedDataParallel, RefusesBucketsOfNoSize, 1) {
  EXPECT_THROW(DistributedDataParallel(Net(), job, {.bucket_bytes = 0}), UsageError);
}

// On the first step the wrapper compares the ranks' samples.

/// Rank 0's output in two steps, the first on `indices`.
std::string said(Job& job, const std::vector<std::int64_t>& indices, std::int64_t shards) {
  DistributedDataParallel model{torch::nn::Linear(2, 1), job};
  ::testing::internal::CaptureStderr();
  tensor::note_first_batch({7, 8}, 1);  // an evaluation before training does not count
  tensor::note_first_batch(indices, shards);
  for (int step = 0; step < 2; ++step) model(at::ones({1, 2})).sum().backward();
  return ::testing::internal::GetCapturedStderr();
}

RANKS_TEST(FirstBatches, AreWarnedOfWhereTheLoaderDoesNotKnowTheJob, 2) {
  const std::string text = said(job, {3, 1, 2, 9, 5}, 1);
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr("all 2 ranks train on the same samples (first batch: 3, 1, 2, 9, ...)"));
    EXPECT_THAT(text, HasSubstr("DataLoader{dataset, job, options}"));
  } else {
    EXPECT_THAT(text, Not(HasSubstr("same samples")));
  }
}

RANKS_TEST(FirstBatches, AreWarnedOfWhereASamplerIgnoresTheShard, 2) {
  const std::string text = said(job, {3, 1}, 2);
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr("the sampler gives every shard the same samples"));
  }
}

RANKS_TEST(FirstBatches, ThatDifferAreNotTalkedAbout, 2) {
  EXPECT_THAT(said(job, {3, job.rank()}, 2), Not(HasSubstr("same samples")));
}

RANKS_TEST(FirstBatches, ThatNoLoaderMadeAreNotTalkedAbout, 2) {
  EXPECT_THAT(said(job, {}, 1), Not(HasSubstr("first batch: 3")));
}

}  // namespace distributed_data_parallel_test

namespace worlds_test {

// The same bits for four replicas on one, two, three and four ranks, with each option: each world prints a digest of
// each case's gradients, and the lines are compared.

constexpr int kReplicas = 4;
constexpr int kSteps = 3;

/// With `by_replica`, only every other replica uses `branch`; with `recompute`, `fc` is used twice.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("fc", fc);
    register_module("words", words);
    register_module("head", head);
    register_module("branch", branch);
    register_module("never", never);
  }
  at::Tensor forward(at::Tensor x, bool with_branch) {
    const at::Tensor index = x.detach().select(1, 0).abs().mul(4).to(at::kLong).clamp_max(12);
    for (int i = 0; i < 2; ++i) x = recompute ? testing::recomputed(segment, x) : i == 0 ? segment(x) : x;
    at::Tensor y = head(x) + words(index);
    if (with_branch) y = y + branch(x);
    if (with_never) y = y + never(x);
    return y.square().mean();
  }
  bool recompute = false;
  bool with_never = false;
  testing::Segment segment = [this](const at::Tensor& x) { return fc(x).tanh(); };
  torch::nn::Linear fc{9, 9};
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(13, 7).sparse(true)};
  torch::nn::Linear head{9, 7};
  torch::nn::Linear branch{9, 7};
  torch::nn::Linear never{9, 7};
};
TORCH_MODULE(Net);

struct Case {
  DdpOptions options = {};
  bool recompute = false;
  bool every_parameter = true;
  int batches = 1;
};

std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  all["plain"] = {};
  all["accumulated"] = {.batches = 3};
  all["own_gradients"] = {.options = {.gradient_as_bucket_view = false}, .batches = 2};
  all["find_unused"] = {.options = {.find_unused_parameters = true}, .every_parameter = false};
  all["static_graph"] = {.options = {.static_graph = true}, .recompute = true, .batches = 2};
  all["bf16"] = {.options = {.hook = hooks::bf16_compress()}};
  all["fp16"] = {.options = {.hook = hooks::fp16_compress()}, .batches = 2};
  all["power_sgd"] = {.options = {.hook = hooks::power_sgd({.rank = 2, .start_iter = 1, .min_compression_rate = 1})}};
  return all;
}

/// FNV-1a over the bytes of all gradients; an undefined one counts as well.
void digest(const NetImpl& net, std::uint64_t& value) {
  const auto add = [&](const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value = (value ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211U;
  };
  for (const at::Tensor& parameter : net.parameters()) {
    const bool defined = parameter.grad().defined();
    add(&defined, sizeof(defined));
    if (!defined) continue;
    const at::Tensor gradient = parameter.grad().to_dense().contiguous();
    add(gradient.data_ptr(), gradient.nbytes());
  }
}

std::uint64_t run_case(Job& job, Case one) {
  seed_all(3);
  Net net;
  net->recompute = one.recompute;
  net->with_never = one.every_parameter && !one.options.static_graph;
  one.options.replicas = kReplicas;
  one.options.bucket_bytes = 200;
  DistributedDataParallel ddp(net, job, one.options);
  ReplicaTeam team(job.group(), {.replicas = kReplicas, .on_switch = [&](int local) { ddp.enter_replica(local); }});
  std::uint64_t value = 14695981039346656037U;
  for (int step = 0; step < kSteps; ++step) {
    net->zero_grad(/*set_to_none=*/true);
    team.run([&](Replica& replica) {
      for (int batch = 0; batch < one.batches; ++batch) {
        const auto seed = static_cast<std::uint64_t>(100 * step + 10 * batch + replica.index());
        const at::Tensor x = at::randn({5, 9}, make_generator(seed)).requires_grad_();
        const auto run = [&] { ddp(x, one.every_parameter || (replica.index() + step) % 2 == 0).backward(); };
        if (batch + 1 == one.batches) {
          run();
        } else {
          const NoSync local = ddp.no_sync();
          run();
        }
      }
    });
    digest(*net, value);
  }
  return value;
}

/// "<case> <digest>" lines of rank `rank`.
std::map<std::string, std::string> lines_of(const std::string& log) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(log);
  for (std::string mark, name, digest, line; std::getline(stream, line);) {
    std::istringstream words(line);
    if (words >> mark >> name >> digest && mark == "digest") lines[name] = digest;
  }
  return lines;
}

TEST(Worlds, FourReplicasHaveTheSameBitsOnOneToFourRanksWithEveryOption) {
  std::map<std::string, std::string> alone;
  for (const int world : {1, 2, 3, 4}) {
    testing::RankProcesses ranks(testing::current_test(),
                                 [](Job& job) {
                                   for (const auto& [name, one] : cases())
                                     fmt::print("digest {} {:016x}\n", name, run_case(job, one));
                                 },
                                 {.world = world});
    for (const testing::RankEnd& end : ranks.wait()) {
      ASSERT_EQ(end.code, 0) << end.log;
      const auto lines = lines_of(end.log);
      ASSERT_EQ(lines.size(), cases().size()) << end.log;
      if (alone.empty()) alone = lines;
      EXPECT_EQ(lines, alone) << "on " << world << " ranks";
    }
  }
  EXPECT_NE(alone.at("plain"), alone.at("bf16"));
}

}  // namespace worlds_test
}  // namespace lockstep
