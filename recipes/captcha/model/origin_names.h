// SPDX-License-Identifier: Apache-2.0
// The names of the networks' tensors in the original model.pkl.
#pragma once

#include <string>

#include "common/origin_names.h"

namespace lockstep::captcha {

/// Returns the table of a network (ModelOptions::type).
[[nodiscard]] common::OriginNames origin_names(const std::string& type);

}  // namespace lockstep::captcha
