// SPDX-License-Identifier: Apache-2.0
// Weights of the original program: its model.pkl gives PyTorch's logits here, and our weights give the same there.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "captcha/config.h"
#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/train/first_weights.h"
#include "support/fault_of.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep::captcha {
namespace captcha_origin_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

CaptchaConfig small(const std::string& type) {
  CaptchaConfig config;
  config.model_type = type;
  config.labels = {.charset = "0-4", .length = 2, .width = 32, .height = 16};
  return config;
}

class CaptchaOrigin : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0)
      GTEST_SKIP() << "python3-torch is not there";
    python("write");
  }
  void python(const std::string& mode) const {
    const auto done =
        testing::run_shell(fmt::format("/usr/bin/python3 {}/tests/recipes/golden/make_captcha_weights.py {} {} {}",
                                       LOCKSTEP_TEST_SOURCE_DIR, mode, GetParam(), folder_.path().string()));
    ASSERT_EQ(done.code, 0) << done.text;
  }
  [[nodiscard]] at::Tensor tensor(const char* file, const char* name) const {
    return std::get<at::Tensor>(read_torch_file(FileSystem::system(), folder_ / file).find(name)->value);
  }

  const test::TempDir folder_;
};

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST_P(CaptchaOrigin, ItsWeightsGiveItsLogitsHereAndOnTheWayBack) {
  const CaptchaConfig config = small(GetParam());
  CaptchaTask task(config);
  const auto net = task.make_model();
  start_from_weights(task, named_entries_of(*net), {.path = folder_ / "model.pkl"});
  net->eval();
  const at::NoGradGuard guard;
  const at::Tensor logits = tensor("seen.pth", "logits");
  EXPECT_LT(distance(dynamic_cast<CaptchaNet&>(*net).forward(tensor("seen.pth", "images")), logits), 1e-5);

  const auto file = task.origin_file({.model = model_state_dict(*net)});
  ASSERT_TRUE(file);
  export_torch_file(folder_ / "back.pkl", *file);
  python("read");
  EXPECT_LT(distance(tensor("again.pth", "logits"), logits), 1e-6);
}

TEST_P(CaptchaOrigin, WeightsOfItsOtherNetworkAreRefused) {
  const CaptchaConfig config = small(std::string(GetParam()) == "conv7" ? "conv3" : "conv7");
  CaptchaTask task(config);
  const auto net = task.make_model();
  EXPECT_THAT(
      fault_of<DataError>([&] { start_from_weights(task, named_entries_of(*net), {.path = folder_ / "model.pkl"}); }),
      AllOf(HasSubstr("model.pkl"), HasSubstr("--init-from-partial")));
}

INSTANTIATE_TEST_SUITE_P(Both, CaptchaOrigin, ::testing::Values("conv7", "conv3"));

}  // namespace captcha_origin_test
}  // namespace lockstep::captcha
