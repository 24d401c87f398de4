// SPDX-License-Identifier: Apache-2.0
// Compares a network as `lockstep predict` runs it with the same network as an exported TorchScript module,
// alternately: one image, one thread, float32, untrained weights.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "captcha/task.h"
#include "detection/config.h"
#include "detection/task.h"
#include "lockstep/nn/torchscript.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "segmentation/task.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const char* name, const Recipe& recipe, const std::string& preset, const std::vector<std::string>& sets) {
  const auto config = recipe.make_config();
  ConfigFields fields;
  config->describe(fields);
  std::string word;
  fields.add("recipe", &word, "the recipe");
  if (!preset.empty()) fields.bind(ConfigTree::from_text(recipe.presets().at(preset), preset));
  ConfigTree over;
  for (const std::string& set : sets) over.set(set, "--set");
  fields.bind(over);
  const auto task = recipe.make_task(*config);
  const auto model = task->make_model();
  model->eval();
  task->prepare_inference(*model);
  const auto function = task->network_function(*model);
  std::istringstream archive(nn::to_torchscript(*model, *function));
  auto module = torch::jit::load(archive);
  const auto arguments = function->example(1);
  const std::vector<c10::IValue> inputs(arguments.begin(), arguments.end());
  std::vector<double> own;
  std::vector<double> exported;
  for (int i = -5; i < 21; ++i) {  // the first pairs are warm-up: the interpreter optimises code that it has run
    const double a = milliseconds([&] { (void)function->run(arguments); });
    const double b = milliseconds([&] { (void)module.forward(inputs); });
    if (i < 0) continue;
    own.push_back(a);
    exported.push_back(b);
  }
  fmt::print("{:<32} predict {:8.2f} ms  exported {:8.2f} ms  ratio {:.2f}\n", name, median(own), median(exported),
             median(exported) / median(own));
}

}  // namespace
}  // namespace lockstep

int main() {
  using lockstep::compare;
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);
  lockstep::keep_freed_memory();
  lockstep::seed_all(1);
  compare("captcha conv7, 160 x 60", *lockstep::captcha::make_recipe(), "", {"model.type=conv7"});
  compare("captcha conv3, 160 x 60", *lockstep::captcha::make_recipe(), "", {"model.type=conv3"});
  compare("detection, 160 pixels", *lockstep::detection::make_recipe(), "scenes", {"num_classes=3"});
  compare("detection dfine_s, 640 pixels", *lockstep::detection::make_recipe(), "dfine_s", {"num_classes=80"});
  compare("segmentation aspp_lorm, 257 px", *lockstep::segmentation::make_recipe(), "",
          {"num_classes=4", "model.layers=18", "augment.crop=257", "model.type=aspp_lorm"});
  return 0;
}
