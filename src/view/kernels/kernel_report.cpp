// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/kernel_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/view/table.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

using Cells = std::vector<std::string>;

std::string ms(double ns) { return fmt::format("{:.2f}", ns / 1e6); }

std::string count_text(double calls) {
  return calls == static_cast<double>(static_cast<std::int64_t>(calls)) ? fmt::format("{:.0f}", calls)
                                                                        : fmt::format("{:.1f}", calls);
}

/// Returns "203 GFLOP/s", or "8.1 GB/s" for a layer without products.
std::string rate_text(const KernelRow& row) {
  const double flops = row.forward.flops + row.backward.flops;
  const double bytes = row.forward.bytes + row.backward.bytes;
  if (row.ns() <= 0) return "";
  if (flops > 0) return fmt::format("{:.1f} GFLOP/s", flops / row.ns());
  return bytes > 0 ? fmt::format("{:.1f} GB/s", bytes / row.ns()) : "";
}

std::string share_text(const KernelRow& row) {
  return row.bound_ns > 0 && row.ns() > 0 ? fmt::format("{:.0f} %", 100 * row.bound_ns / row.ns()) : "";
}

std::string modules_text(const KernelRow& row) {
  if (row.modules.empty()) return "";
  if (row.modules.size() == 1) return row.modules.front();
  return fmt::format("{} +{}", row.modules.front(), row.modules.size() - 1);
}

Cells cells_of(const KernelRow& row) {
  return {row.layer,           count_text(row.calls), row.kernel,      row.instructions,  ms(row.forward.ns),
          ms(row.backward.ns), rate_text(row),        share_text(row), ms(row.lost_ns()), modules_text(row)};
}

/// Returns the columns in the order of cells_of(). On a narrow terminal, columns with the highest number are omitted
/// first. The first column takes the remaining width.
std::vector<Column> columns() {
  return {{"layer", 0, Align::kLeft},           {"n", 1},      {"kernel", 0, Align::kLeft},
          {"instructions", 0, Align::kLeft, 2}, {"fwd ms", 0}, {"bwd ms", 0},
          {"reaches", 0, Align::kRight, 1},     {"peak", 0},   {"lost", 0},
          {"module", 0, Align::kLeft, 3}};
}

constexpr int kGap = 2;
constexpr int kNarrowest = 20;
constexpr int kModule = 24;

int width_of(const std::vector<Column>& columns, int most_left_out) {
  int width = -kGap;
  for (const Column& column : columns) {
    if (column.leave_out <= most_left_out) width += column.width + kGap;
  }
  return width;
}

/// Returns the table. The layers' column becomes narrower once all other columns that may be omitted are gone.
std::string table_text(std::vector<Cells> rows, int width) {
  std::vector<Column> all = columns();
  for (Cells& row : rows) row.back() = fit(row.back(), kModule);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].width = std::max(all[i].width, display_width(all[i].title));
    for (const Cells& row : rows) all[i].width = std::max(all[i].width, display_width(row[i]));
  }
  const int least = width_of(all, 0);
  if (width > 0 && least > width) all[0].width = std::max(kNarrowest, all[0].width - (least - width));
  for (Cells& row : rows) row[0] = fit(row[0], all[0].width);
  const Table table(std::move(all), width);
  std::string text = table.header();
  for (const Cells& row : rows) text += table.row(row);
  return text;
}

std::string precision(const std::string& amp) { return amp == "none" ? "float32" : amp; }

std::string head_text(const KernelReport& report) {
  const KernelMachine& machine = report.machine;
  std::string text = fmt::format("{}, batch {}, {}, {} of {}: {} ms a step\n", report.settings.network,
                                 report.settings.batch, precision(report.settings.amp),
                                 text::counted(machine.threads, "thread"), machine.processor, ms(report.step_ns));
  text += fmt::format("measured peak: {:.0f} GFLOP/s in float32", machine.float32_flops_per_s / 1e9);
  if (machine.bfloat16_flops_per_s > 0) {
    text += fmt::format(", {:.0f} in bfloat16", machine.bfloat16_flops_per_s / 1e9);
  }
  return text + fmt::format("; memory {:.1f} GB/s\n\n", 2 * machine.copied_bytes_per_s / 1e9);
}

/// Layers below this share are lumped together.
constexpr double kLeastShare = 0.002;

std::string rest_text(const KernelReport& report, const std::vector<const KernelRow*>& shown) {
  double rest = 0;
  for (const KernelRow& row : report.rows) rest += row.ns();
  const double outside = std::max(0.0, report.step_ns - rest);
  for (const KernelRow* row : shown) rest -= row->ns();
  const std::size_t left = report.rows.size() - shown.size();
  std::string text;
  if (left > 0) text += fmt::format("{} more: {} ms\n", left, ms(std::max(0.0, rest)));
  return text +
         fmt::format("other parts of the step, such as the optimizer and the gradients' sums: {} ms\n", ms(outside));
}

constexpr const char* kLegend =
    "\nWinograd, direct, depthwise, one channel and fused are Lockstep's kernels, the\nothers libtorch's. peak: the "
    "time of the products at the measured peak, or of\nthe bytes at memory speed, as a share of the layer's time; "
    "Winograd needs\nfewer products than are counted, and caches are faster than memory. lost: ms\nabove that time.\n";

std::string maker_word(KernelMaker maker) {
  switch (maker) {
    case KernelMaker::kLockstep:
      return "lockstep";
    case KernelMaker::kOneDnn:
      return "onednn";
    case KernelMaker::kBlas:
      return "blas";
    case KernelMaker::kAten:
      return "aten";
  }
  return "";
}

std::string pass_json(const KernelPass& pass) {
  return fmt::format(R"({{"ms": {}, "flops": {}, "bytes": {}}})", text::json_number(pass.ns / 1e6, 4),
                     text::json_number(pass.flops, 0), text::json_number(pass.bytes, 0));
}

std::string row_json(const KernelRow& row) {
  std::vector<std::string> modules;
  for (const std::string& module : row.modules) modules.push_back(text::json_quote(module));
  const double share = row.ns() > 0 ? row.bound_ns / row.ns() : 0;
  return fmt::format(
      R"({{"layer": {}, "modules": [{}], "calls": {}, "kernel": {}, "maker": "{}", "instructions": {}, "type": {}, )"
      R"("forward": {}, "backward": {}, "share_of_peak": {}, "lost_ms": {}}})",
      text::json_quote(row.layer), text::join(modules), text::json_number(row.calls), text::json_quote(row.kernel),
      maker_word(row.maker), text::json_quote(row.instructions), text::json_quote(row.type), pass_json(row.forward),
      pass_json(row.backward), row.bound_ns > 0 ? text::json_number(share, 4) : "null",
      text::json_number(row.lost_ns() / 1e6, 4));
}

std::string machine_json(const KernelMachine& machine) {
  return fmt::format(
      R"({{"processor": {}, "threads": {}, "float32_flops_per_s": {}, "bfloat16_flops_per_s": {}, )"
      R"("copied_bytes_per_s": {}, "lockstep": {}, "aten": {}, "blas": {}, "libtorch": {}}})",
      text::json_quote(machine.processor), machine.threads, text::json_number(machine.float32_flops_per_s, 0),
      text::json_number(machine.bfloat16_flops_per_s, 0), text::json_number(machine.copied_bytes_per_s, 0),
      text::json_quote(machine.lockstep_vectors), text::json_quote(machine.aten_vectors),
      text::json_quote(machine.blas), text::json_quote(machine.libtorch));
}

std::string advice_json(const Check& advice) {
  return fmt::format(R"({{"about": {}, "why": {}, "set": {}}})", text::json_quote(advice.name),
                     text::json_quote(advice.value), text::json_quote(text::join(advice.hints)));
}

template <class Item, class Print>
std::string list_json(const std::vector<Item>& items, Print print) {
  std::vector<std::string> texts;
  for (const Item& item : items) texts.push_back(print(item));
  return text::join(texts);
}

}  // namespace

std::string kernels_text(const KernelReport& report, int width, bool color, std::size_t most_rows) {
  std::vector<const KernelRow*> shown;
  std::vector<Cells> rows;
  for (const KernelRow& row : report.rows) {
    if (shown.size() == most_rows || row.ns() < kLeastShare * report.step_ns) continue;
    shown.push_back(&row);
    rows.push_back(cells_of(row));
  }
  std::string text = head_text(report) + table_text(std::move(rows), width) + rest_text(report, shown) + kLegend + "\n";
  if (report.advice.empty()) return text + "no layer is known to be slow with these settings\n";
  return text + checks_text(report.advice, width, color);
}

std::string kernels_json(const KernelReport& report) {
  const KernelSettings& settings = report.settings;
  return fmt::format(
      "{{\"network\": {}, \"batch\": {}, \"amp\": {}, \"channels_last\": {}, \"fused_layers\": {}, \"step_ms\": {}, "
      "\"machine\": {}, \"layers\": [{}], \"advice\": [{}]}}\n",
      text::json_quote(settings.network), settings.batch, text::json_quote(settings.amp), settings.channels_last,
      settings.fused_layers, text::json_number(report.step_ns / 1e6, 4), machine_json(report.machine),
      list_json(report.rows, row_json), list_json(report.advice, advice_json));
}

}  // namespace lockstep::view
