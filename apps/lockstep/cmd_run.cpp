// SPDX-License-Identifier: Apache-2.0
// `lockstep run`: torchrun's options, then a program and its arguments.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "address_space.h"
#include "common/cli.h"
#include "common/launch_options.h"
#include "console_options.h"
#include "host_options.h"
#include "installation.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/gpus.h"
#include "lockstep/launch/processes.h"
#include "node_options.h"
#include "page_of_run.h"
#include "verbs.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

struct RunOptions {
  std::string processes = "1";
  NodeOptions node;
  HostChoice hosts;
  bool has_orders_on_input = false;
  std::string role = "default";
  int max_restarts = 0;
  double shutdown_timeout = 10;
  std::string log_dir;
  bool is_standalone = false;
  bool is_module = false;
  bool no_python = false;
  bool no_standby = false;
  bool run_path = false;
  bool virtual_local_rank = false;
  std::string tee = "0";
  std::string redirects = "0";
  std::string local_ranks;
  std::string prefix = "[${rank}]: ";
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2";
  std::string new_token;  // file for the token; empty: print the token
  std::string dashboard;
  std::string ignored;
  bool is_ignored = false;
};

// A torchrun option that has no effect here, its value, and the reason.
struct Unneeded {
  const char* name;
  const char* value;
  const char* why;
};

constexpr Unneeded kUnneeded[] = {
    {"--monitor-interval", "SECONDS", "a rank's death is noticed immediately"},
    {"--start-method", "NAME", "every rank is a separate program"},
    {"--local-addr", "HOST", "nodes meet at --master-addr, and ranks choose the interface that routes to it"},
    {"--event-log-handler", "NAME", "events are in the run's log.jsonl"},
    {"--logs-specs", "NAME", "there is only one log layout"},
    {"--numa-binding", "KIND",
     "a rank is bound to the CPUs near its GPU; for other bindings, put numactl before the program"},
    {"--duplicate-stdout-filters", "WORDS", "search the log files with grep: FOLDER/attempt_*/rank-*/stdout.log"},
    {"--duplicate-stderr-filters", "WORDS", "search the log files with grep: FOLDER/attempt_*/rank-*/stderr.log"},
};

constexpr const char* kUsage = "[OPTIONS] [--] PROGRAM [ARGS...]";

cli::CommandText run_help() {
  return {
      .name = "lockstep run",
      .description = "Start the ranks of PROGRAM on this node, watch them, and stop them all when one fails.",
      .examples = {"lockstep run --nproc-per-node 2 -- ./train --epochs 3", "lockstep run --new-token job.token",
                   "lockstep run --nnodes 2 --node-rank 0 --token-file job.token --master-addr 10.0.0.1 "
                   "--nproc-per-node 8 train.py"},
      .usage = kUsage,
      .lists = {{"Arguments",
                 {{"PROGRAM", "a program in any language; a .py file is run with python3"},
                  {"ARGS...", "the program's own arguments"}}}},
      .notes = {"As with torchrun, options may be spelled with '-' or '_': --nproc_per_node is --nproc-per-node. An "
                "option that is not set is read from its environment variable, also as with torchrun: "
                "PET_NPROC_PER_NODE, PET_NNODES and so on. The Python interpreter comes from the environment in which "
                "pip installed Lockstep, otherwise it is python3 from PATH; PYTHON_EXEC overrides both. lockstep run "
                "raises the limit on open files as far as the system allows (ulimit -Hn)."},
      .tables = {
          {"Exit code",
           {{"0", "every rank exited with 0"},
            {"N", "the exit code of the rank that failed first"},
            {"1", "with --hosts, also for a rank's code 126, 127 or 255, which there mean that ssh or a host failed"},
            {"128 + N", "signal N ended the rank that failed first, or lockstep run itself"},
            {"69", "the system allows too few open files or processes for the ranks, or does not have enough memory"},
            {"71",
             "a Lockstep program ended with an exception that did not come from Lockstep; the error reports where it "
             "was thrown"}}}}};
}

void add_node_options(CLI::App& app, NodeOptions& node) {
  app.add_option("--nnodes", node.nodes);
  app.add_option("--node-rank", node.node_rank)->check(cli::whole());
  app.add_option("--master-addr", node.master_addr);
  app.add_option("--master-port", node.master_port)->check(cli::whole({0, 65535}));
  app.add_option("--rdzv-endpoint", node.endpoint);
  app.add_option("--rdzv-id,--run-id", node.run_id);
  app.add_option("--rdzv-conf", node.conf);
  app.add_option("--take-in", node.take_in);
  app.add_option("--token-file", node.token_file);
  app.add_option("--trust-network", node.trust_network);
  app.add_flag("--insecure-no-token", node.insecure_no_token);
  app.add_option("--tls-cert", node.tls_cert);
  app.add_option("--tls-key", node.tls_key);
  app.add_option("--tls-ca", node.tls_ca);
  app.add_option("--wire", node.wire);
  cli::describe(app, "--wire");
  cli::describe_nodes(app);
}

void add_host_options(CLI::App& app, RunOptions& options) {
  constexpr const char* kHosts = "Launching on several hosts from one of them";
  app.add_option("--hosts", options.hosts.list,
                 "start a launcher on each of these hosts via ssh, merge the output, and stop the launchers together; "
                 "HOST:N runs N ranks")
      ->type_name("HOST,HOST,...")
      ->group(kHosts);
  app.add_option("--hostfile", options.hosts.file, "the same, from a file with one host per line: HOST or HOST slots=N")
      ->type_name("FILE")
      ->group(kHosts);
  app.add_option("--ssh", options.hosts.ssh, "the command used to reach a host, with options: 'ssh -p 2222'")
      ->type_name("COMMAND")
      ->default_str("ssh, without passwords")
      ->group(kHosts);
  app.add_flag(kOrdersOnInput, options.has_orders_on_input,
               "read the secret, environment variables and then signals from standard input, and exit when it closes; "
               "used by the launchers that --hosts starts")
      ->group(kHosts);
}

void add_console_options(CLI::App& app, RunOptions& options) {
  constexpr const char* kOutput = "Output and signals";
  app.add_option(
         "-r,--redirects", options.redirects,
         "streams to write only to the log files: 1 is stdout, 2 stderr, 3 both; 0:1,1:3 sets this per local rank")
      ->type_name("N|R:N,...")
      ->group(kOutput);
  app.add_option("-t,--tee", options.tee,
                 "streams to write to both the console and the log files, regardless of --redirects")
      ->type_name("N|R:N,...")
      ->group(kOutput);
  app.add_option("--local-ranks-filter", options.local_ranks, "show only these local ranks on the console")
      ->type_name("R,...")
      ->default_str("all")
      ->group(kOutput);
  app.add_option("--log-line-prefix-template", options.prefix,
                 "the prefix of each line, with ${role_name}, ${local_rank} and ${rank}")
      ->type_name("TEMPLATE")
      ->group(kOutput);
  app.add_option("--signals-to-handle", options.signals, "the signals to forward to the ranks")
      ->type_name("NAMES")
      ->group(kOutput);
}

void add_options(CLI::App& app, RunOptions& options) {
  app.add_option("--nproc-per-node", options.processes);
  cli::describe_processes(app);
  app.add_option("--max-restarts", options.max_restarts, "how many times to restart the ranks after a failure")
      ->check(cli::whole())
      ->type_name("N")
      ->group(cli::kRanks);
  app.add_flag("--no-standby", options.no_standby);
  cli::describe(app, "--no-standby");
  cli::add_number(app, "--shutdown-timeout", options.shutdown_timeout, "the time between SIGTERM and SIGKILL")
      ->type_name("SECONDS")
      ->group(cli::kRanks);
  app.add_option("--role", options.role, "the value of ROLE_NAME in the ranks' environment")
      ->type_name("NAME")
      ->group(cli::kRanks);
  add_node_options(app, options.node);
  add_host_options(app, options);
  app.add_option("--rdzv-backend", options.node.backend,
                 "static or c10d; both select Lockstep's own store; with c10d, --node-rank may be omitted")
      ->type_name("NAME")
      ->group("Several nodes");
  app.add_option("--new-token", options.new_token,
                 "print a new secret, or write it to FILE, and exit; copy it to every node")
      ->expected(0, 1)
      ->type_name("FILE")
      ->group("Several nodes");
  app.add_flag("--standalone", options.is_standalone, "run only on this node, with any free port (the default)")
      ->group("Several nodes");
  app.add_option("--log-dir", options.log_dir,
                 "write each rank's output to FOLDER/attempt_N/rank-R/stdout.log and stderr.log; /dev/null discards it")
      ->type_name("FOLDER")
      ->default_str("a folder in $TMPDIR, kept if a rank fails");
  app.add_option("--dashboard", options.dashboard,
                 "serve a live page of the ranks at this address (default: a free loopback port); needs --log-dir")
      ->expected(0, 1)
      ->type_name("HOST:PORT");
  app.add_flag("-m,--module", options.is_module, "PROGRAM is a Python module: run it with Python, like python3 -m");
  app.add_flag("--no-python", options.no_python, "run PROGRAM itself, even if it is a .py file");
  app.add_flag("--run-path", options.run_path, "run the Python script PROGRAM with runpy.run_path");
  app.add_flag("--virtual-local-rank", options.virtual_local_rank,
               "set LOCAL_RANK=0 for each rank, with only its own GPU in CUDA_VISIBLE_DEVICES")
      ->group(cli::kRanks);
  app.get_option("--quiet")->description(
      "print only results, warnings and errors, including in ranks that use Lockstep");
  add_console_options(app, options);
  constexpr const char* kCompatible = "Accepted for compatibility with torchrun";
  app.add_flag("--use-env", options.is_ignored, "ignored: ranks always read their rank from the environment")
      ->group(kCompatible);
  for (const auto& [name, value, why] : kUnneeded) {
    app.add_option(name, options.ignored, fmt::format("ignored: {}", why))->type_name(value)->group(kCompatible);
  }
}

// Like torchrun, reads an environment variable for each option not given, such as PET_NNODES for --nnodes.
void read_torchrun_variables(CLI::App& app) {
  std::vector<std::string> names = {"--nproc-per-node",
                                    "--nnodes",
                                    "--node-rank",
                                    "--master-addr",
                                    "--master-port",
                                    "--rdzv-endpoint",
                                    "--rdzv-id",
                                    "--rdzv-conf",
                                    "--rdzv-backend",
                                    "--standalone",
                                    "--max-restarts",
                                    "--log-dir",
                                    "--role",
                                    "--module",
                                    "--no-python",
                                    "--run-path",
                                    "--redirects",
                                    "--tee",
                                    "--local-ranks-filter",
                                    "--signals-to-handle",
                                    "--virtual-local-rank",
                                    "--shutdown-timeout",
                                    "--log-line-prefix-template"};
  for (const Unneeded& each : kUnneeded) names.emplace_back(each.name);
  for (const std::string& name : names) {
    std::string variable = fmt::format("PET_{}", name.substr(2));
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    app.get_option(name)->envname(variable);
  }
  // torchrun has a second variable for each of these three.
  constexpr std::array kOthers = {std::pair("--shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
                                  std::pair("--signals-to-handle", "TORCHELASTIC_SIGNALS_TO_HANDLE"),
                                  std::pair("--log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")};
  for (const auto& [name, variable] : kOthers) {
    if (!env::get(app.get_option(name)->get_envname().c_str())) app.get_option(name)->envname(variable);
  }
}

// The launcher's own arguments come first. The program begins at the first argument that is not an option, or after
// "--".
struct Split {
  std::vector<std::string> own;
  std::vector<std::string> program;
};

Split split(const CLI::App& app, int argc, char** argv) {
  Split parts;
  int at = 1;
  for (; at < argc; ++at) {
    std::string word = argv[at];
    if (word == "--" || word.empty() || word[0] != '-') break;
    if (word.rfind("--", 0) == 0) word = cli::with_dashes(word);
    const std::string name = word.substr(0, word.find('='));
    const auto* option = app.get_option_no_throw(name);
    if (option == nullptr) {
      throw UsageError(fmt::format("unknown option '{}'{}", name, text::did_you_mean(name, cli::option_names(app))),
                       "lockstep run --help lists the options; put the program's own options after its name");
    }
    parts.own.push_back(word);
    bool takes_value = option->get_expected_max() > 0 && word.size() == name.size();
    if (name == "--dashboard" && at + 1 < argc) takes_value = takes_value && is_page_address(argv[at + 1]);
    if (takes_value && at + 1 < argc) parts.own.emplace_back(argv[++at]);
  }
  if (at < argc && std::string_view(argv[at]) == "--") ++at;
  parts.program.assign(argv + at, argv + argc);
  return parts;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

void require_python() {
  const std::string chosen = env::get("PYTHON_EXEC").value_or("");
  if (chosen.find('/') == std::string::npos || ::access(chosen.c_str(), X_OK) == 0) return;
  throw UsageError(fmt::format("PYTHON_EXEC is '{}', which cannot be executed ({})", chosen, std::strerror(errno)),
                   "set PYTHON_EXEC to a Python interpreter, or unset it");
}

std::vector<std::string> command_of(const RunOptions& given, std::vector<std::string> program) {
  if (program.empty()) {
    throw UsageError("no program to run", "lockstep run --nproc-per-node 2 -- ./train --epochs 3");
  }
  const std::string python = python_for(this_program(), env::get("PYTHON_EXEC"));
  std::vector<std::string> command;
  // Like torchrun, passes -u to Python: the output of a killed rank must not be lost in a buffer.
  if (given.run_path) {
    constexpr const char* kRunPath =
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";
    command = {python, "-u", "-c", kRunPath};
  } else if (given.is_module) {
    command = {python, "-u", "-m"};
  } else if (!given.no_python && ends_with(program[0], ".py")) {
    command = {python, "-u"};
  }
  if (!command.empty()) require_python();
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::chrono::milliseconds shutdown_timeout_of(const RunOptions& given) {
  if (!std::isfinite(given.shutdown_timeout) || given.shutdown_timeout < 0 || given.shutdown_timeout > 86400) {
    throw UsageError(fmt::format("--shutdown-timeout is {} s", given.shutdown_timeout), "use 0 to 86400 seconds");
  }
  return std::chrono::milliseconds(std::llround(given.shutdown_timeout * 1000));
}

AgentOptions agent_options(const RunOptions& given, std::vector<std::string> program) {
  if (given.max_restarts < 0)
    throw UsageError(fmt::format("--max-restarts is {}", given.max_restarts), "use 0 or more");
  show_slices();
  const ProcessCount processes = resolve_process_count(given.processes);
  AgentOptions options{.command = command_of(given, std::move(program)),
                       .processes = processes.count,
                       .why_processes = processes.reason == "as asked" ? "" : processes.reason,
                       .role = given.role,
                       .max_restarts = given.max_restarts,
                       .use_standby = !given.no_standby,
                       .shutdown_timeout = shutdown_timeout_of(given),
                       .log_dir = given.log_dir};
  options.virtual_local_rank = given.virtual_local_rank;
  options.signals = signals_of(given.signals);
  options.shown = {.redirects = streams_of("--redirects", given.redirects),
                   .tee = streams_of("--tee", given.tee),
                   .local_ranks = local_ranks_of(given.local_ranks),
                   .prefix = prefix_of(given.prefix)};
  options.keeps_logs = given.log_dir != "/dev/null";
  if (!options.keeps_logs) options.log_dir.clear();
  if (given.node.backend != "static" && given.node.backend != "c10d") {
    throw UsageError(fmt::format("--rdzv-backend is '{}'", given.node.backend),
                     "omit --rdzv-backend: the nodes rendezvous in a store on node 0 and need no other program");
  }
  apply(given.node, options);
  if (given.is_standalone) {
    if (options.nodes > 1)
      throw UsageError("--standalone and --nnodes " + given.node.nodes + " are mutually exclusive",
                       "omit --standalone or --nnodes");
    options.master_addr = "127.0.0.1";
    options.master_port = 0;
  }
  return options;
}

void tell_of_unneeded(const CLI::App& app) {
  for (const auto& [name, value, why] : kUnneeded) {
    if (app.get_option(name)->count() > 0) log::note("{} is ignored: {}", name, why);
  }
}

void show_page(const RunOptions& given) {
  if (given.log_dir.empty() || given.log_dir == "/dev/null") {
    throw UsageError("--dashboard needs a folder with the ranks' logs and flight rings",
                     "add --log-dir FOLDER, as in lockstep run --dashboard --log-dir logs -- ./train");
  }
  show_page_of_run(given.dashboard.empty() ? "0" : given.dashboard, given.log_dir);
}

// Returns the code with which a launcher that --hosts started ends. The codes of ssh and of a shell mean a lost host or
// a missing launcher, so the launcher does not pass them on; its report of the failure names the rank's own code.
int code_beside_ssh(int code) {
  const bool is_taken = code == 255 || code == 126 || code == 127;
  return is_taken ? 1 : code;
}

}  // namespace

int cmd_run(int argc, char** argv) {
  RunOptions given;
  // Done first, because the orders set environment variables that the options depend on.
  std::string token;
  if (argc > 1 && argv[1] == std::string_view(kOrdersOnInput)) token = obey_input();
  CLI::App app;
  cli::prepare(app, run_help());
  add_options(app, given);
  read_torchrun_variables(app);
  Split parts = split(app, argc, argv);
  if (!cli::parse(app, parts.own)) return 0;
  if (app.get_option("--new-token")->count() > 0) return make_new_token(given.new_token);
  if (!chosen_hosts(given.hosts).empty()) {
    if (parts.program.empty()) (void)command_of(given, {});
    const HostsOptions hosts = hosts_options(given.hosts, {.own = parts.own,
                                                           .program = parts.program,
                                                           .signals = signals_of(given.signals),
                                                           .shutdown_timeout = shutdown_timeout_of(given)});
    tell_of_unneeded(app);
    return run_hosts(hosts);
  }
  AgentOptions options = agent_options(given, std::move(parts.program));
  if (given.has_orders_on_input) {
    if (token.empty()) throw UsageError(fmt::format("{} must be the first option", kOrdersOnInput));
    options.token = token;
    options.reports_other_nodes = false;
  }
  require_token(options, {argv, argv + argc});
  choose_port(given.node, options);
  tell_of_unneeded(app);
  if (app.get_option("--dashboard")->count() > 0) show_page(given);
  warn_of_address_space(blas_threads(options.processes > 1));
  const int code = run_agent(options);
  return given.has_orders_on_input ? code_beside_ssh(code) : code;
}

}  // namespace lockstep::apps
