// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/state_hash.h"

#include <fmt/format.h>

#include "checkpoint/formats/entry_text.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {

void StateHash::add(const std::string& name, const StateDict& state) {
  const std::string prefix = name + "/";
  for (const auto& [entry, value] : state) {
    const std::string key = text::json_quote(prefix + entry);
    const auto* tensor = std::get_if<at::Tensor>(&value);
    hash_.update(fmt::format("{} {}{}\n", key, tensor == nullptr ? "json " : "", entry_text(value)));
    if (tensor == nullptr || tensor->numel() == 0) continue;
    hash_.update({static_cast<const char*>(tensor->data_ptr()), tensor->nbytes()});
  }
}

}  // namespace lockstep::checkpoint
