// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/platform.h"

#include <ATen/Version.h>

#include <algorithm>
#include <array>

#include "lockstep/base/env.h"
#include "lockstep/base/split.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kCore = "OPENBLAS_CORETYPE";
constexpr const char* kNone = "none";
constexpr std::size_t kMostBytes = 200;  // limit for all variables together, since the manifest limits a word's length

/// Variables that choose kernels, sorted by name.
constexpr std::array kVariables = {
    "ATEN_CPU_CAPABILITY", "DNNL_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",           "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",  "MKL_ENABLE_INSTRUCTIONS",  "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
};

bool is_plain(char c) { return c > ' ' && c <= '~'; }

std::string join(const std::string& libtorch, const std::string& set, const std::string& blas,
                 const std::string& variables) {
  std::vector<std::string> words = {"libtorch " + libtorch, set};
  if (!blas.empty()) words.push_back(blas);
  if (!variables.empty() && variables != kNone) words.push_back(variables);
  return text::join(words);
}

}  // namespace

std::string instruction_set() {
  // The public interface of libtorch 1.13 reports it only in this text: "  - CPU capability usage: AVX512\n".
  static const std::string name = [] {
    const std::string config = at::show_config();
    const std::string key = "CPU capability usage: ";
    const auto begin = config.find(key);
    if (begin == std::string::npos) return std::string("unknown");
    const auto from = begin + key.size();
    return config.substr(from, config.find('\n', from) - from);
  }();
  return name;
}

std::string blas_kernels() {
  const auto library = tensor::product_library();
  if (!library) return "";
  return library->core.empty() ? library->version : library->version + " " + library->core;
}

std::string kernel_variables() {
  const auto library = tensor::product_library();
  std::vector<std::string> words;
  for (const char* name : kVariables) {
    auto value = env::get(name);
    if (!value || (name == std::string(kCore) && library && library->core == *value)) continue;
    std::erase_if(*value, [](char c) { return !is_plain(c); });
    words.push_back(std::string(name) + "=" + *value);
  }
  return words.empty() ? kNone : text::join(words, " ").substr(0, kMostBytes);
}

std::vector<std::string> words_for_env(const Manifest& manifest) {
  if (manifest.kernel_variables.empty()) return {};
  std::vector<std::string> words;
  for (const char* name : kVariables) words.insert(words.end(), {"-u", name});
  const auto core = manifest.blas.rfind(' ');
  if (manifest.blas.starts_with("OpenBLAS ") && core > std::string("OpenBLAS").size()) {
    words.push_back(std::string(kCore) + "=" + manifest.blas.substr(core + 1));
  }
  for (const std::string& word : text::split_words(manifest.kernel_variables)) {
    const bool is_known = std::any_of(kVariables.begin(), kVariables.end(),
                                      [&](const char* name) { return word.starts_with(std::string(name) + "="); });
    if (is_known) words.push_back(word);  // a checkpoint may come from anyone, so it must not set any other variable
  }
  return words;
}

std::string platform() {
  return join(tensor::libtorch_version(), instruction_set(), blas_kernels(), kernel_variables());
}

std::string platform_of(const Manifest& manifest) {
  const std::string blas = manifest.blas.empty() || blas_kernels().empty() ? blas_kernels() : manifest.blas;
  const std::string& variables = manifest.kernel_variables;
  return join(manifest.libtorch, manifest.instruction_set, blas, variables.empty() ? kernel_variables() : variables);
}

}  // namespace lockstep::checkpoint
