// SPDX-License-Identifier: Apache-2.0
// `lockstep plot`: the curves of runs in the terminal, as an image or as a table. The program lockstep executes it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/view/chart.h"
#include "lockstep/view/run_curves.h"
#include "lockstep/view/terminal.h"
#include "plot/picture.h"

namespace lockstep::plot {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string out;
  std::string csv;
  double smooth = 0.6;
};

CLI::Validator share() {
  return CLI::Validator(
      [](std::string& word) {
        const auto value = text::parse_number(word);
        return value && *value >= 0 && *value < 1 ? "" : word + " is not a number in the range [0, 1)";
      },
      "");
}

bool parse(Arguments& arguments, const std::vector<std::string>& words) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep plot",
                     .description = "Draw the curves of runs, finished or in progress: loss, metrics, learning rate "
                                    "and images/s. Without --out and --csv, the curves are drawn in the terminal.",
                     .examples = {"lockstep plot runs/first", "lockstep plot runs/first runs/second --out curves.png",
                                  "lockstep plot runs/first --csv curves.csv"}});
  app.add_option("RUN_DIR", arguments.runs, "run folders, or their log.jsonl files")->required();
  app.add_option("--out", arguments.out, "image file to write, .png or .svg")->type_name("FILE");
  app.add_option("--csv", arguments.csv, "CSV file to write: one row for each logged step and each epoch")
      ->type_name("FILE");
  cli::add_number(app, "--smooth", arguments.smooth,
                  "smoothing of loss and speed as in TensorBoard: the share of past values in each point; 0: none")
      ->type_name("SHARE")
      ->check(share());
  return cli::parse(app, words);
}

std::filesystem::path folder_of(const std::string& word) {
  const std::filesystem::path path(word);
  return path.filename() == view::kRunLog ? path.parent_path() : path;
}

std::vector<view::RunCurves> read_runs(const std::vector<std::string>& words) {
  std::vector<view::RunCurves> runs;
  for (const std::string& word : words) {
    runs.push_back(view::read_run_curves(folder_of(word)));
    const auto damaged = runs.back().damaged;
    if (damaged == 0) continue;
    log::note("{}: {} {} not a JSON object, and {} skipped", word, damaged, damaged == 1 ? "line is" : "lines are",
              damaged == 1 ? "is" : "are");
  }
  return runs;
}

void print(const std::vector<view::Chart>& charts) {
  const view::TextChartOptions options{
      .width = view::terminal_width(STDOUT_FILENO), .height = 10, .color = view::use_color(STDOUT_FILENO)};
  std::string text;
  for (const view::Chart& chart : charts) text += (text.empty() ? "" : "\n") + view::text_chart(chart, options);
  std::fwrite(text.data(), 1, text.size(), stdout);  // the names in `text` are already printable
}

int run(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!parse(arguments, words)) return 0;
  if (!arguments.out.empty()) require_picture(arguments.out);
  const auto runs = read_runs(arguments.runs);
  if (!arguments.csv.empty()) write_file_atomically(FileSystem::system(), arguments.csv, view::curves_csv(runs));
  if (!arguments.csv.empty() && arguments.out.empty()) return 0;
  const auto charts = view::charts_of(runs, arguments.smooth);
  if (arguments.out.empty()) {
    print(charts);
  } else {
    draw_picture(charts, arguments.out);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::plot

int main(int argc, char** argv) {
  lockstep::fault::this_is_lockstep();
  return lockstep::guarded_main([&] { return lockstep::plot::run({argv + 1, argv + argc}); });
}
