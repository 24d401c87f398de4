// SPDX-License-Identifier: Apache-2.0
// How a training step of the captcha network spends its time: self time by libtorch operator, and the bytes of its
// tensors per second, compared with the speed of copying memory. One rank, one thread.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/comm/job.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Row {
  double seconds = 0;  ///< excluding the operators that it calls
  double bytes = 0;    ///< of its inputs
  int calls = 0;
};

/// The rows by operator. They need no lock: the step runs on one thread, then the backward on one engine thread.
std::map<std::string, Row>& rows() {
  static std::map<std::string, Row> all;  // NOLINT
  return all;
}

struct Frame : at::ObserverContext {
  Clock::time_point begin = Clock::now();
  double children = 0;
  double bytes = 0;
  Frame* parent = nullptr;
};

Frame*& current() {
  static thread_local Frame* frame = nullptr;  // NOLINT
  return frame;
}

double bytes_of(const at::RecordFunction& function) {
  double bytes = 0;
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor() && input.toTensor().defined()) bytes += static_cast<double>(input.toTensor().nbytes());
  }
  return bytes;
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  auto frame = std::make_unique<Frame>();
  frame->parent = current();
  frame->bytes = bytes_of(function);
  current() = frame.get();
  return frame;
}

void leave(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* frame = static_cast<Frame*>(context);
  const double whole = seconds_since(frame->begin);
  Row& row = rows()[function.name()];
  row.seconds += whole - frame->children;
  row.bytes += frame->bytes;
  ++row.calls;
  current() = frame->parent;
  if (current() != nullptr) current()->children += whole;
}

/// Bytes read and written per second by memcpy on arrays larger than any cache.
double copy_rate() {
  std::vector<char> from(256 << 20, 1);
  std::vector<char> to(from.size(), 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::max(best, 2.0 * static_cast<double>(from.size()) / seconds_since(begin));
  }
  return best;
}

struct Options {
  std::string model = "conv7";
  bool bf16 = true;
  bool fused = true;
};

class Step {
 public:
  explicit Step(const Options& options) : bf16_(options.bf16), task_(config(options)) {
    seed_all(0);
    net_ = std::dynamic_pointer_cast<captcha::CaptchaNet>(task_.make_model());
    use_channels_last(*net_);
    if (options.fused) (void)nn::optimize(*net_);
    optimizer_ = std::make_unique<AdamW>(*net_, AdamWOptions{.lr = 6e-4});
    batch_.data = to_channels_last(at::rand({64, 1, 60, 160}));
    batch_.target = at::randint(36, {64, 4}, at::kLong);
    batch_.size = 64;
  }

  void run() {
    at::Tensor output;
    {
      const Autocast autocast(at::kCPU, bf16_ ? Amp::kBf16 : Amp::kNone);
      output = net_->forward(batch_.data);
    }
    task_.loss(output, batch_).backward();
    const NamedScope scope;
    optimizer_->step();
    optimizer_->zero_grad();
  }

 private:
  /// Names the optimizer's kernel in the profile, because it is not a libtorch operator.
  struct NamedScope {
    NamedScope() {
      if (guard.isActive()) guard.before("lockstep::AdamW");
    }
    at::RecordFunction guard{at::RecordScope::USER_SCOPE};
  };

  static captcha::CaptchaConfig config(const Options& options) {
    captcha::CaptchaConfig config;
    config.model_type = options.model;
    return config;
  }

  bool bf16_;
  captcha::CaptchaTask task_;
  std::shared_ptr<captcha::CaptchaNet> net_;
  std::unique_ptr<AdamW> optimizer_;
  Batch batch_;
};

void print(double step_seconds, int steps) {
  const double rate = copy_rate();
  std::vector<std::pair<std::string, Row>> sorted(rows().begin(), rows().end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  fmt::print("{:.1f} ms a step; memcpy moves {:.1f} GB/s (read and written)\n", 1e3 * step_seconds, rate * 1e-9);
  fmt::print("{:<44} {:>6} {:>9} {:>7} {:>12}\n", "operator (self)", "calls", "ms", "share", "inputs GB/s");
  for (const auto& [name, row] : sorted) {
    const double ms = 1e3 * row.seconds / steps;
    if (ms < 0.3) break;
    fmt::print("{:<44} {:>6} {:>9.2f} {:>6.1f}% {:>12.1f}\n", name, row.calls / steps, ms,
               100 * row.seconds / steps / step_seconds, row.bytes / row.seconds * 1e-9);
  }
}

int profile(const Options& options, int steps) {
  at::set_num_threads(1);
  keep_freed_memory();
  Step step(options);
  for (int i = 0; i < 2; ++i) step.run();
  const auto begin = Clock::now();
  for (int i = 0; i < steps; ++i) step.run();
  const double plain = seconds_since(begin) / steps;
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(enter, leave).needsInputs(true));
  for (int i = 0; i < steps; ++i) step.run();
  at::removeCallback(handle);
  print(plain, steps);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  // bench_step_profile [conv7|conv3 [bf16|float32 [fused|plain [STEPS]]]]
  const auto argument = [&](int index, const char* otherwise) {
    return std::string(argc > index ? argv[index] : otherwise);
  };
  return lockstep::profile(
      {.model = argument(1, "conv7"), .bf16 = argument(2, "bf16") == "bf16", .fused = argument(3, "fused") == "fused"},
      std::atoi(argument(4, "5").c_str()));
}
