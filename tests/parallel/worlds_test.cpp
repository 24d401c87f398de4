// SPDX-License-Identifier: Apache-2.0
// The same bits for four replicas on one, two, three and four ranks, with every option: each world prints a digest of
// each case's gradients, and the lines are compared.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <sstream>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "support/recomputed.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace worlds_test {

constexpr int kReplicas = 4;
constexpr int kSteps = 3;

/// `branch` is used by every second replica only where `by_replica`, `fc` twice where `recompute`.
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

/// FNV-1a over the bytes of all gradients; one that is undefined counts too.
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
