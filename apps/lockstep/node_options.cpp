// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "common/cli.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/store/host_brackets.h"
#include "lockstep/store/host_name.h"
#include "lockstep/store/port_holder.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/store.h"
#include "lockstep/store/trusted_network.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

constexpr WholeRange kPorts{0, 65535};  // 0: any free port

template <class Number>
void take_number(std::vector<std::string>& arguments, const std::string& name, const WholeRange& range,
                 Number& number) {
  const auto text = take_option(arguments, name);
  if (text) number = static_cast<Number>(whole_number("--" + name, *text, range));
}

void take_text(std::vector<std::string>& arguments, const std::string& name, std::string& text) {
  text = take_option(arguments, name).value_or(text);
}

struct NodeRange {
  int least = 1;
  int most = 1;
};

// Parses N, or torchrun's MIN:MAX.
NodeRange range_of(const std::string& text) {
  const auto colon = text.find(':');
  constexpr WholeRange kNodes{.least = 1, .most = 1'000'000};
  const auto count = [&](const std::string& part) {
    const auto number = parse_whole(part, kNodes);
    if (!number) {
      throw UsageError(fmt::format("--nnodes is '{}'; the number of nodes must be {}", text, to_text(kNodes)),
                       "use N, or MIN:MAX if nodes may come and go: 2:4");
    }
    return static_cast<int>(*number);
  };
  const int least = count(text.substr(0, colon));
  const int most = colon == std::string::npos ? least : count(text.substr(colon + 1));
  if (most < least) throw UsageError(fmt::format("--nnodes is '{}', but {} is less than {}", text, most, least));
  return {least, most};
}

// With torchrun's MIN:MAX or c10d, a launcher that is not given a number gets one when the nodes meet.
bool finds_its_number(const NodeOptions& given) {
  return given.nodes.find(':') != std::string::npos || given.backend == "c10d";
}

void apply_endpoint(const NodeOptions& given, AgentOptions& options) {
  if (given.endpoint.empty()) return;
  const auto colon = given.endpoint.rfind(':');
  // An IPv6 address with a port is in brackets. Without brackets, none of its colons separates a port.
  const bool is_bare_ipv6 = given.endpoint[0] != '[' && colon != given.endpoint.find(':');
  const bool has_port = colon != std::string::npos && !is_bare_ipv6 && !given.endpoint.ends_with(']');
  options.master_addr = without_brackets(given.endpoint.substr(0, has_port ? colon : std::string::npos));
  if (!has_port) return;
  const std::string port = given.endpoint.substr(colon + 1);
  const auto number = parse_whole(port, kPorts);
  if (!number) {
    throw UsageError(fmt::format("--rdzv-endpoint is '{}'; its port must be {}", given.endpoint, to_text(kPorts)),
                     "use HOST:PORT");
  }
  options.master_port = static_cast<std::uint16_t>(*number);
}

TakeIn take_in_of(const std::string& text) {
  if (text == "checkpoint") return TakeIn::kAtCheckpoint;
  if (text == "now") return TakeIn::kAtOnce;
  throw UsageError(fmt::format("--take-in is '{}'", text), "use checkpoint or now");
}

// Applies torchrun's KEY=VALUE list, in which only one key has an effect here.
void apply_conf(const std::string& text, AgentOptions& options) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string pair = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = pair.find('=');
    const auto seconds = parse_whole(equals == std::string::npos ? "" : pair.substr(equals + 1), {.most = 86'400});
    if (pair.substr(0, equals) == "last_call_timeout") {
      if (!seconds) throw UsageError(fmt::format("--rdzv-conf contains '{}'", pair), "use last_call_timeout=SECONDS");
      options.last_call = std::chrono::seconds(*seconds);
    } else {
      log::note("--rdzv-conf: {} is ignored: of torchrun's settings, only last_call_timeout has an effect here", pair);
    }
  }
}

void put_into_environment(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): the command has no other thread yet
}

// Makes the path absolute, because a rank may run in a different folder.
void put_file_into_environment(const char* name, const std::string& file) {
  if (!file.empty()) put_into_environment(name, std::filesystem::absolute(file).string());
}

// Sets the wire for the ranks. An invalid value ends the command before any rank starts.
void apply_wire(const std::string& wire) {
  if (wire.empty()) return;
  const std::vector<std::string> words = {"auto", "tls", "plain", "ucx"};
  if (std::find(words.begin(), words.end(), wire) == words.end()) {
    throw UsageError(fmt::format("--wire is '{}'{}", wire, text::did_you_mean(wire, words)),
                     fmt::format("use one of {}", text::join(words)));
  }
  put_into_environment("LOCKSTEP_WIRE", wire);
}

// Returns the /24 network around the address of a host: the most likely one to be trusted.
std::string network_around(const std::string& address) {
  try {
    return store::TrustedNetwork(address + "/24").text();
  } catch (const UsageError&) {
    return "192.168.1.0/24";
  }
}

// Returns the trusted network of a job without a secret; empty if the job has a secret. The user need not name the
// network of a job that runs only on this machine.
std::string network_without_secret(const NodeOptions& given, const AgentOptions& options) {
  constexpr const char* kThisMachine = "127.0.0.0/8";
  if (!given.trust_network.empty() || !given.insecure_no_token) return given.trust_network;
  if (store::TrustedNetwork(kThisMachine).contains_host(options.master_addr)) return kThisMachine;
  throw UsageError(fmt::format("--insecure-no-token is set, but the nodes meet at {}, which other machines can reach",
                               options.master_addr),
                   "name the network that you trust: --trust-network " + network_around(options.master_addr));
}

// Puts the trusted network into the environment, from which every process of the job reads it.
void trust(const NodeOptions& given, AgentOptions& options) {
  if (options.nodes == 1) return;
  const std::string trusted = network_without_secret(given, options);
  if (trusted.empty()) return;
  const store::TrustedNetwork network(trusted);
  await_name(options.master_addr);
  if (!options.token.empty() || env::get("LOCKSTEP_TOKEN")) {
    throw UsageError("--trust-network and a secret are both set: with a secret, only those who know it may join",
                     "omit one of them");
  }
  if (!network.contains_host(options.master_addr)) {
    throw UsageError(fmt::format("--trust-network is {}, but the nodes meet at {}, which is outside it", network.text(),
                                 options.master_addr),
                     "use the network of --master-addr; ip -br address lists the networks of this machine");
  }
  options.token = network.token();
  put_into_environment("LOCKSTEP_TRUST_NETWORK", network.text());
  log::warn("this job has no secret: every user of every machine on {} can join it, end it, and run code in it",
            network.text());
}

// The command `typed` with the options of node `node` (-1: of any node) and the token file.
std::string command_of_node(std::vector<std::string> typed, int node) {
  if (node >= 0) (void)take_option(typed, "node-rank");
  typed.insert(typed.begin() + 1, {"--token-file", "job.token"});
  if (node >= 0) typed.insert(typed.begin() + 1, {"--node-rank", std::to_string(node)});
  std::string command = "lockstep";
  for (const std::string& word : typed) command += " " + text::shell_word(word);
  return command;
}

}  // namespace

NodeOptions take_node_options(std::vector<std::string>& arguments) {
  NodeOptions options;
  take_text(arguments, "nnodes", options.nodes);
  take_number(arguments, "node-rank", {}, options.node_rank);
  take_text(arguments, "master-addr", options.master_addr);
  options.master_addr = without_brackets(options.master_addr);
  take_number(arguments, "master-port", kPorts, options.master_port);
  take_text(arguments, "rdzv-endpoint", options.endpoint);
  take_text(arguments, "rdzv-id", options.run_id);
  take_text(arguments, "run-id", options.run_id);
  take_text(arguments, "token-file", options.token_file);
  take_text(arguments, "trust-network", options.trust_network);
  options.insecure_no_token = std::erase_if(arguments, [](const std::string& word) {
                                return cli::with_dashes(word) == "--insecure-no-token";
                              }) > 0;
  take_text(arguments, "tls-cert", options.tls_cert);
  take_text(arguments, "tls-key", options.tls_key);
  take_text(arguments, "tls-ca", options.tls_ca);
  take_text(arguments, "wire", options.wire);
  take_text(arguments, "take-in", options.take_in);
  take_text(arguments, "rdzv-conf", options.conf);
  return options;
}

void apply(const NodeOptions& given, AgentOptions& options) {
  const NodeRange range = range_of(given.nodes);
  options.nodes = range.most;
  options.min_nodes = range.least;
  options.node_rank = given.node_rank >= 0 || (range.most > 1 && finds_its_number(given)) ? given.node_rank : 0;
  options.take_in = take_in_of(given.take_in);
  apply_conf(given.conf, options);
  options.master_addr = without_brackets(given.master_addr);
  options.master_port = given.master_port;
  options.run_id = given.run_id;
  if (!given.token_file.empty()) options.token = read_token_file(given.token_file);
  put_file_into_environment("LOCKSTEP_TLS_CERT", given.tls_cert);
  put_file_into_environment("LOCKSTEP_TLS_KEY", given.tls_key);
  put_file_into_environment("LOCKSTEP_TLS_CA", given.tls_ca);
  apply_wire(given.wire);
  apply_endpoint(given, options);
  trust(given, options);
  // torchrun's default: multi-node scripts that omit the option work unchanged.
  if (options.nodes > 1 && options.master_port == 0) options.master_port = 29500;
}

void choose_port(NodeOptions& given, AgentOptions& options) {
  const bool is_range = options.min_nodes < options.nodes;
  const bool is_typed = !given.endpoint.empty() || !given.run_id.empty() || given.master_port != 0 ||
                        given.master_addr != NodeOptions().master_addr;
  if (!is_range || is_typed || can_listen(options.master_addr, options.master_port)) return;
  const std::string holder = port_holder(options.master_port);
  const std::uint16_t taken = std::exchange(options.master_port, free_port(options.master_addr));
  given.master_port = options.master_port;
  log::note(
      "port {} is taken{}: this is a separate job, at {}:{}. To join a job, pass its address: --rdzv-endpoint {}:{}",
      taken, holder.empty() ? "" : " by " + holder, options.master_addr, options.master_port, options.master_addr,
      taken);
}

int make_new_token(const std::string& file) {
  if (file.empty()) {
    print_to(stdout, "{}\n", make_token());
    return 0;
  }
  write_token_file(file);
  log::note("wrote a new secret to {}: copy the file to every node, and pass it there with --token-file", file);
  return 0;
}

void require_token(const AgentOptions& options, const std::vector<std::string>& typed) {
  if (options.nodes == 1 || !options.token.empty() || env::get("LOCKSTEP_TOKEN")) return;
  std::string commands =
      "create a secret, copy the file to every node, and start every node with it\n          lockstep run --new-token "
      "job.token";
  const bool is_range = options.min_nodes < options.nodes || options.node_rank < 0;
  if (is_range) commands += "\n          " + command_of_node(typed, -1);
  for (int node = 0; node < (is_range ? 0 : std::min(options.nodes, 2)); ++node) {
    commands += fmt::format("\n  node {}  {}", node, command_of_node(typed, node));
  }
  if (options.nodes > 2 && !is_range)
    commands += fmt::format("\n          and so on, up to node {}", options.nodes - 1);
  throw UsageError(
      fmt::format("a run over {} nodes needs a secret: without one, anybody who can reach {}:{} could join it "
                  "(--rdzv-id is not secret)",
                  options.nodes, options.master_addr, options.master_port),
      fmt::format(
          "{}\n          or set LOCKSTEP_TOKEN to the same secret on every node; or, if you trust everybody on that "
          "network, add --trust-network {} on every node",
          commands, network_around(options.master_addr)));
}

}  // namespace lockstep::apps
