// SPDX-License-Identifier: Apache-2.0
#include "host_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/store.h"
#include "node_options.h"
#include "worker_verbs.h"

extern char** environ;

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

// BatchMode is set because no one can enter a password. A host that stops answering is detected after 15 s.
const std::vector<std::string> kSsh = {"ssh",
                                       "-o",
                                       "BatchMode=yes",
                                       "-o",
                                       "ConnectTimeout=10",
                                       "-o",
                                       "ServerAliveInterval=5",
                                       "-o",
                                       "ServerAliveCountMax=3"};

// Prefixes of variables that ranks on other hosts also need. A secret is sent through ssh's input instead, because
// other users of a host can read a command line.
constexpr std::array<std::string_view, 10> kFamilies = {"LOCKSTEP_", "NCCL_",     "GLOO_", "UCX_",   "OMP_",
                                                        "MKL_",      "OPENBLAS_", "PET_",  "PYTHON", "TORCH"};

bool is_passed_on(std::string_view name) {
  if (name.find("TOKEN") != std::string_view::npos || name == "LOCKSTEP_HOST_ID" || name == "PET_NODE_RANK")
    return false;
  return std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](auto family) { return name.substr(0, family.size()) == family; });
}

std::vector<std::pair<std::string, std::string>> passed_environment() {
  std::vector<std::pair<std::string, std::string>> passed;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !is_passed_on(text.substr(0, equals))) continue;
    passed.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(passed.begin(), passed.end());
  return passed;
}

std::string token_of(const NodeOptions& node) {
  if (!node.token_file.empty()) return read_token_file(node.token_file);
  return env::get("LOCKSTEP_TOKEN").value_or(make_token());
}

void require_no_contradiction(const NodeOptions& node, const AgentOptions& checked,
                              const std::vector<HostEntry>& hosts) {
  if (node.node_rank >= 0) {
    throw UsageError(fmt::format("--hosts and --node-rank {} are mutually exclusive", node.node_rank),
                     "omit --node-rank: node ranks follow the order of the hosts");
  }
  if (node.nodes != "1" && checked.nodes != static_cast<int>(hosts.size())) {
    throw UsageError(fmt::format("--nnodes is {}, but {} hosts are listed", node.nodes, hosts.size()),
                     "omit --nnodes, or set it to MIN:MAX, where MAX is the number of hosts");
  }
}

bool names_a_place(const std::vector<std::string>& typed) {
  return std::any_of(typed.begin(), typed.end(), [](const std::string& word) {
    return word.starts_with("--master-addr") || word.starts_with("--rdzv-endpoint");
  });
}

// The options for the nodes' rendezvous, the same for every launcher.
std::vector<std::string> meeting_words(const NodeOptions& node, const AgentOptions& checked,
                                       const std::vector<HostEntry>& hosts, bool has_address) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--nnodes", node.nodes);
  if (hosts.size() > 1) add("--master-addr", has_address ? checked.master_addr : address_of(hosts[0]));
  if (checked.master_port != 0) add("--master-port", std::to_string(checked.master_port));
  add("--rdzv-id", node.run_id);
  add("--rdzv-conf", node.conf);
  add("--take-in", node.take_in);
  return words;
}

std::string folder() {
  std::error_code problem;
  const fs::path here = fs::current_path(problem);
  if (problem) throw UsageError(fmt::format("cannot read the current folder ({})", problem.message()));
  return here.string();
}

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      if (has_word) words.push_back(std::move(word));
      word.clear();
      has_word = false;
      continue;
    }
    has_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      word += c == '\\' && quote != '\'' && at + 1 < text.size() ? text[++at] : c;
    }
  }
  if (quote != 0) throw UsageError(fmt::format("--ssh is '{}', which has an unterminated quote", text));
  if (has_word) words.push_back(std::move(word));
  return words;
}

std::vector<HostEntry> chosen_hosts(const HostChoice& choice) {
  if (!choice.list.empty() && !choice.file.empty()) throw UsageError("--hosts and --hostfile are mutually exclusive");
  if (!choice.list.empty()) return parse_hosts(choice.list);
  return choice.file.empty() ? std::vector<HostEntry>{} : read_hostfile(choice.file);
}

HostsOptions hosts_options(const HostChoice& choice, const HostsRun& run) {
  const std::vector<HostEntry> hosts = chosen_hosts(choice);
  std::vector<std::string> own = run.own;
  for (const char* name : {"hosts", "hostfile", "ssh"}) (void)take_option(own, name);
  NodeOptions node = take_node_options(own);
  const std::string token = token_of(node);
  node.token_file.clear();
  AgentOptions checked;
  apply(node, checked);
  require_no_contradiction(node, checked, hosts);
  const bool is_range = checked.min_nodes < checked.nodes;
  HostsOptions options{.ssh = choice.ssh.empty() ? kSsh : split_words(choice.ssh),
                       .min_hosts = is_range ? checked.min_nodes : static_cast<int>(hosts.size()),
                       .folder = folder(),
                       .environment = passed_environment(),
                       .token = token,
                       .shutdown_timeout = run.shutdown_timeout,
                       .signals = run.signals};
  if (node.nodes == "1") node.nodes = std::to_string(hosts.size());
  const std::vector<std::string> meeting = meeting_words(node, checked, hosts, names_a_place(run.own));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string(), "run", kOrdersOnInput};
    words.insert(words.end(), meeting.begin(), meeting.end());
    if (!is_range) words.insert(words.end(), {"--node-rank", std::to_string(i)});
    words.insert(words.end(), own.begin(), own.end());
    if (hosts[i].slots > 0) words.insert(words.end(), {"--nproc-per-node", std::to_string(hosts[i].slots)});
    words.emplace_back("--");
    words.insert(words.end(), run.program.begin(), run.program.end());
    options.launchers.push_back({hosts[i], std::move(words)});
  }
  return options;
}

}  // namespace lockstep::apps
