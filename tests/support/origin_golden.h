// SPDX-License-Identifier: Apache-2.0
// The networks of tests/recipes/golden/origin_names.json: an original implementation's state dict with the script's
// weights, and its outputs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/number.h"
#include "lockstep/tensor/state_dict.h"
#include "support/fractions.h"
#include "support/shell.h"

namespace lockstep::test {

/// Computes the same weights as value_of() in make_origin_names.py.
inline at::Tensor origin_weight(const std::string& name, const std::vector<std::int64_t>& shape) {
  if (name.ends_with("num_batches_tracked")) return at::zeros(shape, at::kLong);
  const at::Tensor value = fractions(name, shape);
  if (shape.size() > 1) {
    const double fan_in = static_cast<double>(value.numel()) / static_cast<double>(shape[0]);
    return ((value - 0.5) * (2 * std::sqrt(3 / fan_in))).to(at::kFloat);
  }
  const bool scale = name.ends_with("weight") || name.ends_with("running_var");
  return (scale ? value * 0.5 + 0.75 : (value - 0.5) * 0.4).to(at::kFloat);
}

class OriginGolden {
 public:
  explicit OriginGolden(const std::string& name) : name_(name) {
    std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/origin_names.json");
    facts_ = nlohmann::json::parse(file).at(name);
  }

  /// The weights; entries whose names end with one of `computed` are 0: the original computes and saves them itself.
  [[nodiscard]] StateDict weights(const std::vector<std::string>& computed = {}) const {
    StateDict weights;
    for (const auto& [name, shape] : facts_.at("shapes").items()) {
      const auto sizes = shape.get<std::vector<std::int64_t>>();
      bool is_computed = false;
      for (const std::string& end : computed) is_computed = is_computed || name.ends_with(end);
      weights[name] = is_computed ? at::zeros(sizes) : origin_weight(name, sizes);
    }
    return weights;
  }
  /// The largest difference relative to the output's largest value.
  [[nodiscard]] double distance(const std::string& output, const at::Tensor& found) const {
    const auto numbers = facts_.at("outputs").at(output).get<std::vector<double>>();
    const at::Tensor expected = at::tensor(numbers, at::kDouble);
    EXPECT_EQ(found.numel(), expected.numel()) << output;
    const at::Tensor difference = found.detach().to(at::kDouble).flatten() - expected;
    return difference.abs().max().item<double>() / expected.abs().max().item<double>();
  }
  /// If PyTorch is installed, expects the original network to load the file in strict mode and to return equal outputs.
  void expect_read_in_python(const std::string& file) const {
    if (lockstep::testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0) return;
    const auto done = lockstep::testing::run_shell(
        fmt::format("/usr/bin/python3 {}/tests/recipes/golden/make_origin_names.py --read {} {} 2>&1",
                    LOCKSTEP_TEST_SOURCE_DIR, file, name_));
    ASSERT_EQ(done.code, 0) << done.text;
    std::istringstream lines(done.text);
    std::size_t outputs = 0;
    for (std::string output, distance; lines >> output >> distance; ++outputs) {
      const auto number = text::parse_number(distance);
      ASSERT_TRUE(number) << done.text;
      EXPECT_LT(*number, 1e-6) << output;
    }
    EXPECT_EQ(outputs, facts_.at("outputs").size()) << done.text;
  }

 private:
  std::string name_;
  nlohmann::json facts_;
};

}  // namespace lockstep::test
