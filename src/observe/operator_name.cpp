// SPDX-License-Identifier: Apache-2.0
#include "observe/operator_name.h"

namespace lockstep::observe {
namespace {

constexpr std::string_view kCustom = "torch::autograd::CppNode<";

}  // namespace

bool is_engine(std::string_view name) { return name.starts_with("autograd::engine::"); }

std::string short_name(std::string_view name, view::CallKind kind) {
  if (kind == view::CallKind::kEngine) return "autograd engine";
  if (kind != view::CallKind::kBackwardNode) return std::string(name);
  if (!name.starts_with(kCustom)) {
    const std::size_t scope = name.rfind("::");
    return std::string(scope == std::string_view::npos ? name : name.substr(scope + 2));
  }
  std::string_view type = name.substr(kCustom.size());
  if (type.ends_with('>')) type.remove_suffix(1);
  const bool is_ours = type.starts_with("lockstep::");
  const std::size_t scope = type.find('<') == std::string_view::npos ? type.rfind("::") : std::string_view::npos;
  const std::string_view last = scope == std::string_view::npos ? type : type.substr(scope + 2);
  return (is_ours ? "lockstep::" : "") + std::string(last) + " backward";
}

}  // namespace lockstep::observe
