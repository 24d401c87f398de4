// SPDX-License-Identifier: Apache-2.0
#include "train/settings/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace precision_test {

using train::precision_text;

const c10::Device kCpu(c10::kCPU);
const c10::Device kCuda(c10::kCUDA, 0);

/// libtorch's switches as they were, at the end of a test.
class Tf32 : public ::testing::Test {
 protected:
  Tf32() : products_(at::globalContext().allowTF32CuBLAS()), convolutions_(at::globalContext().allowTF32CuDNN()) {}
  ~Tf32() override {
    at::globalContext().setAllowTF32CuBLAS(products_);
    at::globalContext().setAllowTF32CuDNN(convolutions_);
  }

  static std::string text_with(const std::string& tf32) {
    TrainConfig config;
    config.tf32 = tf32;
    train::use_tf32(config);
    return precision_text(config, kCuda);
  }

 private:
  bool products_;
  bool convolutions_;
};

TEST_F(Tf32, IsPyTorchsChoiceUnlessSet) {
  EXPECT_EQ(text_with("default"), "float32, channels last, TF32 in convolutions");
}

TEST_F(Tf32, IsTurnedOnAndOffForProductsAndConvolutionsTogether) {
  EXPECT_EQ(text_with("true"), "float32, channels last, TF32");
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  EXPECT_EQ(text_with("false"), "float32, channels last, no TF32");
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
}

TEST_F(Tf32, IsOfNoInterestOnACpu) {
  TrainConfig config;
  config.tf32 = "true";
  EXPECT_EQ(precision_text(config, kCpu), "float32, channels last");
  config.amp = "bf16";
  EXPECT_EQ(precision_text(config, kCpu), "bf16 autocast, channels last");
  config.channels_last = false;
  EXPECT_EQ(precision_text(config, kCpu), "bf16 autocast");
  config.channels_last = true;
}

TEST(Precision, Float16ScalesTheLossAndNeedsAGpu) {
  TrainConfig config;
  config.amp = "fp16";
  EXPECT_TRUE(config.scales_loss());
  EXPECT_EQ(precision_text(config, kCuda), "fp16 autocast, channels last, scaled loss, TF32 in convolutions");
  EXPECT_NO_THROW(train::require_amp(config, kCuda));
  EXPECT_THROW(train::require_amp(config, kCpu), UsageError);
  config.grad_scaler.enabled = "false";
  EXPECT_FALSE(config.scales_loss());
}

TEST(Precision, TheSettingsAreReadAsTheyAreWrittenInYaml) {
  TrainConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text("tf32: true\ngrad_scaler: {enabled: false, growth_interval: 100}\n", "settings"));
  EXPECT_EQ(config.tf32, "true");
  EXPECT_EQ(config.grad_scaler.enabled, "false");
  EXPECT_EQ(config.grad_scaler.growth_interval, 100);
  EXPECT_THROW(fields.bind(ConfigTree::from_text("tf32: maybe\n", "settings")), UsageError);
}

TEST(Precision, ThatEveryKernelIsWaitedForIsSaidOfAGpuOnly) {
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(train::launch_blocking_text(kCuda), "");
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EQ(train::launch_blocking_text(kCuda),
            "CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel; for finding errors, slow");
  EXPECT_EQ(train::launch_blocking_text(kCpu), "");
  ::setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
  EXPECT_EQ(train::launch_blocking_text(kCuda), "");
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
}

}  // namespace precision_test
}  // namespace lockstep
