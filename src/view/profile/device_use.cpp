// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "lockstep/view/profile.h"

namespace lockstep::view {
namespace {

/// The first of these words in a kernel's name determines its kind. The names come from cuDNN, cuBLAS and libtorch.
constexpr std::array kKinds{
    std::pair{"Memcpy", "copies"},
    std::pair{"Memset", "fills"},
    std::pair{"nccl", "collectives"},
    std::pair{"batch_norm", "normalization"},
    std::pair{"bn_", "normalization"},
    std::pair{"layer_norm", "normalization"},
    std::pair{"GammaBeta", "normalization"},
    std::pair{"multi_tensor", "optimizer, clipping and average"},
    std::pair{"pool", "pooling"},
    std::pair{"nchwToNhwc", "convolution layouts"},
    std::pair{"nhwcToNchw", "convolution layouts"},
    std::pair{"fmha", "attention"},
    std::pair{"flash", "attention"},
    std::pair{"gemm", "products and convolutions"},
    std::pair{"gemv", "products and convolutions"},
    std::pair{"conv", "products and convolutions"},
    std::pair{"xmma", "products and convolutions"},
    std::pair{"cutlass", "products and convolutions"},
    std::pair{"grad_", "products and convolutions"},
    std::pair{"nvjet", "products and convolutions"},
    std::pair{"splitK", "products and convolutions"},
    std::pair{"softmax", "softmax"},
    std::pair{"SoftMax", "softmax"},
    std::pair{"reduce", "sums"},
    std::pair{"copy", "conversions and copies"},
    std::pair{"elementwise", "element by element"},
    std::pair{"index", "indexing"},
    std::pair{"gather", "indexing"},
    std::pair{"scatter", "indexing"},
};

std::string_view kind_of(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kKinds, [&](const auto& kind) { return name.find(kind.first) != std::string_view::npos; });
  return found == kKinds.end() ? "other" : found->second;
}

/// Returns a kernel's name without the result type, the namespaces, and the arguments after the last template
/// parameter. "Memcpy HtoD (Pinned -> Device)" does not change.
std::string short_kernel_name(std::string_view name) {
  if (name.starts_with("Mem")) return std::string(name);
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string out;
  int depth = 0;  // depth of template parameters
  for (std::size_t i = 0; i < name.size(); ++i) {
    constexpr std::string_view kAnonymous = "(anonymous namespace)::";
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    if (name[i] == '(' && depth == 0) break;
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    out += name[i];
    if (out.ends_with("::")) {
      const std::size_t begin = out.find_last_of("<, ", out.size() - 3);
      out.resize(begin == std::string::npos ? 0 : begin + 1);
    }
  }
  return out;
}

std::vector<DeviceRow> sorted(const std::map<std::string, DeviceRow>& rows) {
  std::vector<DeviceRow> list;
  for (const auto& [name, row] : rows) list.push_back({name, row.calls, row.ns});
  std::ranges::stable_sort(list, std::greater<>(), &DeviceRow::ns);
  return list;
}

}  // namespace

DeviceUse device_use(const Profile& profile) {
  DeviceUse use;
  std::vector<DeviceCall> calls = profile.device;
  std::ranges::sort(calls, {}, &DeviceCall::begin_ns);
  std::map<std::string, DeviceRow> rows;
  std::map<std::string, DeviceRow> kinds;
  std::int64_t until = calls.empty() ? 0 : calls.front().begin_ns;
  for (const DeviceCall& call : calls) {
    if (call.begin_ns > until) ++use.gaps;
    use.busy_ns += std::max<std::int64_t>(call.end_ns - std::max(call.begin_ns, until), 0);
    until = std::max(until, call.end_ns);
    for (DeviceRow* row : {&rows[short_kernel_name(call.name)], &kinds[std::string(kind_of(call.name))]}) {
      ++row->calls;
      row->ns += call.end_ns - call.begin_ns;
    }
  }
  use.rows = sorted(rows);
  use.kinds = sorted(kinds);
  return use;
}

}  // namespace lockstep::view
