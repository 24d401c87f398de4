// SPDX-License-Identifier: Apache-2.0
// How a training step of the detection recipe spends its time, part by part: one rank, one thread, the preset's
// batches. The parts of the forward are measured individually, and so are their backwards.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <any>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "detection/config.h"
#include "detection/dfine/backbone.h"
#include "detection/dfine/encoder.h"
#include "detection/model/backbone.h"
#include "detection/model/encoder.h"
#include "detection/task.h"
#include "lockstep/data/loader.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"

namespace lockstep::detection {
namespace {

using Clock = std::chrono::steady_clock;

/// The time that `work` takes, in milliseconds: the mean of `repeats` calls, after one warm-up call. `work` receives
/// the number of the call.
double time_of(int repeats, const std::function<void(int)>& work) {
  work(0);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) work(i);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / repeats;
}

at::Tensor sum_of(const std::vector<at::Tensor>& tensors) {
  at::Tensor sum = at::zeros({});
  for (const at::Tensor& tensor : tensors) sum = sum + tensor.to(at::kFloat).sum();
  return sum;
}

class Profile {
 public:
  Profile(const DetectionConfig& config, int repeats) : config_(config), task_(config), repeats_(repeats) {
    seed_all(1);
    net_ = task_.make_model();
    use_channels_last(*net_);
    if (config.fused_layers) (void)nn::optimize(*net_);
    const auto set = task_.make_training_set(config.data.train);
    DataLoader loader(set, {.batch_size = config.batch_size, .shuffle = true, .collate = task_.collate()});
    for (Batch& batch : loader.epoch(0)) {
      prepare_batch(batch, c10::Device(c10::kCPU), config.channels_last);
      batches_.push_back(std::move(batch));
    }
    load_ms_ = time_of(1,
                       [&](int) {
                         for (Batch& batch : loader.epoch(0)) (void)batch;
                       }) /
               static_cast<double>(batches_.size());
  }

  void print() {
    measure_parts();
    measure_step();
    fmt::print("{:<46} {:>8}\n", "part", "ms");
    for (const auto& [name, ms] : rows_) fmt::print("{:<46} {:>8.1f}\n", name, ms);
  }

 private:
  const Batch& batch(int i) const { return batches_[static_cast<std::size_t>(i) % batches_.size()]; }

  /// Times the backbone, and the backbone with the encoder: the forward pass alone, and forward with backward.
  void measure_parts() {
    if (config_.network_choice().as_published) {
      measure_parts_of<dfine::HgNetV2, dfine::HybridEncoder>();
    } else {
      measure_parts_of<Backbone, Encoder>();
    }
  }

  template <class BackboneType, class EncoderType>
  void measure_parts_of() {
    auto backbone = std::dynamic_pointer_cast<BackboneType>(net_->named_children()["backbone"]);
    auto encoder = std::dynamic_pointer_cast<EncoderType>(net_->named_children()["encoder"]);
    const auto first = [&](int i) { return backbone->forward(batch(i).data); };
    const auto both = [&](int i) { return encoder->forward(first(i)); };
    const auto forward = [&](const auto& part) {
      return time_of(repeats_, [&](int i) { with_amp([&] { (void)part(i); }); });
    };
    const auto round = [&](const auto& part) {
      return time_of(repeats_, [&](int i) {
        at::Tensor sum;
        with_amp([&] { sum = sum_of(part(i)); });
        sum.backward();
        drop_gradients();
      });
    };
    forward_[0] = forward(first);
    forward_[1] = forward(both) - forward_[0];
    const double backbone_round = round(first);
    backward_[0] = backbone_round - forward_[0];
    backward_[1] = round(both) - backbone_round - forward_[1];
  }

  void measure_step() {
    AdamW optimizer(*net_, {.lr = 1e-4});
    EMA average(*net_, {.decay = 0.998});
    Outputs outputs;
    const auto run = [&](int i) { with_amp([&] { outputs = task_.run(*net_, batch(i)); }); };
    const auto loss = [&](int i) { return total(task_.loss_terms(outputs, batch(i))); };
    const double whole_forward = time_of(repeats_, run);
    const double with_loss = time_of(repeats_, [&](int i) { run(i), (void)loss(i); });
    const double with_backward = time_of(repeats_, [&](int i) {
      run(i);
      loss(i).backward();
      drop_gradients();
    });
    run(0);
    loss(0).backward();
    const double update =
        time_of(repeats_, [&](int) { optimizer.step(clip_factor(grad_norm(named_parameters_of(*net_)), 1.0)); });
    const double ema = time_of(repeats_, [&](int) { average.update(); });
    const double backward = with_backward - with_loss;
    rows_ = {{"a batch from the loader, one thread, in parallel", load_ms_},
             {"backbone, forward", forward_[0]},
             {"encoder, forward", forward_[1]},
             {"decoder with denoising and dense heads, forward", whole_forward - forward_[0] - forward_[1]},
             {"matching and losses", with_loss - whole_forward},
             {"backward of losses and decoder", backward - backward_[0] - backward_[1]},
             {"encoder, backward", backward_[1]},
             {"backbone, backward", backward_[0]},
             {"norm of the gradients, clipping, AdamW", update},
             {"moving average", ema},
             {"the step without loading and reduction", with_backward + update + ema}};
  }

  static at::Tensor total(const std::vector<LossTerm>& terms) {
    at::Tensor sum = at::zeros({});
    for (const LossTerm& term : terms) sum = sum + term.value;
    return sum;
  }

  template <class Work>
  void with_amp(const Work& work) {
    const Autocast autocast(c10::kCPU, amp_from_name(config_.amp));
    work();
  }

  void drop_gradients() {
    for (auto& parameter : net_->parameters()) parameter.mutable_grad().reset();
  }

  const DetectionConfig& config_;
  DetectionTask task_;
  int repeats_;
  std::shared_ptr<torch::nn::Module> net_;
  std::vector<Batch> batches_;
  double load_ms_ = 0;
  double forward_[2] = {};
  double backward_[2] = {};
  std::vector<std::pair<std::string, double>> rows_;
};

int run(int argc, char** argv) {
  DetectionConfig config;
  if (argc > 3) {
    ConfigFields fields;
    config.describe(fields);
    fields.bind(ConfigTree::from_text(presets().at(argv[3]), argv[3]));
    config.batch_size = argc > 4 ? std::atoi(argv[4]) : 2;
    config.total_batch_size = 0;
    config.augment.base_size_repeat = 0;
  }
  config.num_classes = 8;
  config.data.train = fmt::format("scenes:{}:1", 8 * config.batch_size.value());
  config.amp = argc > 1 ? argv[1] : "bf16";
  config.policy = {"0", "0", "0"};
  keep_freed_memory();
  at::set_num_threads(1);
  fmt::print("batch {}, {} x {} pixels, {}\n", config.batch_size.value(), config.image_size, config.image_size,
             config.amp);
  if (argc > 3) fmt::print("{}\n", argv[3]);
  Profile(config, argc > 2 ? std::atoi(argv[2]) : 16).print();
  return 0;
}

}  // namespace
}  // namespace lockstep::detection

/// detection_profile [none|bf16] [REPEATS] [PRESET] [BATCH]
int main(int argc, char** argv) { return lockstep::detection::run(argc, argv); }
