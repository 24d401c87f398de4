// SPDX-License-Identifier: Apache-2.0
#include "captcha/model/origin_names.h"

#include <fmt/format.h>

#include <vector>

namespace lockstep::captcha {
namespace {

/// Returns the index of each convolution among the features; its batch norm has the next index. Source:
/// AWDSCAN/pytorch-captcha (conv7) and dee1024/pytorch-captcha-recognition (conv3), captcha_cnn_model.py.
std::vector<int> places_of(const std::string& type) {
  if (type == "conv3") return {0, 5, 10};
  return {0, 4, 7, 11, 14, 17, 21};
}

}  // namespace

common::OriginNames origin_names(const std::string& type) {
  std::vector<common::OriginName> rows = {{{"fc.0."}, "head.0."}, {{"rfc.0."}, "head.3."}};
  int layer = 0;
  for (const int place : places_of(type)) {
    ++layer;
    rows.push_back({{fmt::format("layer{}.0.", layer)}, fmt::format("features.{}.", place)});
    rows.push_back({{fmt::format("layer{}.1.", layer)}, fmt::format("features.{}.", place + 1)});
  }
  return {type == "conv3" ? "pytorch-captcha-recognition" : "pytorch-captcha", std::move(rows)};
}

}  // namespace lockstep::captcha
