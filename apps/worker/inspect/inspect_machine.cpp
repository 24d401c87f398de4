// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/inspect.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "common/cli.h"
#include "common/commit.h"
#include "lockstep/base/cuda_library.h"
#include "lockstep/base/env.h"
#include "lockstep/base/nccl_library.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/backends.h"
#include "lockstep/launch/processes.h"
#include "lockstep/nn/processor.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/torch_version.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/table.h"
#include "lockstep/view/terminal.h"
#include "worker/inspect/variables.h"

namespace lockstep::worker {
namespace {

using view::Align;
using Rows = std::vector<std::vector<std::string>>;

template <class Value>
std::string or_dash(const std::optional<Value>& value, const char* unit) {
  return value ? fmt::format("{:.0f} {}", static_cast<double>(*value), unit) : "-";
}

std::string process_text(const GpuProcess& process) {
  std::string text = fmt::format("{}", process.pid);
  if (process.rank) text = fmt::format("rank {} (pid {})", *process.rank, process.pid);
  return process.bytes == 0 ? text : fmt::format("{} {}", text, text::bytes(process.bytes));
}

std::string memory_text(const GpuState& gpu) {
  if (gpu.total_bytes == 0) return "-";
  return fmt::format("{} of {}", text::bytes(gpu.used_bytes), text::bytes(gpu.total_bytes));
}

std::vector<std::string> gpu_row(const GpuState& gpu) {
  std::vector<std::string> processes;
  for (const GpuProcess& process : gpu.processes) processes.push_back(process_text(process));
  return {std::to_string(gpu.index),     gpu.name,
          or_dash(gpu.percent, "%"),     memory_text(gpu),
          or_dash(gpu.celsius, "C"),     or_dash(gpu.watts, "W"),
          or_dash(gpu.megahertz, "MHz"), processes.empty() ? "-" : text::join(processes)};
}

std::string nccl_text() {
  if (!tensor::has_cuda()) return fmt::format("not used: {}", cuda::library().obstacle.problem);
  const nccl::Library& library = nccl::library();
  return library.problem.empty() ? fmt::format("{} ({})", library.version, library.path) : library.problem;
}

std::string cuda_text() { return tensor::has_cuda() ? "with CUDA" : "no CUDA: " + cuda::library().obstacle.problem; }

std::string wire_text() {
  const auto wire = env::get("LOCKSTEP_WIRE");
  return wire ? fmt::format("{}, from LOCKSTEP_WIRE", text::printable_line(*wire)) : "tls, the default";
}

/// The instruction set that Lockstep's kernels use on this processor.
std::string kernels_text() {
  const nn::KernelProcessor processor = nn::kernel_processor();
  std::string text = processor.vectors;
  if (processor.bfloat16_vectors) text += ", bfloat16 vectors";
  if (processor.bfloat16_tiles) text += ", bfloat16 tiles (AMX)";
  return text;
}

std::string libtorch_text() { return fmt::format("{}, {}", tensor::libtorch_version(), cuda_text()); }

Rows machine_rows() {
  const view::CpuInfo cpu = view::cpu_info();
  const GpuReport report = read_gpus();
  const auto blas = tensor::product_library();
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string gpus = report.problem;
  if (gpus.empty()) gpus = fmt::format("{}, driver {}", report.gpus.size(), report.driver);
  return {{"lockstep", std::string(kVersion)},
          {"commit", *cli::kCommit != '\0' ? cli::kCommit : "not known"},
          {"libtorch", libtorch_text()},
          {"kernels", kernels_text()},
          {"matrix products", blas ? blas->text() : "neither MKL nor OpenBLAS"},
          {"backends", text::join(built_backends())},
          {"NCCL", nccl_text()},
          {"wire", wire_text()},
          {"host", host.data()},
          {"processor", fmt::format("{}, {}", cpu.name, text::counted(cpu.cores, "usable core"))},
          {"GPUs", gpus},
          {"GPUs for libtorch", fmt::format("{}", tensor::cuda_device_count())},
          {"--nproc-per-node", resolve_process_count("auto").reason}};
}

/// Shortens long values such as PATH, so that the column of meanings stays on the page.
Rows shortened(Rows rows) {
  constexpr int kWidest = 40;
  for (auto& row : rows) row[1] = view::fit(row[1], kWidest);
  return rows;
}

void print_pairs(const Rows& rows) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.front().size());
  for (const auto& row : rows) print_to(stdout, "{:<{}}  {}\n", row.front(), width, row.back());
}

}  // namespace

std::string gpu_text(const GpuReport& report) {
  if (report.gpus.empty()) return fmt::format("no GPU: {}\n", report.problem);
  Rows rows;
  for (const GpuState& gpu : report.gpus) rows.push_back(gpu_row(gpu));
  const auto column = [](const char* title, Align align) { return view::Column{.title = title, .align = align}; };
  return view::render_table(
      {column("GPU", Align::kRight), column("name", Align::kLeft), column("use", Align::kRight),
       column("memory", Align::kRight), column("temp", Align::kRight), column("power", Align::kRight),
       column("clock", Align::kRight), column("processes", Align::kLeft)},
      rows);
}

int inspect_gpu(const Arguments& arguments) {
  double seconds = 0;
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep inspect gpu",
       .description =
           "Show the utilisation, memory, temperature, power and clock of each GPU of this host, and the ranks on it.",
       .examples = {"lockstep inspect gpu --watch 2"}});
  cli::add_number(app, "--watch", seconds, "repeat at this interval until Ctrl-C")
      ->check(cli::above_zero())
      ->type_name("SECONDS")
      ->default_str("once");
  if (!cli::parse(app, arguments)) return 0;
  while (true) {
    const GpuReport report = read_gpus();
    if (seconds > 0 && view::is_terminal(STDOUT_FILENO)) print_to(stdout, "\033[H\033[J");
    print_to(stdout, "{}", gpu_text(report));
    std::fflush(stdout);
    if (seconds == 0 || report.gpus.empty() || std::ferror(stdout) != 0) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
}

int print_libraries() {
  print_to(stdout, "libtorch  {}\nkernels   {}\n", libtorch_text(), kernels_text());
  return 0;
}

int inspect_env(const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep inspect env",
                     .description = "Show what was detected on this machine, and every variable that a run reads.\n\nA "
                                    "variable that is not set is shown as '-'.",
                     .examples = {"lockstep inspect env"}});
  if (!cli::parse(app, arguments)) return 0;
  print_pairs(machine_rows());
  Rows rows;
  for (const Variable& variable : all_variables(env::all())) {
    rows.push_back({variable.name, variable.value.value_or("-"), variable.meaning});
  }
  print_to(stdout, "\n{}",
           view::fit_lines(view::render_table({{.title = "variable", .align = Align::kLeft},
                                               {.title = "value", .align = Align::kLeft},
                                               {.title = "what it does", .align = Align::kLeft}},
                                              shortened(std::move(rows))),
                           STDOUT_FILENO));
  return 0;
}

}  // namespace lockstep::worker
