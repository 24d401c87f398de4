// SPDX-License-Identifier: Apache-2.0
// Simulated steps against what Li et al. published of PyTorch's DistributedDataParallel ("PyTorch Distributed:
// Experiences on Accelerating Data Parallel Training", VLDB 2020): overlap makes a step with NCCL 38.0 % (ResNet50) and
// 35.2 % (BERT) faster, scaling is near-linear up to 256 GPUs, and ResNet50 is fastest with buckets of 10 to 25 MB.
//
// The paper gives no times, so these are assumptions: backward takes twice as long as forward; each part of a network
// takes its share of the multiplications, and its gradients arrive evenly meanwhile; a machine has 8 GPUs on one line
// of 100 Gb/s with 5 us each way and 100 GB/s inside; one V100 computes 360 images of ResNet50 a second in float32, in
// batches of 32. Parameters and multiplications are those of the architectures.
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/schedule/simulate.h"
#include "lockstep/schedule/variants.h"

namespace lockstep::schedule {
namespace published_test {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
/// A part of a network, in the order of backward.
struct Part {
  double parameters;       ///< in millions
  double multiplications;  ///< in any unit
};
// The classifier, the four stages from the last to the first, the first convolution.
const std::vector<Part> kResNet50 = {{2.049, 0.002}, {14.965, 0.81}, {7.098, 1.47},
                                     {1.220, 1.04},  {0.216, 0.68},  {0.010, 0.12}};
// BERT-base: twelve layers, then the embeddings, which are looked up.
const std::vector<Part> kBert = {{85.1, 1}, {23.8, 0}};
constexpr double kBatch = 32;
constexpr double kStep = kBatch / 360;

/// The step with a bucket for each MiB of each part.
Workload model(const std::vector<Part>& parts, double step_s) {
  double all = 0;
  for (const Part& part : parts) all += part.multiplications;
  MeasuredStep step{.compute_s = step_s, .backward_s = step_s / 3};
  double done = 0;
  for (const Part& part : parts) {
    const auto bytes = static_cast<std::int64_t>(part.parameters * 4e6);
    const std::int64_t count = (bytes + kMiB - 1) / kMiB;
    for (std::int64_t i = 1; i <= count; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(count);
      step.calls.push_back({.bytes = bytes * i / count - bytes * (i - 1) / count,
                            .bucket = static_cast<int>(step.calls.size()),
                            .called_s = step_s / 3 + step_s * 2 / 3 * (done + part.multiplications * share) / all,
                            .waited_s = step_s});
    }
    done += part.multiplications;
  }
  return {.images = kBatch, .steps = {step}};
}

Workload in_buckets(const Workload& workload, std::int64_t bytes) {
  return with_buckets(workload, {.first_bytes = std::min(bytes, kMiB), .bytes = bytes});
}

/// The same buckets, reduced after backward.
Workload without_overlap(Workload workload) {
  for (Call& call : workload.steps.front().calls) call.called_s = workload.steps.front().compute_s;
  return workload;
}

Cluster machines(int count, double line_bits_per_s) {
  return {.gpus = 8,
          .machines = count,
          .network = {.bytes_per_s = line_bits_per_s / 8, .latency_s = 5e-6},
          .local = {.bytes_per_s = 100e9, .latency_s = 5e-6},
          .backend = Backend::kNccl};
}

/// The most that overlap saves on any line: there, sending takes about as long as backward.
double best_overlap(const Workload& model) {
  const Workload overlapped = in_buckets(model, 25 * kMiB);
  const Workload after = without_overlap(overlapped);
  double best = 0;
  for (double rate = 1e9; rate < 1e12; rate *= 1.1) {
    const Cluster four = machines(4, rate);
    best = std::max(best, 1 - simulate(overlapped, four).step_s / simulate(after, four).step_s);
  }
  return best;
}

TEST(Published, OverlapSavesWhatThePaperMeasured) {
  EXPECT_NEAR(best_overlap(model(kResNet50, kStep)), 0.380, 0.15 * 0.380);
  EXPECT_NEAR(best_overlap(model(kBert, kStep * 4)), 0.352, 0.15 * 0.352);
}

TEST(Published, ScalingIsNearLinearUpTo256Gpus) {
  const Workload resnet = in_buckets(model(kResNet50, kStep), 25 * kMiB);
  for (const int count : {1, 2, 4, 8, 16, 32}) {
    const double step_s = simulate(resnet, machines(count, 100e9)).step_s;
    EXPECT_LT(step_s, kStep / 0.85) << count << " machines";
    EXPECT_GE(step_s, kStep);
  }
}

TEST(Published, BucketsOfTenToTwentyFiveMegabytesAreBest) {
  // Here NCCL starts a kernel for each bucket, which takes 50 us, and a line of 25 Gb/s makes sending as long as
  // backward.
  Cluster cluster = machines(2, 25e9);
  cluster.host.message_s = 50e-6;
  const Workload resnet = model(kResNet50, kStep);
  const auto step_with = [&](std::int64_t mib) { return simulate(in_buckets(resnet, mib * kMiB), cluster).step_s; };
  const double good = std::min(step_with(10), step_with(25));
  EXPECT_GT(step_with(100), good * 1.02);
  for (const std::int64_t mib : {1, 2, 5, 50}) EXPECT_GT(step_with(mib), good * 0.97) << mib << " MiB";
}

}  // namespace published_test
}  // namespace lockstep::schedule
