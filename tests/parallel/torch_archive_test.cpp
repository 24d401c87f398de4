// SPDX-License-Identifier: Apache-2.0
// A wrapped model in torch::save() and torch::load().
#include "lockstep/parallel/torch_archive.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include "support/alone.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace torch_archive_test {

struct Net : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) { return fc->forward(input); }
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
};

TEST(TorchArchive, OfAWrappedModelIsThatOfTheInnerOne) {
  const test::TempDir folder;
  const std::string file = (folder / "net.pt").string();
  Job job = testing::alone();
  DistributedDataParallel model(std::make_shared<Net>(), job);
  torch::save(model, file);
  auto plain = std::make_shared<Net>();
  torch::load(plain, file);
  EXPECT_TRUE(plain->fc->weight.equal(model->fc->weight));
}

TEST(TorchArchive, IsReadIntoAWrappedModel) {
  const test::TempDir folder;
  const std::string file = (folder / "net.pt").string();
  auto saved = std::make_shared<Net>();
  torch::save(saved, file);
  Job job = testing::alone();
  DistributedDataParallel model(Net(), job);
  torch::load(model, file);
  EXPECT_TRUE(model->fc->weight.equal(saved->fc->weight));
}

}  // namespace torch_archive_test
}  // namespace lockstep
