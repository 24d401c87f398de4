// SPDX-License-Identifier: Apache-2.0
// The original checkpoints: the networks, re-created in PyTorch with the original names (golden/make_origin_names.py),
// give the same logits and the same LoRM here, and can load this program's checkpoints.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/first_weights.h"
#include "segmentation/task.h"
#include "support/fault_of.h"
#include "support/origin_golden.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_origin_test {

using test::fault_of;
using test::fractions;
using test::OriginGolden;
using test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A network's original name, and this program's.
struct Network {
  const char* there;
  const char* here;
  friend void PrintTo(const Network& network, std::ostream* out) { *out << network.there; }
};

SegmentationConfig config_of(const std::string& type) {
  SegmentationConfig config;
  config.model_type = type;
  config.num_classes = 21;
  return config;
}

class SegmentationOrigin : public ::testing::TestWithParam<Network> {
 protected:
  SegmentationOrigin() : golden_(GetParam().there), config_(config_of(GetParam().here)), task_(config_) {
    TorchDict file{{"epoch", TorchValue{std::int64_t{49}}}, {"state_dict", to_torch_value(golden_.weights())}};
    export_torch_file(file_, TorchValue{std::move(file)});
  }

  const TempDir folder_;
  const std::filesystem::path file_ = folder_ / "model_best.pth";
  const OriginGolden golden_;
  const SegmentationConfig config_;
  SegmentationTask task_;
};

/// Returns the outputs computed with the file's batch norm statistics, including LoRM's output.
Outputs outputs_of(Segmenter& net) {
  const at::Tensor images = ((fractions("images", {2, 3, 41, 33}) - 0.5) * 4).to(at::kFloat);
  at::Tensor labels = (fractions("labels", {2, 41, 33}) * 25).floor();
  labels.masked_fill_(labels >= 21, 255);
  net.train();
  for (const auto& module : net.modules(/*include_self=*/false)) module->eval();
  const at::NoGradGuard guard;
  return net.forward(images, labels.to(at::kByte));
}

TEST_P(SegmentationOrigin, ItsCheckpointGivesItsLogitsHereAndOnTheWayBack) {
  auto model = task_.make_model();
  start_from_weights(task_, named_entries_of(*model), {.path = file_});
  auto& net = dynamic_cast<Segmenter&>(*model);
  for (const auto& [name, found] : outputs_of(net)) EXPECT_LT(golden_.distance(name, found), 1e-5) << name;

  const auto back = task_.origin_file({.model = model_state_dict(*model), .epochs = 7});
  ASSERT_TRUE(back);
  export_torch_file(folder_ / "back.pth", *back);
  golden_.expect_read_in_python((folder_ / "back.pth").string());
}

TEST_P(SegmentationOrigin, APartOfTheNetworkThatWouldStayAtRandomIsAnError) {
  StateDict weights = golden_.weights();
  for (const auto& [name, value] : golden_.weights()) {
    if (!name.starts_with("layer_pred0.") && !name.starts_with("layer5.")) continue;
    weights.erase(name);
    weights["head." + name] = value;
  }
  export_torch_file(file_, to_torch_value(weights));
  const auto model = task_.make_model();
  EXPECT_THAT(fault_of<DataError>([&] { start_from_weights(task_, named_entries_of(*model), {.path = file_}); }),
              AllOf(HasSubstr("random"), HasSubstr("--init-from-partial")));
  EXPECT_NO_THROW(start_from_weights(task_, named_entries_of(*model), {.path = file_, .may_be_partial = true}));
}

INSTANTIATE_TEST_SUITE_P(Its, SegmentationOrigin,
                         ::testing::Values(Network{"res50_ASPP_lorm", "aspp_lorm"}, Network{"deeplabv2", "deeplabv2"},
                                           Network{"deeplabv3p_lorm", "deeplabv3p_lorm"}));

TEST(SegmentationOriginFile, OfANetworkThatTheOriginDoesNotHaveIsRefused) {
  SegmentationConfig config = config_of("aspp_lorm");
  config.model.backbone.output_stride = 16;
  const SegmentationTask task(config);
  EXPECT_THAT(fault_of<UsageError>([&] { (void)task.origin_file({}); }), HasSubstr("stride 16"));
  // The original decoder expects 256 channels from layer1.
  SegmentationConfig shallow = config_of("deeplabv3p");
  shallow.model.backbone.layers = 18;
  const SegmentationTask with_decoder(shallow);
  EXPECT_THAT(fault_of<UsageError>([&] { (void)with_decoder.origin_file({}); }), HasSubstr("decoder on ResNet-18"));
}

}  // namespace segmentation_origin_test
}  // namespace lockstep::segmentation
