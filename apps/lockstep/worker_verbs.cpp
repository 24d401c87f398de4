// SPDX-License-Identifier: Apache-2.0
#include "worker_verbs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "address_space.h"
#include "common/cli.h"
#include "common/start_notes.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/config.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/child.h"
#include "lockstep/launch/given_rank.h"
#include "lockstep/launch/gpus.h"
#include "lockstep/launch/processes.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/launch/train_options.h"
#include "lockstep/store/host_name.h"
#include "node_options.h"
#include "page_of_run.h"
#include "run_choice.h"
#include "start_folders.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// lockstep-worker is in this program's folder.
fs::path worker_path() { return fs::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker"; }

Words worker_command(const std::string& verb, const Words& arguments) {
  Words command = {worker_path().string(), verb};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// Executes the worker in this process, so that the exit code and signals are the worker's.
int execute(const std::string& verb, const Words& arguments) {
  require_address_space(blas_threads(false));
  Words command = worker_command(verb, arguments);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  const int error = errno;
  if (is_shortage(error)) throw shortage_error(fmt::format("execute {}", command[0]), error);
  throw ResourceError(fmt::format("cannot execute {}: {}", command[0], std::strerror(error)),
                      "build lockstep-worker, or install it in the same folder as lockstep");
}

// Applies --quiet and --log-level, which every verb accepts, and removes them before the verb reads its own options.
void obey_quiet(Words& arguments) {
  if (const auto level = take_option(arguments, "log-level")) cli::set_log_level(*level);
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const auto found = std::find(arguments.begin(), end, "--quiet");
  if (found == end) return;
  arguments.erase(found);
  cli::be_quiet();
}

bool asks_for_help(const Words& arguments) {
  return arguments.empty() || std::any_of(arguments.begin(), arguments.end(),
                                          [](const auto& word) { return word == "--help" || word == "-h"; });
}

// Replaces the short options of `train` with the long ones: the functions below know one name for each option.
void spell_out(Words& arguments) {
  for (std::string& word : arguments) {
    if (word == "--") return;
    const TrainOption* option = word.size() == 2 ? find_train_option(word) : nullptr;
    if (option != nullptr) word = option->name;
  }
}

// The file of --config; empty if there is none.
std::string config_file(const Words& arguments) {
  Words copy = arguments;
  return take_option(copy, "config").value_or("");
}

// The argument that names the recipe, or the file of --config if there is none.
std::string recipe_or_file(const Words& arguments) {
  const std::string word = recipe_word(arguments);
  const std::string file = word.empty() ? config_file(arguments) : word;
  return file.empty() ? "run" : file;
}

// True for a recipe's name and nothing else. One process is enough to report that the recipe has no data.
bool is_bare_recipe(const Words& arguments) {
  const std::string& what = arguments.front();
  return arguments.size() == 1 && what.find(':') == std::string::npos && !what.ends_with(".yml") &&
         !what.ends_with(".yaml");
}

// True if the command line gives the process its rank. Such a process has no launcher and does not launch others.
bool is_rank_by_address(const Words& arguments) {
  Words copy = arguments;
  const std::string url = take_option(copy, "dist-url").value_or("");
  return !url.empty() && !url.starts_with("env://");
}

// With one task per node under srun, mpirun or Kubernetes' training operator, a task with --nnodes is a launcher; a
// task without it is a rank.
bool is_launcher_of_a_task(Words arguments) {
  return take_option(arguments, "nnodes").has_value() && !env::get("LOCKSTEP_STORE");
}

// The options among the arguments that only a launcher obeys, as they were typed. One process is also that of a rank.
Words options_of_a_launcher(Words arguments) {
  Words found;
  for (const char* name : {"nproc-per-node", "max-restarts"}) {
    const auto value = take_option(arguments, name);
    const bool is_one_process = std::strcmp(name, "nproc-per-node") == 0 && value == "1";
    if (value && !is_one_process) found.push_back(fmt::format("--{} {}", name, *value));
  }
  if (take_dashboard(arguments)) found.emplace_back("--dashboard");
  return found;
}

// Returns true if this process is a rank of a job that something else started. A world of one rank which no launcher
// watches (a PyTorchJob with only a master, mpirun -np 1) is no such job if the options ask for a launcher.
bool is_rank_of_a_job(const Words& arguments) {
  if (!is_rank() || is_launcher_of_a_task(arguments)) return is_rank_by_address(arguments);
  const Words options = options_of_a_launcher(arguments);
  const auto given = given_rank();
  if (options.empty() || !given) return true;
  if (given->world_size == 1 && !given->has_launcher) {
    forget_given_rank();
    return false;
  }
  cli::keep_start_note(fmt::format("{} {} ignored: {} make this process rank {} of {}", text::join(options),
                                   options.size() == 1 ? "is" : "are", given->variables, given->rank,
                                   given->world_size));
  return true;
}

// The name of a run: "captcha" for "captcha:digits", "digits" for "settings/digits.yml".
std::string run_name(const std::string& what) {
  if (what.ends_with(".yml") || what.ends_with(".yaml")) return fs::path(what).stem().string();
  return what.substr(0, what.find(':'));
}

// Chooses the run folder and the checkpoint to resume from for all ranks. Returns the folder.
fs::path choose_run_dir(Words& arguments) {
  const std::string what = recipe_or_file(arguments);
  RunRequest request{.name = run_name(what),
                     .time = time_stamp(),
                     .run_dir = take_option(arguments, "run-dir"),
                     .resume = take_option(arguments, "resume").value_or("none")};
  const std::string typed = request.resume;
  const std::string file = config_file(arguments).empty() ? what : config_file(arguments);
  take_folders_of_recipes(arguments, file, request);
  const RunChoice choice = choose_run(request, FileSystem::system());
  if (!choice.note.empty()) cli::keep_start_note(choice.note);
  arguments.insert(arguments.end(), {"--run-dir", choice.run_dir.string(), "--resume", typed});
  return choice.run_dir;
}

// The folder for the logs of a node without rank 0. Only rank 0 chooses the run's folder and writes it; on other nodes
// the arguments are unchanged.
fs::path logs_of_another_node(const Words& arguments) {
  Words copy = arguments;
  const auto run_dir = take_option(copy, "run-dir");
  return run_dir ? fs::path(*run_dir) / "logs" : fs::path();
}

// The number of replicas in the settings; 0 if it is not set, or if the settings are invalid, which a rank reports.
std::int64_t replicas_of(const Words& arguments) {
  constexpr auto kTimeToCount = std::chrono::seconds(60);  // libtorch's GPU libraries may be on a slow disk
  Words command = worker_command("train", arguments);
  command.insert(std::find(command.begin(), command.end(), "--"), "--count-replicas");
  std::string out = run_child(std::move(command), kTimeToCount).out;
  while (out.ends_with('\n')) out.pop_back();
  return parse_whole(out.substr(out.rfind('\n') + 1), {}).value_or(0);
}

ProcessCount processes_for_training(const std::optional<std::string>& given) {
  return given ? resolve_process_count(*given) : choose_training_count(find_places());
}

// A training run is restarted, because it resumes from its last checkpoint; a command without checkpoints is not.
constexpr int kTrainRestarts = 3;

int restart_budget(const std::optional<std::string>& given) {
  return given ? static_cast<int>(whole_number("--max-restarts", *given, {})) : kTrainRestarts;
}

// Ranks that are asked to stop save the run first. Slurm's own limit (KillWait) is 30 s.
constexpr auto kTimeToSave = std::chrono::seconds(30);

struct Launch {
  int processes = 1;
  int max_restarts = 0;
  bool use_standby = true;
  fs::path log_dir = {};
  NodeOptions node = {};
};

int launch(const std::string& verb, const Words& arguments, const Launch& setup) {
  AgentOptions options{.command = worker_command(verb, arguments),
                       .processes = setup.processes,
                       .max_restarts = setup.max_restarts,
                       .use_standby = setup.use_standby,
                       .shutdown_timeout = kTimeToSave,
                       .log_dir = setup.log_dir,
                       .console = ConsoleStyle::kMainRaw};
  apply(setup.node, options);
  if (setup.processes > 1 && !env::get("OMP_NUM_THREADS")) {
    options.environment.emplace_back("OMP_NUM_THREADS", "1");  // set here, because the agent prints its note at once
    cli::keep_start_note(threads_note(setup.processes));
  }
  require_address_space(blas_threads(setup.processes > 1));
  return run_agent(options);
}

}  // namespace

std::optional<std::string> take_option(Words& arguments, const std::string& name) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--";) {
    const std::string word = cli::with_dashes(arguments[i].substr(0, arguments[i].find('=')));
    if (word != "--" + name) {
      ++i;
      continue;
    }
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    const std::size_t equals = at->find('=');
    if (equals != std::string::npos) {
      value = at->substr(equals + 1);
      arguments.erase(at);
    } else {
      if (at + 1 == arguments.end()) throw UsageError(fmt::format("--{} needs a value", name));
      value = *(at + 1);
      arguments.erase(at, at + 2);
    }
    if (value->empty()) throw UsageError(fmt::format("the value of --{} is empty", name), "omit it, or pass a value");
  }
  return value;
}

int cmd_train(int argc, char** argv) {
  Words arguments(argv + 1, argv + argc);
  const Words typed(argv, argv + argc);
  spell_out(arguments);
  obey_quiet(arguments);
  if (asks_for_help(arguments) || is_rank_of_a_job(arguments)) return execute("train", arguments);
  const auto count = take_option(arguments, "nproc-per-node");
  const auto page = take_dashboard(arguments);
  const auto restarts = take_option(arguments, "max-restarts");
  Launch setup{.max_restarts = restart_budget(restarts),
               .use_standby = std::erase(arguments, "--no-standby") == 0,
               .node = take_node_options(arguments)};
  AgentOptions nodes;
  apply(setup.node, nodes);
  if (arguments.empty()) {
    throw UsageError("lockstep train: no recipe or settings file was given",
                     "pass one, as in lockstep train captcha:digits; lockstep train --help lists the recipes");
  }
  require_token(nodes, typed);
  // Rank 0 chooses the run's folder, so the node with rank 0 must be known.
  // If another launcher on this machine serves the job, this node joins that job.
  choose_port(setup.node, nodes);
  if (nodes.node_rank < 0) await_name(nodes.master_addr);
  const bool serves = nodes.node_rank < 0 && can_listen(nodes.master_addr, nodes.master_port);
  if (serves) setup.node.node_rank = nodes.node_rank = 0;
  if (is_bare_recipe(arguments)) return execute("train", arguments);
  show_slices();
  ProcessCount processes = processes_for_training(count);
  const bool is_main_node = nodes.node_rank == 0;
  const bool tests_only = std::any_of(arguments.begin(), arguments.end(),
                                      [](const auto& word) { return cli::with_dashes(word) == "--test-only"; });
  setup.log_dir = tests_only     ? fs::path()
                  : is_main_node ? choose_run_dir(arguments) / "logs"
                                 : logs_of_another_node(arguments);
  const bool is_ours_to_choose = !count || count == "auto" || count == "gpu";
  if (is_ours_to_choose && processes.count > 1 && nodes.nodes == 1 && !tests_only) {
    processes = limit_to_replicas(processes, replicas_of(arguments));
  }
  setup.processes = processes.count;
  if (!count && !tests_only) {
    cli::keep_start_note(fmt::format("training with {} {}{}, because {}; --nproc-per-node N changes that",
                                     processes.count, processes.count == 1 ? "process" : "processes",
                                     nodes.nodes > 1 ? " on this node" : "", processes.reason));
  }
  const bool asks_for_restarts = restarts && setup.max_restarts > 0;
  const bool is_alone = processes.count == 1 && nodes.nodes == 1 && !asks_for_restarts;
  if (!is_alone && is_main_node && !tests_only) require_usable(setup.log_dir.parent_path());
  if (page && is_main_node && !tests_only) show_page_of_run(*page, setup.log_dir.parent_path());
  if (is_alone) return execute("train", arguments);
  return launch("train", arguments, setup);
}

int cmd_worker(int argc, char** argv) {
  const std::string verb = argv[0];
  Words arguments(argv + 1, argv + argc);
  obey_quiet(arguments);
  const bool is_for_ranks = verb == "eval" || verb == "tune" || verb == "bench";
  if (!is_for_ranks && verb != "inspect") forget_given_rank();  // inspect shows the variables
  if (asks_for_help(arguments) || is_rank_of_a_job(arguments)) return execute(verb, arguments);
  const auto count = take_option(arguments, "nproc-per-node");
  const int processes = count ? resolve_process_count(*count).count : 1;
  if (processes > 1 && !is_for_ranks) {
    throw UsageError(fmt::format("lockstep {} runs in one process, but --nproc-per-node is {}",
                                 verb == "kernels" ? "doctor kernels" : verb, processes),
                     "omit --nproc-per-node");
  }
  if (verb == "bench" && !arguments.empty() && arguments[0] == "startup") {
    return bench_startup(worker_path().string(), processes, {arguments.begin() + 1, arguments.end()});
  }
  if (processes == 1) return execute(verb, arguments);
  return launch(verb, arguments, {.processes = processes});
}

}  // namespace lockstep::apps
