// SPDX-License-Identifier: Apache-2.0
// The cost of a training step of a segmentation network, in seconds and in memory: one rank, random images. Also LoRM
// and the losses individually, against the same formulas in libtorch operators.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/optim/autocast.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "segmentation/model/losses.h"
#include "segmentation/model/model.h"

namespace lockstep::segmentation {
namespace {

struct Setting {
  std::string part = "step";  ///< step, lorm, lorm_plain, losses, losses_plain
  std::int64_t layers = 50;
  std::int64_t crop = 465;
  std::int64_t batch = 2;
  std::string amp = "none";
  std::string type = "aspp_lorm";
  int repeats = 3;
};

/// A value from /proc/self/status, in MiB. VmHWM is the process's peak memory.
double memory_mib(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(key + ":")) return static_cast<double>(std::atoll(line.c_str() + key.size() + 1)) / 1024;
  }
  return 0;
}

/// CPU time, so that with one thread other programs do not distort the result.
double seconds_of(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// A target in which half of the pixels have one class, and some have none.
at::Tensor some_target(const Setting& setting, std::int64_t planes) {
  at::Tensor target = at::randint(0, 256, {setting.batch, planes, setting.crop, setting.crop}, at::kByte);
  target.select(1, 0).copy_(at::randint(0, 21, {setting.batch, setting.crop, setting.crop}, at::kByte));
  target.select(1, 1).zero_().narrow(1, 0, setting.crop / 2).fill_(7);
  target.select(1, 1).narrow(2, 0, setting.crop / 10).fill_(255);
  return target;
}

at::Tensor total(const std::vector<LossTerm>& terms) {
  at::Tensor sum = at::zeros({});
  for (const LossTerm& term : terms) sum = sum + term.value;
  return sum;
}

const Planes kPlanes{.pseudo_labels = true, .scribble_distances = true, .class_distances = true};

void profile_step(const Setting& setting) {
  ModelOptions options{.type = model_type_from_name(setting.type)};
  options.backbone.layers = setting.layers;
  Segmenter net(options);
  use_channels_last(net);
  SGD optimizer(net, {.lr = 1e-3, .momentum = 0.9, .weight_decay = 5e-4});
  const at::Tensor images = to_channels_last(at::randn({setting.batch, 3, setting.crop, setting.crop}));
  const at::Tensor target = some_target(setting, kPlanes.count());
  fmt::print("{} parameters, {:.0f} MiB before the first step\n", parameter_count(net), memory_mib("VmRSS"));
  fmt::print("{:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}\n", "forward", "losses", "backward", "SGD", "step s",
             "VmHWM MiB", "loss");
  for (int i = 0; i < setting.repeats; ++i) {
    Outputs outputs;
    at::Tensor loss;
    const double forward = seconds_of([&] {
      const Autocast autocast(at::kCPU, amp_from_name(setting.amp));
      outputs = net.forward(images, target.select(1, kPlanes.pseudo()));
    });
    const double losing = seconds_of([&] { loss = total(losses(outputs, target, kPlanes, {})); });
    const double backward = seconds_of([&] { loss.backward(); });
    const double update = seconds_of([&] {
      optimizer.step();
      optimizer.zero_grad();
    });
    fmt::print("{:>8.2f} {:>8.3f} {:>8.2f} {:>8.3f} {:>8.2f} {:>10.0f} {:>8.4f}\n", forward, losing, backward, update,
               forward + losing + backward + update, memory_mib("VmHWM"), loss.item<double>());
  }
}

/// The loss of LoRM with its projections, forward and backward.
void profile_lorm(const Setting& setting, at::Tensor (*loss)(const LormInputs&)) {
  const std::int64_t size = (setting.crop + 7) / 8;
  const std::int64_t channels = setting.layers < 50 ? 512 : 2048;
  Lorm lorm(channels);
  const bool bfloat16 = setting.amp == "bf16";
  const at::Tensor features = to_channels_last(at::rand({setting.batch, channels, size, size}))
                                  .to(bfloat16 ? at::kBFloat16 : at::kFloat)
                                  .requires_grad_();
  const at::Tensor labels = some_target(setting, 2).select(1, 1);
  fmt::print("{} places, {:.0f} MiB before\n", size * size, memory_mib("VmRSS"));
  for (int i = 0; i < setting.repeats; ++i) {
    at::Tensor value;
    const double forward = seconds_of([&] {
      const Autocast autocast(at::kCPU, amp_from_name(setting.amp));
      value = loss(lorm.inputs(features, labels));
    });
    const double backward = seconds_of([&] { value.backward(); });
    fmt::print("forward {:.2f} s, backward {:.2f} s, VmHWM {:.0f} MiB, loss {:.6f}\n", forward, backward,
               memory_mib("VmHWM"), value.to(at::kFloat).item<double>());
  }
}

using Losses = std::vector<LossTerm> (*)(const Outputs&, const at::Tensor&, const Planes&, const LossOptions&);

void profile_losses(const Setting& setting, Losses losses_by) {
  const std::int64_t size = (setting.crop + 7) / 8;
  const at::Tensor logits = (at::randn({setting.batch, 21, size, size}) * 2).requires_grad_();
  const at::Tensor target = some_target(setting, kPlanes.count());
  fmt::print("{:.0f} MiB before\n", memory_mib("VmRSS"));
  for (int i = 0; i < setting.repeats; ++i) {
    at::Tensor value;
    const double forward = seconds_of([&] {
      value = total(losses_by({{"logits", logits}}, target, kPlanes, {.label_smoothing = 0.1}));
    });
    const double backward = seconds_of([&] { value.backward(); });
    fmt::print("forward {:.1f} ms, backward {:.1f} ms, VmHWM {:.0f} MiB, loss {:.6f}\n", forward * 1e3, backward * 1e3,
               memory_mib("VmHWM"), value.item<double>());
  }
}

int run(const std::vector<std::string>& words) {
  Setting setting;
  const auto word = [&](std::size_t i, const std::string& otherwise) {
    return i < words.size() ? words[i] : otherwise;
  };
  setting.part = word(0, setting.part);
  setting.layers = std::stoll(word(1, "50"));
  setting.crop = std::stoll(word(2, "465"));
  setting.batch = std::stoll(word(3, "2"));
  setting.amp = word(4, setting.amp);
  setting.type = word(5, setting.type);
  setting.repeats = std::stoi(word(6, "3"));
  keep_freed_memory();
  at::set_num_threads(1);
  seed_all(1);
  fmt::print("{}: ResNet-{}, {} pictures of {} pixels, {}, {}, one thread\n", setting.part, setting.layers,
             setting.batch, setting.crop, setting.amp, setting.type);
  if (setting.part == "step") profile_step(setting);
  if (setting.part == "lorm") profile_lorm(setting, lorm_loss);
  if (setting.part == "lorm_plain") profile_lorm(setting, lorm_loss_plain);
  if (setting.part == "losses") profile_losses(setting, losses);
  if (setting.part == "losses_plain") profile_losses(setting, plain_losses);
  return 0;
}

}  // namespace
}  // namespace lockstep::segmentation

/// segmentation_profile [step|lorm|lorm_plain|losses|losses_plain] [LAYERS] [CROP] [BATCH] [none|bf16] [TYPE] [REPEATS]
int main(int argc, char** argv) { return lockstep::segmentation::run({argv + 1, argv + argc}); }
