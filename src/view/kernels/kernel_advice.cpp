// SPDX-License-Identifier: Apache-2.0
// The combinations of network, settings and processor that are known to be slow, with a rule for each. Sources: the
// tables of docs/design/convolutions.md and docs/design/fused_layers.md, the code that chooses kernels (src/nn), and
// our own measurements.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/view/kernel_report.h"

namespace lockstep::view {
namespace {

using Advice = std::optional<Check>;

Check advice(std::string name, std::string value, std::string hint) {
  return {.name = std::move(name), .health = Health::kWarn, .value = std::move(value), .hints = {std::move(hint)}};
}

/// Returns the share of a step that these layers take.
double share(const KernelReport& report, const std::function<bool(const KernelRow&)>& is_meant) {
  double ns = 0;
  for (const KernelRow& row : report.rows) ns += is_meant(row) ? row.ns() : 0;
  return report.step_ns > 0 ? ns / report.step_ns : 0;
}

std::string percent_text(double share) { return fmt::format("{:.0f} %", share * 100); }
double giga(double rate) { return rate / 1e9; }

bool multiplies(const KernelRow& row) { return row.kind == LayerKind::kConvolution || row.kind == LayerKind::kProduct; }

/// Returns true if libtorch is at this version or later.
bool is_libtorch_from(const std::string& version, int major, int minor) {
  const std::size_t point = version.find('.');
  if (point == std::string::npos) return false;
  const auto number = [](std::string_view digits) {
    return static_cast<int>(text::parse_number(digits.substr(0, digits.find('.'))).value_or(0));
  };
  const int has_major = number(version);
  return has_major > major || (has_major == major && number(std::string_view(version).substr(point + 1)) >= minor);
}

Advice slow_bfloat16(const KernelReport& report) {
  const KernelMachine& machine = report.machine;
  if (report.settings.amp != "bf16") return std::nullopt;
  if (machine.bfloat16_is_slow) {
    return advice("amp",
                  "amp is bf16, but libtorch has no fast bfloat16 products on this processor: Lockstep's layers "
                  "multiply in float32 and round, and other layers are computed in software",
                  "--set amp=none");
  }
  if (machine.bfloat16_flops_per_s <= 0 || machine.bfloat16_flops_per_s >= machine.float32_flops_per_s) {
    return std::nullopt;
  }
  return advice("amp",
                fmt::format("amp is bf16, but bfloat16 products reach {:.0f} GFLOP/s here, float32 products {:.0f}",
                            giga(machine.bfloat16_flops_per_s), giga(machine.float32_flops_per_s)),
                "--set amp=none");
}

Advice unused_bfloat16(const KernelReport& report) {
  constexpr double kFaster = 1.3;
  constexpr double kMuch = 0.3;
  const KernelMachine& machine = report.machine;
  const double products = share(report, multiplies);
  if (report.settings.amp != "none" || machine.bfloat16_is_slow || products < kMuch ||
      machine.bfloat16_flops_per_s < kFaster * machine.float32_flops_per_s) {
    return std::nullopt;
  }
  return advice(
      "amp",
      fmt::format("products take {} of the step in float32, and bfloat16 products reach {:.1f} times their speed here",
                  percent_text(products), machine.bfloat16_flops_per_s / machine.float32_flops_per_s),
      "--set amp=bf16 (changes the bits of the result: docs/guide/mixed_precision.md)");
}

/// Returns the setting that makes Lockstep's own kernel compute a convolution.
std::string way_to_our_kernels(const KernelSettings& settings) {
  if (!settings.fused_layers) return "--set fused_layers=true";
  if (!settings.channels_last) return "--set channels_last=true";
  return "--set amp=none";
}

Advice bfloat16_of_new_libtorch(const KernelReport& report) {
  const auto is_meant = [](const KernelRow& row) {
    return row.kind == LayerKind::kConvolution && row.type == "bfloat16" && row.maker != KernelMaker::kLockstep;
  };
  const double part = share(report, is_meant);
  if (part <= 0 || !is_libtorch_from(report.machine.libtorch, 2, 13)) return std::nullopt;
  return advice("libtorch",
                fmt::format("libtorch {} computes convolutions in bfloat16 that take {} of the step; since 2.13 they "
                            "are 4 to 16 times slower (pytorch #183815)",
                            report.machine.libtorch, percent_text(part)),
                way_to_our_kernels(report.settings));
}

Advice plain_layers(const KernelReport& report) {
  if (report.settings.fused_layers) return std::nullopt;
  const double part = share(report, [](const KernelRow& row) { return row.maker != KernelMaker::kLockstep; });
  return advice("layers",
                fmt::format("fused_layers is false: libtorch's own layers take {} of the step", percent_text(part)),
                "--set fused_layers=true (changes the bits of the result)");
}

Advice plain_layout(const KernelReport& report) {
  const auto is_convolution = [](const KernelRow& row) { return row.kind == LayerKind::kConvolution; };
  if (report.settings.channels_last || share(report, is_convolution) <= 0) return std::nullopt;
  return advice("layout",
                "channels_last is false: Lockstep's kernels for convolutions and norms need channels-last images",
                "--set channels_last=true (changes the bits of the result)");
}

/// The smallest share of a step for which changing a network is worth it.
constexpr double kNoticed = 0.02;

Advice channels_for_winograd(const KernelReport& report) {
  constexpr std::int64_t kFewest = 16;
  constexpr std::int64_t kVector = 16;
  const auto is_meant = [](const KernelRow& row) {
    return row.is_plain_3x3 && row.maker == KernelMaker::kLockstep && row.kernel == "direct" &&
           std::min(row.in, row.out) > kFewest && (row.in % kVector != 0 || row.out % kVector != 0);
  };
  const double part = share(report, is_meant);
  if (part < kNoticed) return std::nullopt;
  const auto first = std::find_if(report.rows.begin(), report.rows.end(), is_meant);
  return advice("channels",
                fmt::format("3x3 convolutions whose channels are not a multiple of 16 take {} of the step, such as {} "
                            "to {}: the Winograd kernel needs multiples",
                            percent_text(part), first->in, first->out),
                fmt::format("use {} and {} channels there", (first->in + kVector - 1) / kVector * kVector,
                            (first->out + kVector - 1) / kVector * kVector));
}

Advice channels_for_norm(const KernelReport& report) {
  constexpr std::int64_t kVector = 8;
  const auto is_meant = [](const KernelRow& row) {
    return row.kind == LayerKind::kNorm && row.maker != KernelMaker::kLockstep && row.layer.starts_with("batch norm") &&
           row.in % kVector != 0;
  };
  const double part = share(report, is_meant);
  if (part < kNoticed || !report.settings.fused_layers) return std::nullopt;
  const auto first = std::find_if(report.rows.begin(), report.rows.end(), is_meant);
  return advice("channels",
                fmt::format("batch norms whose channels are not a multiple of 8 take {} of the step, such as {}: the "
                            "fused kernel needs multiples",
                            percent_text(part), first->in),
                fmt::format("use {} channels there", (first->in + kVector - 1) / kVector * kVector));
}

Advice odd_features(const KernelReport& report) {
  const auto is_meant = [](const KernelRow& row) {
    return row.kind == LayerKind::kProduct && row.type == "bfloat16" && row.maker != KernelMaker::kLockstep &&
           row.layer.starts_with("linear") && (row.in % 2 != 0 || row.out % 2 != 0);
  };
  const double part = share(report, is_meant);
  if (part < kNoticed || !report.settings.fused_layers) return std::nullopt;
  const auto first = std::find_if(report.rows.begin(), report.rows.end(), is_meant);
  return advice(
      "channels",
      fmt::format("linear layers with an odd number of features take {} of the step in bfloat16, such as {} to {}: "
                  "Lockstep's kernel processes two at a time",
                  percent_text(part), first->in, first->out),
      fmt::format("use {} and {} features there", first->in + first->in % 2, first->out + first->out % 2));
}

Advice small_batch(const KernelReport& report) {
  const std::int64_t threads = report.machine.threads;
  if (report.settings.batch <= 0 || report.settings.batch >= threads) return std::nullopt;
  return advice(
      "batch",
      fmt::format("{} threads share {}: norms, depthwise and one-channel convolutions give each thread whole images",
                  threads, text::counted(report.settings.batch, "image")),
      fmt::format("--set batch_size={} or more, or --set threads={}", threads, report.settings.batch));
}

Advice wrong_blas(const KernelReport& report) {
  if (report.machine.better_blas_kernels.empty()) return std::nullopt;
  return advice("BLAS",
                fmt::format("{} multiplies with its kernels for {}, but this processor can run those for {}",
                            report.machine.blas, report.machine.blas_kernels, report.machine.better_blas_kernels),
                "unset OPENBLAS_CORETYPE");
}

Advice unrolled_images(const KernelReport& report) {
  const double part = share(report, [](const KernelRow& row) { return row.kernel == "im2col"; });
  if (part < kNoticed || !report.settings.fused_layers) return std::nullopt;
  return advice("layers",
                fmt::format("convolutions that libtorch computes from copied images (im2col) take {} of the step",
                            percent_text(part)),
                "if the network is your own, use lockstep::nn::Conv2d for these layers");
}

}  // namespace

std::vector<Check> kernel_advice(const KernelReport& report) {
  constexpr std::array kRules = {slow_bfloat16,         unused_bfloat16,   bfloat16_of_new_libtorch,
                                 plain_layers,          plain_layout,      unrolled_images,
                                 channels_for_winograd, channels_for_norm, odd_features,
                                 small_batch,           wrong_blas};
  std::vector<Check> found;
  for (const auto& rule : kRules) {
    if (Advice one = rule(report)) found.push_back(std::move(*one));
  }
  return found;
}

}  // namespace lockstep::view
