// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/crop.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/compose.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/tensor/threads.h"

namespace lockstep::worker {
namespace {

/// A data set with one number per sample, written in place.
class Numbers final : public FixedShapeDataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] SampleSpec spec() const override { return {.data_shape = {}, .data_type = c10::ScalarType::Long}; }
  void get_into(std::int64_t index, SampleContext& /*context*/, SampleSlot slot) override {
    *slot.data_as<std::int64_t>() = index;
  }

 private:
  std::int64_t size_;
};

void print(const LoaderBench& bench, std::int64_t epoch, double images_per_s, double wait) {
  if (bench.json) {
    print_to(stdout,
             R"({{"bench": "loader", "workers": {}, "epoch": {}, "images_per_s": {}, "us_per_sample": {}, "wait": {}}})"
             "\n",
             bench.workers, epoch, text::json_number(images_per_s, 2), text::json_number(1e6 / images_per_s, 4),
             text::json_number(wait, 4));
  } else {
    print_to(stdout, "epoch {}  {:>10.0f} images/s  {:>8.3f} us per sample\n", epoch, images_per_s, 1e6 / images_per_s);
  }
  std::fflush(stdout);
}

int run(const LoaderBench& bench, const DatasetHandle& dataset) {
  tensor::set_threads(1);
  DataLoader loader(dataset, {.batch_size = bench.batch,
                              .workers = bench.workers,
                              .prefetch_factor = bench.prefetch,
                              .shuffle = true,
                              .note_waiting = false});
  for (std::int64_t epoch = 0; epoch < bench.epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    const double waited_before = loader.waited_s();
    std::int64_t images = 0;
    for (const Batch& batch : loader.epoch(epoch)) images += batch.size;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (images != loader.samples_per_epoch()) throw InternalError("an epoch has lost samples");
    print(bench, epoch, static_cast<double>(images) / seconds.count(),
          (loader.waited_s() - waited_before) / seconds.count());
  }
  return 0;
}

std::shared_ptr<ImageSource> open(const LoaderBench& bench) {
  return open_source({.path = bench.path, .recursive = true});
}

}  // namespace

int bench_captcha_loader(const LoaderBench& bench) {
  return run(bench, image_dataset(open(bench), Compose{Gray{}, ToTensor{}}));
}

int bench_imagenet_loader(const LoaderBench& bench) {
  return run(bench, image_dataset(open(bench), Compose{RandomResizedCrop{.size = {bench.crop, bench.crop}},
                                                       HorizontalFlip{}, ToTensor{.normalize = Normalize{}}}));
}

int bench_noop_loader(const LoaderBench& bench) { return run(bench, Numbers(bench.size)); }

}  // namespace lockstep::worker
