// SPDX-License-Identifier: Apache-2.0
// `lockstep bisect`: finds the first step at which two runs differ, and its first differing layer and operator.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "common/cli.h"
#include "common/temporary_folder.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/platform.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/launch/child.h"
#include "lockstep/view/digest_chain.h"
#include "lockstep/view/table.h"
#include "worker/commands.h"
#include "worker/explain/compare.h"
#include "worker/explain/replay.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

struct BisectArguments {
  std::string a;
  std::string b;
  std::vector<std::string> records;  ///< records of A and B from `explain --record`; empty: replay both runs
  bool only_step = false;
  bool yes = false;
  bool json = false;
};

bool parse(BisectArguments& bisect, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep bisect",
       .description = "Find where two runs that should be equal diverge: first the step at which their digests differ, "
                      "then, by replaying that step of both runs, the first layer and operator whose results differ.",
       .examples = {"lockstep bisect runs/monday runs/tuesday", "lockstep bisect runs/a runs/b --only-step"},
       .notes = {"The runs may have used different machines and different numbers of processes. Exit code: 0 "
                 "the runs are equal, 1 they differ, 64 and above an error."}});
  app.add_option("A", bisect.a, "a run folder")->required()->type_name("A");
  app.add_option("B", bisect.b, "the run folder to compare with A")->required()->type_name("B");
  app.add_option("--records", bisect.records,
                 "compare these two records of the step, A's and B's, written by `lockstep explain --record` on the "
                 "runs' machines, instead of replaying the step here")
      ->expected(2)
      ->type_name("FILE");
  app.add_flag("--only-step", bisect.only_step, "compare only the digests, without a replay");
  app.add_flag("--yes", bisect.yes, "replay even if it takes more than two minutes");
  app.add_flag("--json", bisect.json, "print one JSON object instead of text");
  return cli::parse(app, arguments);
}

/// The replay of the step in one run, and how it compares with the run itself.
struct Side {
  std::string run;
  StepRecord record;
  bool repeats = false;
  std::string elsewhere = {};  ///< the two platforms if the replay's differs from the run's; else empty
};

/// The manifest of the nearest checkpoint before the step, which contains the run's platform.
std::optional<Manifest> manifest_of(const std::string& run, std::int64_t step) {
  const fs::path folder = fs::path(run) / "checkpoints";
  auto found = find_newest_finite(FileSystem::system(), folder, step);
  if (!found) found = find_newest_valid(FileSystem::system(), folder);
  if (!found) return {};
  return load_checkpoint(found->string()).manifest();
}

Side side_of(const std::string& run, const view::DigestRecord& own, const fs::path& file) {
  Side side{.run = run, .record = read_record(file)};
  if (side.record.step != own.step) {
    throw DataError(fmt::format("{} is a record of step {}, but the runs first differ at step {}", file.string(),
                                side.record.step, own.step),
                    fmt::format("lockstep explain {} --step {} --record {}", run, own.step, file.string()));
  }
  const auto manifest = manifest_of(run, own.step);
  side.repeats = has_digest(side.record, own);
  const std::string then = manifest ? checkpoint::platform_of(*manifest) : side.record.platform;
  if (then != side.record.platform) {
    side.elsewhere = fmt::format("{} ran with {}, and was replayed with {}", run, then, side.record.platform);
  }
  return side;
}

// Replays in a separate process with the run's environment variables, because libtorch chooses its kernels only once
// per process.
Side replayed(const std::string& run, const view::DigestRecord& own, bool yes, const fs::path& file) {
  const std::string step = std::to_string(own.step);
  const auto manifest = manifest_of(run, own.step);
  std::vector<std::string> command = manifest ? checkpoint::words_for_env(*manifest) : std::vector<std::string>();
  command.insert(command.begin(), "env");
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  command.insert(command.end(), {self, "explain", run, "--step", step, "--record", file.string()});
  if (yes) command.emplace_back("--yes");
  const ChildResult child = run_child(std::move(command), std::chrono::hours(24));
  if (child.code != 0) {
    const std::size_t error = child.err.find("error: ");  // warnings may come first
    const std::string why =
        error == std::string::npos ? fmt::format("exit code {}", child.code) : child.err.substr(error + 7);
    throw DataError(
        fmt::format("step {} of {} could not be replayed: {}", step, run, std::string(text::first_line(why))));
  }
  return side_of(run, own, file);
}

/// "rank 1 of 2", if the run's summary has its world size.
std::string carrier(const std::string& run, int replica) {
  const fs::path file = fs::path(run) / "summary.json";
  if (!FileSystem::system().exists(file)) return "";
  const nlohmann::json summary = read_json_file(FileSystem::system(), file);
  const int world = summary.value("world_size", 0);
  const int replicas = summary.value("replicas", 0);
  for (int rank = 0; rank < world; ++rank) {
    const ReplicaSpan span = replicas_of_rank(rank, world, replicas);
    if (span.begin <= replica && replica < span.end) return fmt::format("rank {} of {}", rank, world);
  }
  return "";
}

/// The differences between the two runs: in platform, as recorded in the nearest checkpoints, and in settings.
Rows world_rows(const BisectArguments& bisect, std::int64_t step) {
  Rows rows;
  const auto compare = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) rows.push_back({what, a, b});
  };
  const auto a = manifest_of(bisect.a, step);
  const auto b = manifest_of(bisect.b, step);
  if (a && b) {
    compare("libtorch", a->libtorch, b->libtorch);
    compare("instruction set", a->instruction_set, b->instruction_set);
    compare("matrix products", a->blas, b->blas);
    if (!a->kernel_variables.empty() && !b->kernel_variables.empty()) {
      compare("kernel variables", a->kernel_variables, b->kernel_variables);
    }
  }
  const auto settings = [](const std::string& run) {
    const fs::path file = settings_of_run(run);
    return ConfigTree::from_text(FileSystem::system().read(file), file.string()).values();
  };
  const auto left = settings(bisect.a);
  const auto right = settings(bisect.b);
  for (const auto& [key, value] : left) {
    const auto other = right.find(key);
    compare(key, value.yaml, other == right.end() ? "-" : other->second.yaml);
  }
  for (const auto& [key, value] : right) {
    if (!left.contains(key)) rows.push_back({key, "-", value.yaml});
  }
  return rows;
}

/// The size and modification time of a sample's file, if it has one: "1,204 bytes, 2026-11-28 08:40:12 UTC".
std::string file_text(const std::string& name) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) return "-";
  return fmt::format("{} bytes, {:%Y-%m-%d %H:%M:%S} UTC", text::thousands(status.st_size),
                     fmt::gmtime(status.st_mtime));
}

Rows changed_rows(const StepDifference& found) {
  Rows rows;
  for (const auto& [in_a, in_b] : found.changed) rows.push_back({in_a, file_text(in_a), file_text(in_b)});
  return rows;
}

/// The position of the difference in the step, as text.
std::string place_text(const StepDifference& found) {
  switch (found.part) {
    case Part::kNone:
      return "no difference in the replays";
    case Part::kWeights:
      return "the weights before the step, so earlier checkpoints already differ";
    case Part::kSamples:
      if (found.a == found.b) return fmt::format("the content of {}", found.a);
      return fmt::format("the samples of replica {}: {} in A, {} in B", found.replica, found.a, found.b);
    case Part::kUpdate:
      if (found.a == found.b) return fmt::format("the update, from the same gradients and learning rate: {}", found.a);
      return fmt::format("the update: {} in A, {} in B", found.a, found.b);
    case Part::kGradients:
      return fmt::format("the reduced gradient of {}", found.layer);
    case Part::kForward:
    case Part::kBackward:
      break;
  }
  const std::string what = found.a == found.b ? found.a : fmt::format("{} in A, {} in B", found.a, found.b);
  return fmt::format("the {}{}: {}", part_name(found.part),
                     found.layer.empty() ? "" : fmt::format(" of layer {}", found.layer), what);
}

/// Reports whether the replays reproduce their runs. If a replay does not reproduce its run's bits, the run was
/// disturbed, or its files have changed since.
std::string repeat_text(const Side& a, const Side& b) {
  if (a.repeats && b.repeats) return "each matches the digests of its run: the difference is in the computation";
  if (!a.repeats && !b.repeats) {
    return "neither matches the digests of its run: the machine, libtorch or the data differ from those of the runs";
  }
  const Side& off = a.repeats ? b : a;
  return fmt::format(
      "{} was not reproduced: the digests of its replay differ from the run's. A bit flipped during the run, its data "
      "have changed since, or this machine computes differently from the run's",
      off.run);
}

void print_rows(const std::string& title, std::vector<view::Column> columns, const Rows& rows) {
  if (rows.empty()) return;
  cli::print(fmt::format("\n{}\n{}", title, view::render_table(std::move(columns), rows)));
}

void print_text(const BisectArguments& bisect, const view::DigestDifference& step, const Side& a, const Side& b,
                const StepDifference& found) {
  cli::print(fmt::format("{} and {} first differ at step {} ({}): {}\n", bisect.a, bisect.b,
                         text::thousands(step.a.step), view::differing_parts(step), place_text(found)));
  if (found.replica >= 0) {
    const std::string in_a = carrier(bisect.a, found.replica);
    const std::string in_b = carrier(bisect.b, found.replica);
    print_to(stdout, "  replica    {}{}\n", found.replica,
             in_a.empty() || in_b.empty() ? "" : fmt::format(", of {} in A and {} in B", in_a, in_b));
  }
  print_to(stdout, "  replays    {}\n", repeat_text(a, b));
  for (const Side* side : {&a, &b}) {
    if (!side->elsewhere.empty()) print_to(stdout, "  platform   {}\n", side->elsewhere);
  }
  Rows samples;
  for (const SampleRecord& sample : found.samples) {
    const bool changed = std::any_of(found.changed.begin(), found.changed.end(),
                                     [&](const auto& names) { return names.first == sample.name; });
    samples.push_back({std::to_string(sample.index), sample.name, changed ? "differs" : ""});
  }
  print_rows("samples of the replica's batch",
             {{"index"}, {"sample", 0, view::Align::kLeft}, {"", 0, view::Align::kLeft}}, samples);
  Rows rows = changed_rows(found);
  for (auto& row : world_rows(bisect, step.a.step)) rows.push_back(std::move(row));
  print_rows("differences between the runs",
             {{"", 0, view::Align::kLeft}, {"A", 0, view::Align::kLeft}, {"B", 0, view::Align::kLeft}}, rows);
}

nlohmann::json to_json(const view::DigestDifference& step, const Side& a, const Side& b, const StepDifference& found) {
  return {{"equal", false},
          {"step", step.a.step},
          {"differs", view::differing_parts(step)},
          {"part", part_name(found.part)},
          {"layer", found.layer},
          {"a", found.a},
          {"b", found.b},
          {"replica", found.replica},
          {"changed", found.changed},
          {"a_repeats", a.repeats},
          {"b_repeats", b.repeats},
          {"a_platform", a.elsewhere},
          {"b_platform", b.elsewhere}};
}

int say_equal(const BisectArguments& bisect, std::int64_t steps) {
  if (steps == 0) throw DataError("the two runs have no step in common", "compare runs that started the same way");
  if (bisect.json) {
    cli::print_json(nlohmann::json({{"equal", true}, {"steps", steps}}).dump() + "\n");
  } else {
    print_to(stdout, "equal: {} steps have the same digests\n", text::thousands(steps));
  }
  return 0;
}

}  // namespace

int cmd_bisect(const Arguments& arguments) {
  BisectArguments bisect;
  if (!parse(bisect, arguments)) return 0;
  (void)settings_of_run(bisect.a);
  (void)settings_of_run(bisect.b);
  const view::DigestChain left = view::DigestChain::load(bisect.a);
  const view::DigestChain right = view::DigestChain::load(bisect.b);
  const auto step = view::first_difference(left, right);
  if (!step) return say_equal(bisect, view::common_steps(left, right));
  if (bisect.only_step) {
    print_to(stdout, "{} and {} first differ at step {} ({})\n", bisect.a, bisect.b, text::thousands(step->a.step),
             view::differing_parts(*step));
    return 1;
  }
  const apps::TemporaryFolder scratch("lockstep-bisect");
  const fs::path folder(scratch.path());
  const bool here = bisect.records.empty();
  const Side a = here ? replayed(bisect.a, step->a, bisect.yes, folder / "a.json")
                      : side_of(bisect.a, step->a, bisect.records.front());
  const Side b = here ? replayed(bisect.b, step->b, bisect.yes, folder / "b.json")
                      : side_of(bisect.b, step->b, bisect.records.back());
  const StepDifference found = first_difference(a.record, b.record);
  if (bisect.json) {
    cli::print_json(to_json(*step, a, b, found).dump() + "\n");
  } else {
    print_text(bisect, *step, a, b, found);
  }
  return 1;
}

}  // namespace lockstep::worker
