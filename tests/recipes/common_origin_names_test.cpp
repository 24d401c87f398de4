// SPDX-License-Identifier: Apache-2.0
#include "common/origin_names.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/fault_of.h"

namespace lockstep::common {
namespace common_origin_names_test {

using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OriginNames table() {
  return {"the origin",
          {{{"enc.layers.*.norm*."}, "encoder*.norms.*."},
           {{"enc.layers.*.q.", "enc.layers.*.k."}, "encoder*.query_key."},
           {{"mask"}, ""},
           {{"out.bias"}, "classifier.bias"}}};
}

NamedTensors model() {
  return {{"encoder3.norms.2.weight", at::zeros({2})},
          {"encoder3.query_key.weight", at::zeros({4, 3})},
          {"classifier.bias", at::zeros({5})},
          {"same", at::zeros({1})}};
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  return names;
}

TEST(OriginNames, AreTakenRowByRowAndGivenBack) {
  const at::Tensor q = at::arange(6).view({2, 3}).to(at::kFloat);
  const StateDict file = {{"enc.layers.3.norm2.weight", at::ones({2})},
                          {"enc.layers.3.q.weight", q},
                          {"enc.layers.3.k.weight", q + 10},
                          {"out.bias", at::ones({5})},
                          {"mask", at::ones({9})},
                          {"same", at::ones({1})},
                          {"unknown", at::ones({1})}};
  StateDict weights = file;
  EXPECT_THAT(table().take(weights, model()), ElementsAre("4 entries named as in the origin became 3 entries"));
  EXPECT_THAT(names_of(weights), ElementsAre("classifier.bias", "encoder3.norms.2.weight", "encoder3.query_key.weight",
                                             "same", "unknown"));
  EXPECT_TRUE(std::get<at::Tensor>(weights.at("encoder3.query_key.weight")).slice(0, 2).equal(q + 10));

  StateDict back = table().give(weights);
  StateDict expected = file;
  expected.erase("mask");
  EXPECT_EQ(names_of(back), names_of(expected));
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(std::get<at::Tensor>(back.at(name)).equal(std::get<at::Tensor>(value))) << name;
}

TEST(OriginNames, WhatTheModelHasAlreadyStaysAndAFileOfOursIsLeftAlone) {
  StateDict weights = {{"classifier.bias", at::ones({5})}, {"same", at::ones({1})}};
  EXPECT_TRUE(table().take(weights, model()).empty());
  EXPECT_THAT(names_of(weights), ElementsAre("classifier.bias", "same"));
}

TEST(OriginNames, APartWithoutTheOthersAndANameOfNoTensorStayForTheReport) {
  StateDict weights = {{"enc.layers.3.q.weight", at::ones({2, 3})},
                       {"enc.layers.4.norm2.weight", at::ones({2})},
                       {"enc.layers.3.4.norm2.weight", at::ones({2})}};
  const StateDict before = weights;
  EXPECT_TRUE(table().take(weights, model()).empty());
  EXPECT_EQ(names_of(weights), names_of(before));
}

TEST(OriginNames, PartsThatDoNotFitTogetherAreAnErrorThatNamesThem) {
  StateDict weights = {{"enc.layers.3.q.weight", at::ones({2, 3})}, {"enc.layers.3.k.weight", at::ones({2, 4})}};
  EXPECT_THAT(fault_of<DataError>([&] { table().take(weights, model()); }),
              HasSubstr("enc.layers.3.q.weight, enc.layers.3.k.weight have incompatible shapes"));
}

}  // namespace common_origin_names_test
}  // namespace lockstep::common
