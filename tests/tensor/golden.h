// SPDX-License-Identifier: Apache-2.0
// Reads dumps that the scripts in golden/ folders made with PyTorch: JSON, a tensor as {"shape": [...], "data": [...]}.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {

/// `path` is relative to the tests folder.
inline nlohmann::json read_golden(const std::string& path) {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/" + path);
  if (!file) throw std::runtime_error("no golden file " + path);
  return nlohmann::json::parse(file);
}

/// A float32 tensor.
inline at::Tensor to_tensor(const nlohmann::json& dumped) {
  const auto shape = dumped.at("shape").get<std::vector<std::int64_t>>();
  const auto data = dumped.at("data").get<std::vector<float>>();
  at::Tensor tensor = at::empty(shape, at::kFloat);
  if (tensor.numel() != static_cast<std::int64_t>(data.size())) throw std::runtime_error("golden data of another size");
  std::copy(data.begin(), data.end(), tensor.data_ptr<float>());
  return tensor;
}

/// The largest |a - b| / (|b| + floor) over the elements.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b, double floor) {
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().to(at::kDouble);
  const at::Tensor y = b.detach().to(at::kDouble);
  return x.sub(y).abs().div(y.abs().add(floor)).max().item<double>();
}

}  // namespace lockstep::test
