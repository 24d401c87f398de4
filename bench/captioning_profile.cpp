// SPDX-License-Identifier: Apache-2.0
// The cost of a training step of the captioning recipe, and the share of it that scoring takes: one rank, one thread,
// generated scenes and a preset's network.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "captioning/config.h"
#include "captioning/data/collate.h"
#include "captioning/reward.h"
#include "captioning/task.h"
#include "lockstep/data/loader.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"

namespace lockstep::captioning {
namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds that `work` takes: the mean of `repeats`, after one warm-up.
double time_of(int repeats, const std::function<void()>& work) {
  work();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / repeats;
}

CaptioningConfig config_of(const std::string& preset, const std::string& model) {
  CaptioningConfig config;
  ConfigFields fields;
  config.describe(fields);
  ConfigTree tree = ConfigTree::from_text(presets().at(preset), preset);
  tree.set("data.train=scenes:1000:1", "bench");
  tree.set("model.type=" + model, "bench");
  fields.bind(tree);
  config.validate();
  return config;
}

class Profile {
 public:
  Profile(const CaptioningConfig& config, int repeats) : config_(config), task_(config), repeats_(repeats) {
    seed_all(1);
    set_ = std::dynamic_pointer_cast<CaptionDataset>(task_.make_training_set(config.data.train));
    net_ = task_.make_model();
    use_channels_last(*net_);
    if (config.fused_layers) (void)nn::optimize(*net_);
    net_->train();
    DataLoader loader(set_, {.batch_size = config.batch_size, .shuffle = true, .collate = task_.collate()});
    for (Batch& batch : loader.epoch(0)) {
      prepare_batch(batch, c10::Device(c10::kCPU), config.channels_last);
      batch_ = std::move(batch);
      break;
    }
  }

  void print() {
    const double words = step(1);
    const double self_critical = step(2);
    const Reward reward(frequencies_of(*set_, {}));
    const auto& captions = std::any_cast<const CaptionBatch&>(batch_.extra);
    const double scores = time_of(200, [&] { (void)reward(drawn_, captions); });
    const auto count = static_cast<double>(drawn_.size(0));
    fmt::print("{} images, {} captions drawn, {} words at most, {}\n", batch_.size, drawn_.size(0),
               config_.sets.max_words, config_.model_type);
    fmt::print("cross entropy, forward and backward       {:8.1f} ms\n", words);
    fmt::print("self-critical, forward and backward       {:8.1f} ms\n", self_critical);
    fmt::print("  CIDEr-D of the captions drawn           {:8.3f} ms, {:.2f} % of it\n", scores,
               100 * scores / self_critical);
    fmt::print("  CIDEr-D of 5,000 captions               {:8.1f} ms\n", scores * 5000 / count);
  }

 private:
  double step(std::int64_t stage) {
    task_.begin_epoch({.epoch = 0, .stage = stage});
    return time_of(repeats_, [&] {
      for (const auto& parameter : net_->parameters()) parameter.mutable_grad() = at::Tensor();
      const Autocast amp(c10::kCPU, amp_from_name(config_.amp));
      const Outputs outputs = task_.run(*net_, batch_);
      if (outputs.count("words") != 0) drawn_ = outputs.at("words");
      task_.loss_terms(outputs, batch_).at(0).value.backward();
    });
  }

  CaptioningConfig config_;
  CaptioningTask task_;
  std::shared_ptr<CaptionDataset> set_;
  std::shared_ptr<torch::nn::Module> net_;
  Batch batch_;
  at::Tensor drawn_;
  int repeats_;
};

int run(int argc, char** argv) {
  const std::string preset = argc > 1 ? argv[1] : "scenes";
  const std::string model = argc > 2 ? argv[2] : "transformer";
  if (presets().count(preset) == 0 || (model != "transformer" && model != "x_linear")) {
    fmt::print(stderr, "usage: bench_captioning_profile [PRESET] [transformer|x_linear] [REPEATS]\n");
    return 64;
  }
  keep_freed_memory();
  at::set_num_threads(1);
  Profile(config_of(preset, model), argc > 3 ? std::atoi(argv[3]) : 20).print();
  return 0;
}

}  // namespace
}  // namespace lockstep::captioning

/// captioning_profile [PRESET] [transformer|x_linear] [REPEATS]
int main(int argc, char** argv) { return lockstep::captioning::run(argc, argv); }
