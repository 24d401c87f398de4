// SPDX-License-Identifier: Apache-2.0
#include "common/launch_options.h"

#include <array>

namespace lockstep::cli {
namespace {

struct Described {
  const char* name;
  const char* value;
  const char* fallback;
  const char* description;
};

constexpr std::array kNodes = {
    Described{
        "--nnodes", "N|MIN:MAX", "1",
        "how many nodes the job has, or how many it may have while nodes come and go; run the same command on each"},
    Described{"--node-rank", "N", "0; in a range, any", "the number of this node, from 0"},
    Described{"--master-addr", "HOST", "127.0.0.1", "the address of node 0"},
    Described{"--master-port", "PORT", "29500, or any free port on a single node", "the port on node 0"},
    Described{"--rdzv-endpoint", "HOST:PORT", "", "the same as --master-addr HOST --master-port PORT"},
    Described{"--rdzv-id,--run-id", "NAME", "", "the name of the job, the same on every node"},
    Described{"--rdzv-conf", "KEY=VALUE", "last_call_timeout=30",
              "how many seconds a job with MIN nodes waits for more before it starts"},
    Described{"--take-in", "WHEN", "checkpoint",
              "when a running job takes in another node: after its next checkpoint, or now"},
    Described{
        "--token-file", "FILE", "",
        "a file with the job's secret, the same on every node and with mode 0600; `lockstep run --new-token FILE` "
        "makes one (or put the secret into LOCKSTEP_TOKEN)"},
    Described{"--tls-cert", "FILE", "",
              "the PEM file of node 0's certificate: the nodes meet in a store that encrypts (or LOCKSTEP_TLS_CERT)"},
    Described{"--tls-key", "FILE", "", "the PEM file of its private key, on node 0 alone (or LOCKSTEP_TLS_KEY)"},
    Described{"--tls-ca", "FILE", "the file of --tls-cert",
              "the PEM file of the authority that signed the certificate (or LOCKSTEP_TLS_CA)"},
};

constexpr Described kWire{"--wire", "auto|tls|plain|ucx", "tls",
                          "how the bytes between hosts travel: encrypted (tls), in the clear in a network of your own "
                          "(plain), or by InfiniBand or RoCE (ucx); or LOCKSTEP_WIRE"};

CLI::Option* found_or_added(CLI::App& app, const std::string& names) {
  CLI::Option* option = app.get_option_no_throw(names.substr(0, names.find(',')));
  return option != nullptr ? option : add_read_option(app, names, "");
}

void describe(CLI::App& app, const Described& what, const char* group) {
  found_or_added(app, what.name)
      ->description(what.description)
      ->type_name(what.value)
      ->default_str(what.fallback)
      ->group(group);
}

}  // namespace

CLI::Option* add_read_option(CLI::App& app, const std::string& name, const std::string& description) {
  return app.add_option_function<std::string>(
      name, [](const std::string&) {}, description);
}

void describe_processes(CLI::App& app, const std::string& fallback) {
  found_or_added(app, "--nproc-per-node")
      ->description(
          "ranks to start on this node: a number, gpu (one per visible GPU), cpu (one per CPU that affinity and the "
          "control group leave), or auto (gpu, or cpu if no GPU is visible)")
      ->type_name("N|auto|gpu|cpu")
      ->default_str(fallback)
      ->group(kRanks);
}

void describe_wire(CLI::App& app) { describe(app, kWire, kRanks); }

void describe_nodes(CLI::App& app) {
  for (const Described& node : kNodes) describe(app, node, "Several nodes");
}

}  // namespace lockstep::cli
