// SPDX-License-Identifier: Apache-2.0
// The cost that DistributedDataParallel adds to a step of the captcha network on one rank: pairs of alternating runs
// with and without it. Prints each pair's ratios of wall time and of this process's CPU time, and the medians.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"

namespace lockstep {
namespace {

struct Seconds {
  double wall = 0;
  double processor = 0;
};

Seconds now() {
  timespec processor{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor);
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {.wall = std::chrono::duration<double>(wall).count(),
          .processor = static_cast<double>(processor.tv_sec) + 1e-9 * static_cast<double>(processor.tv_nsec)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// A network and its optimizer. A step runs the forward of the DDP wrapper if wrap() was called, otherwise that of the
/// network.
class Side {
 public:
  Side(captcha::CaptchaTask& task, const Batch& batch, const c10::Device& device)
      : task_(task), batch_(batch), device_(device) {
    seed_all(0);
    net_ = std::dynamic_pointer_cast<captcha::CaptchaNet>(task.make_model());
    use_channels_last(*net_);
    net_->to(device_);
  }
  void wrap(Job& job) { model_.emplace(net_, job); }
  void optimize() { optimizer_.emplace(*net_, AdamWOptions{.lr = 6e-4}); }

  Seconds run(int steps) {
    const Seconds begin = now();
    for (int i = 0; i < steps; ++i) step();
    wait();
    const Seconds end = now();
    return {.wall = end.wall - begin.wall, .processor = end.processor - begin.processor};
  }

 private:
  /// Waits for a GPU's pending work, by reading back one number.
  void wait() {
    if (!device_.is_cpu()) (void)net_->parameters().front().detach().reshape({-1})[0].item<float>();
  }

  void step() {
    at::Tensor output;
    {
      const Autocast autocast(device_.type(), Amp::kBf16);
      output = model_ ? (*model_)(batch_.data) : net_->forward(batch_.data);
    }
    task_.loss(output, batch_).backward();
    optimizer_->step();
    optimizer_->zero_grad();
  }

  captcha::CaptchaTask& task_;
  const Batch& batch_;
  c10::Device device_;
  std::shared_ptr<captcha::CaptchaNet> net_;
  std::optional<DistributedDataParallel<captcha::CaptchaNet>> model_;
  std::optional<AdamW> optimizer_;
};

int compare(Job& job, int pairs, int steps, std::int64_t images) {
  at::set_num_threads(1);
  keep_freed_memory();
  const captcha::CaptchaConfig config;
  captcha::CaptchaTask task(config);
  Batch batch;
  batch.data = to_channels_last(at::rand({images, 1, config.labels.height, config.labels.width}));
  batch.target = at::randint(36, {images, config.labels.length}, at::kLong);
  batch.size = images;
  move_to(batch, job.device());
  Side plain(task, batch, job.device());
  Side wrapped(task, batch, job.device());
  wrapped.wrap(job);
  for (Side* side : {&plain, &wrapped}) {
    side->optimize();
    (void)side->run(2);
  }
  std::vector<double> wall;
  std::vector<double> processor;
  for (int pair = 0; pair < pairs; ++pair) {
    Side& first = pair % 2 == 0 ? plain : wrapped;
    Side& second = pair % 2 == 0 ? wrapped : plain;
    const Seconds a = first.run(steps);
    const Seconds b = second.run(steps);
    const Seconds& with = pair % 2 == 0 ? b : a;
    const Seconds& without = pair % 2 == 0 ? a : b;
    wall.push_back(with.wall / without.wall);
    processor.push_back(with.processor / without.processor);
    fmt::print(
        "pair {:2}: without {:.1f} ms, with {:.1f} ms a step; ratio of wall time {:.4f}, of processor time {:.4f}\n",
        pair, 1e3 * without.wall / steps, 1e3 * with.wall / steps, wall.back(), processor.back());
  }
  fmt::print("medians of {} pairs: wall time {:.4f}, processor time {:.4f}\n", pairs, median(wall), median(processor));
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  // bench_ddp_overhead [PAIRS [STEPS [IMAGES]]]; LOCKSTEP_DEVICE=cpu|cuda
  const auto argument = [&](int index, int otherwise) { return argc > index ? std::atoi(argv[index]) : otherwise; };
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) {
    return lockstep::compare(job, argument(1, 10), argument(2, 4), argument(3, 64));
  });
}
