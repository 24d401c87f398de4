// SPDX-License-Identifier: Apache-2.0
// The names that the origin's model.pkl has for the networks' tensors.
#pragma once

#include <string>

#include "common/origin_names.h"

namespace lockstep::captcha {

/// The table of a network (ModelOptions::type).
[[nodiscard]] common::OriginNames origin_names(const std::string& type);

}  // namespace lockstep::captcha
