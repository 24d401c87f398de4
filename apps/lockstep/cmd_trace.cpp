// SPDX-License-Identifier: Apache-2.0
// lockstep trace merge: merges the traces of a profiled run's ranks.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/view/trace_file.h"
#include "verbs.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

std::string clocks_text(const view::MergedTrace& merged) {
  if (merged.hosts == 1) return "one host, one clock";
  return fmt::format("{} hosts, clocks aligned to within {:.1f} us", merged.hosts, merged.error_us);
}

int merge(const std::vector<std::string>& arguments) {
  std::string run_dir;
  std::string out;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep trace merge",
                     .description = "Merge the traces of a profiled run's ranks into one, aligned to rank 0's "
                                    "clock.\n\nA run with --profile N writes RUN_DIR/trace/rank-R.json for each rank. "
                                    "Each host has the files of its own ranks; copy all files into one folder first.",
                     .examples = {"lockstep train captcha:digits --nproc-per-node 2 --profile 10 --run-dir runs/digits "
                                  "--set data.train=data/train",
                                  "lockstep trace merge runs/digits"}});
  app.add_option("RUN_DIR", run_dir, "the run's folder")->required();
  app.add_option("--out", out, "the file to write")->type_name("FILE")->default_str("RUN_DIR/trace/merged.json");
  if (!cli::parse(app, arguments)) return 0;
  FileSystem& files = FileSystem::system();
  if (!files.exists(run_dir)) throw DataError(fmt::format("{} is missing", run_dir), "pass a run folder");
  const view::MergedTrace merged = view::merge_traces(files, run_dir);
  const fs::path file = out.empty() ? fs::path(run_dir) / "trace" / "merged.json" : fs::path(out);
  write_file_atomically(files, file, merged.text);
  print_to(stdout, "{} has {} ({}): open it in https://ui.perfetto.dev\n", file.string(),
           text::counted(merged.ranks, "rank"), clocks_text(merged));
  return 0;
}

}  // namespace

int cmd_trace(int argc, char** argv) {
  return cli::dispatch({.name = "lockstep trace",
                        .description = "Work with the traces of profiled runs.",
                        .examples = {"lockstep trace merge runs/digits"}},
                       {{"merge", "merge the traces of a run's ranks into one", merge}}, {argv + 1, argv + argc});
}

}  // namespace lockstep::apps
