// SPDX-License-Identifier: Apache-2.0
// `lockstep run`: torchrun's options, then a program and its arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/processes.h"
#include "node_options.h"
#include "verbs.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

struct RunOptions {
  std::string processes = "1";
  NodeOptions node;
  std::string role = "default";
  int max_restarts = 0;
  double shutdown_timeout = 10;
  std::string log_dir;
  bool is_standalone = false;
  bool is_module = false;
  bool is_quiet = false;
  bool no_python = false;
  std::string new_token;  // the file; empty: printed
  std::string ignored;
};

// Options of torchrun that mean nothing here, and why.
constexpr std::pair<const char*, const char*> kUnneeded[] = {
    {"--monitor-interval", "a death is noticed at once, nothing is polled"},
    {"--rdzv-backend", "nodes meet through Lockstep's own store"},
    {"--rdzv-conf", "nodes meet through Lockstep's own store"},
    {"--start-method", "workers are programs of their own"},
    {"--tee", "output always goes to the console and to the log files"},
    {"--redirects", "output always goes to the console and to the log files"},
    {"--local-addr", "nodes meet at --master-addr"},
};

void add_options(CLI::App& app, RunOptions& options) {
  app.add_option("--nproc-per-node", options.processes,
                 "ranks on this node: a number, or auto (visible GPUs, else CPUs), gpu, cpu")
      ->capture_default_str();
  app.add_option("--nnodes", options.node.nodes, "nodes of the job")->capture_default_str();
  app.add_option("--node-rank", options.node.node_rank, "this node's number from 0")
      ->check(cli::whole())
      ->capture_default_str();
  app.add_option("--master-addr", options.node.master_addr, "address of node 0")->capture_default_str();
  app.add_option("--master-port", options.node.master_port, "port on node 0; one node: any free port by default")
      ->check(cli::whole({0, 65535}));
  app.add_option("--rdzv-endpoint", options.node.endpoint, "HOST:PORT, the same as --master-addr and --master-port");
  app.add_option("--rdzv-id,--run-id", options.node.run_id, "name of the job, the same on every node");
  app.add_option("--token-file", options.node.token_file,
                 "the secret of a run over several nodes: a file of yours with mode 0600, the same on every node "
                 "(or LOCKSTEP_TOKEN)");
  app.add_option("--new-token", options.new_token, "print a new secret, or write it into FILE, and end")
      ->expected(0, 1)
      ->type_name("FILE");
  app.add_flag("--standalone", options.is_standalone, "one node, any free port (the default)");
  app.add_option("--max-restarts", options.max_restarts, "how often a failed group starts again")
      ->check(cli::whole())
      ->capture_default_str();
  app.add_option("--shutdown-timeout", options.shutdown_timeout, "seconds between SIGTERM and SIGKILL")
      ->capture_default_str();
  app.add_option("--log-dir", options.log_dir, "folder for attempt_<n>/rank-<r>/{stdout.log,stderr.log}");
  app.add_option("--role", options.role, "ROLE_NAME of the workers")->capture_default_str();
  app.add_flag("-m,--module", options.is_module, "PROGRAM is a Python module (python3 -m)");
  app.add_flag("--quiet", options.is_quiet, "warnings and errors only, here and of Lockstep in the program");
  app.add_flag("--no-python", options.no_python, "PROGRAM is executed as it is, also a .py file");
  for (const auto& [name, why] : kUnneeded) {
    app.add_option(name, options.ignored, fmt::format("accepted and not needed: {}", why));
  }
  app.add_option("-r,-t", options.ignored)->group("");
}

// The launcher's own words come first; from the first that is no option, or after "--", it is the program.
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
                       "lockstep run --help lists the options; the program's own come after its name");
    }
    parts.own.push_back(word);
    const bool takes_value = option->get_expected_max() > 0 && word.size() == name.size();
    if (takes_value && at + 1 < argc) parts.own.emplace_back(argv[++at]);
  }
  if (at < argc && std::string_view(argv[at]) == "--") ++at;
  parts.program.assign(argv + at, argv + argc);
  return parts;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::vector<std::string> command_of(const RunOptions& given, std::vector<std::string> program) {
  if (program.empty()) {
    throw UsageError("no program to run", "lockstep run --nproc-per-node 2 -- ./train --epochs 3");
  }
  std::vector<std::string> command;
  // -u as torchrun has it: what a killed rank had printed must not be lost in a buffer.
  if (given.is_module) {
    command = {"python3", "-u", "-m"};
  } else if (!given.no_python && ends_with(program[0], ".py")) {
    command = {"python3", "-u"};
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

AgentOptions agent_options(const RunOptions& given, std::vector<std::string> program) {
  if (!std::isfinite(given.shutdown_timeout) || given.shutdown_timeout < 0 || given.shutdown_timeout > 86400) {
    throw UsageError(fmt::format("--shutdown-timeout is {} s", given.shutdown_timeout), "give 0 to 86400 seconds");
  }
  if (given.max_restarts < 0)
    throw UsageError(fmt::format("--max-restarts is {}", given.max_restarts), "give 0 or more");
  const ProcessCount processes = resolve_process_count(given.processes);
  if (processes.reason != "as asked") log::note("{} ranks: {}", processes.count, processes.reason);
  AgentOptions options{.command = command_of(given, std::move(program)),
                       .processes = processes.count,
                       .role = given.role,
                       .max_restarts = given.max_restarts,
                       .shutdown_timeout = std::chrono::milliseconds(std::llround(given.shutdown_timeout * 1000)),
                       .log_dir = given.log_dir};
  apply(given.node, options);
  if (given.is_standalone) {
    if (options.nodes > 1)
      throw UsageError("--standalone with --nnodes " + given.node.nodes, "--standalone is for one node");
    options.master_addr = "127.0.0.1";
    options.master_port = 0;
  }
  return options;
}

void tell_of_unneeded(const CLI::App& app) {
  for (const auto& [name, why] : kUnneeded) {
    if (app.get_option(name)->count() > 0) log::note("{} is not needed: {}", name, why);
  }
}

}  // namespace

int cmd_run(int argc, char** argv) {
  RunOptions given;
  CLI::App app(
      "lockstep run [OPTIONS] [--] PROGRAM [ARGS...]\n"
      "Starts the ranks of PROGRAM on this node, watches them and ends them all when one fails.",
      "lockstep run");
  app.footer(
      "Options may be spelled with '-' or '_', as torchrun's. A .py file goes through python3.\n"
      "The exit code is the code of the first failure, or 128 + n for signal n; 69 where open files, processes or "
      "memory\n"
      "do not suffice. The limit of open files is raised as far as it may be (ulimit -Hn). A Lockstep program that an\n"
      "exception of its own code has ended has 71, and says where it was thrown.\n\n"
      "Examples:\n"
      "  lockstep run --nproc-per-node 2 -- ./train --epochs 3\n"
      "  lockstep run --new-token job.token    (then copy it to the other node)\n"
      "  lockstep run --nnodes 2 --node-rank 0 --token-file job.token --master-addr 10.0.0.1 --nproc-per-node 8 "
      "train.py");
  add_options(app, given);
  Split parts = split(app, argc, argv);
  std::reverse(parts.own.begin(), parts.own.end());  // as CLI11 takes them
  try {
    app.parse(parts.own);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& problem) {
    throw UsageError(problem.what(), "lockstep run --help lists the options");
  }
  if (given.is_quiet) be_quiet();
  if (app.get_option("--new-token")->count() > 0) return make_new_token(given.new_token);
  tell_of_unneeded(app);
  const AgentOptions options = agent_options(given, std::move(parts.program));
  require_token(options, {argv, argv + argc});
  return run_agent(options);
}

}  // namespace lockstep::apps
