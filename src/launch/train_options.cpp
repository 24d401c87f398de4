// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/train_options.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lockstep/base/number.h"

namespace lockstep {
namespace {

constexpr std::array kOptions = {
    TrainOption{.name = "--config",
                .letter = 'c',
                .value = "FILE",
                .help = "a .yml file with settings, which need not name the recipe if RECIPE does; settings files of "
                        "the program that a recipe re-creates work unchanged"},
    TrainOption{.name = "--set",
                .value = "KEY=VALUE",
                .help = "change a setting; may be repeated. --KEY VALUE is equivalent",
                .in_programs = true},
    TrainOption{.name = "--update",
                .letter = 'u',
                .value = "KEY=VALUE",
                .help = "change several settings at once: -u epochs=5 seed=1"},
    TrainOption{.name = "--run-dir",
                .value = "FOLDER",
                .fallback = "runs/RECIPE-TIME",
                .help = "the run folder, for the log, checkpoints and results",
                .in_programs = true},
    TrainOption{.name = "--resume",
                .letter = 'r',
                .value = "none|auto|PATH|URL",
                .fallback = "none",
                .help = "where to resume from: auto is the newest valid checkpoint of the run folder; PATH is a run "
                        "folder, a step folder or RUN:NAME; URL is a step folder on a web server",
                .in_programs = true},
    TrainOption{.name = "--init-from",
                .letter = 't',
                .value = "PATH|URL",
                .help = "load the model's initial weights from a checkpoint, or from a .pth or .safetensors file "
                        "(FILE:STATE selects one state), as far as they fit; ignored if --resume auto continues a run",
                .in_programs = true},
    TrainOption{.name = "--init-from-partial",
                .help = "allow --init-from weights that fit less than half of the model's elements, or that leave part "
                        "of the model random although they contain entries that the model lacks",
                .in_programs = true},
    TrainOption{.name = "--allow-other-bits",
                .help = "allow a resumed run to use a different `replicas` setting: its batches are divided into that "
                        "many parts, and the result is not bitwise identical",
                .in_programs = true},
    TrainOption{.name = "--skip-samples",
                .value = "FILE",
                .help = "skip the samples named in FILE, one per line, from where the run starts or resumes; `lockstep "
                        "explain --skip-to FILE` writes such a file",
                .setting = "data.skip_samples",
                .in_programs = true},
    TrainOption{
        .name = "--rescue",
        .value = "FOLDER",
        .help = "save the run here and exit with code 74 if its own folder is removed or its disk cannot be written",
        .in_programs = true},
    TrainOption{.name = "--tensorboard",
                .value = "auto|none|FOLDER",
                .fallback = "auto",
                .help = "where TensorBoard files go: under FOLDER, in a folder with the run's name; auto is the run "
                        "folder",
                .setting = "tensorboard"},
    TrainOption{.name = "--no-tensorboard",
                .help = "do not write TensorBoard files",
                .setting = "tensorboard=none",
                .in_programs = true},
    TrainOption{
        .name = "--metrics",
        .value = "PORT",
        .help =
            "serve the run's metrics to Prometheus at http://127.0.0.1:PORT/metrics, or at HOST:PORT, while it runs",
        .setting = "metrics_address",
        .in_programs = true},
    TrainOption{.name = "--max-time",
                .value = "TIME",
                .help = "save and exit with code 143 after this time: 90s, 45m, 1h30m, 2d, HH:MM:SS or D-HH:MM:SS",
                .in_programs = true},
    TrainOption{.name = "--profile",
                .value = "N",
                .help = "profile N steps after the first three: print where a step's time goes, and write "
                        "RUN_DIR/trace/rank-R.json for https://ui.perfetto.dev",
                .in_programs = true},
    TrainOption{.name = "--guard",
                .value = "N",
                .help = "have another rank recompute a replica every N steps, and exit with code 77 if the bits differ",
                .setting = "guard",
                .in_programs = true},
    TrainOption{
        .name = "--test-only",
        .help = "do not train: evaluate the weights of -r or -t on data.test, and write the results to RUN_DIR/eval"},
    TrainOption{.name = "--dashboard",
                .value = "HOST:PORT",
                .help = "serve a live page of the run at this address while it runs (default: a free loopback port)"},
    TrainOption{.name = "--nproc-per-node",
                .value = "N|auto|gpu|cpu",
                .fallback = "one per visible GPU, or 1 without a GPU",
                .help = "ranks to start on this node: a number, gpu (one per visible GPU), cpu (one per CPU allowed by "
                        "affinity and the control group), or auto (gpu, or cpu if no GPU is visible)",
                .group = kRanksGroup},
    TrainOption{.name = "--max-restarts",
                .value = "N",
                .fallback = "3",
                .help = "how many times to restart ranks that died, from the last checkpoint",
                .group = kRanksGroup},
    TrainOption{.name = "--no-standby",
                .help = "do not keep processes waiting, with their libraries loaded, to take over when ranks restart",
                .group = kRanksGroup},
    TrainOption{.name = "--backend",
                .value = "auto|local|shm|tcp|nccl",
                .fallback = "auto",
                .help = "how ranks communicate",
                .group = kRanksGroup,
                .in_programs = true},
    TrainOption{.name = "--wire",
                .value = "auto|tls|plain|ucx",
                .fallback = "tls",
                .help = "how bytes travel between hosts: encrypted (tls), unencrypted, for private networks (plain), "
                        "or over InfiniBand or RoCE (ucx); or set LOCKSTEP_WIRE",
                .group = kRanksGroup,
                .in_programs = true},
    TrainOption{.name = "--device",
                .letter = 'd',
                .value = "auto|cpu|cuda",
                .fallback = "auto",
                .help = "the device of each rank",
                .group = kRanksGroup,
                .in_programs = true},
    TrainOption{.name = "--nnodes",
                .value = "N|MIN:MAX",
                .fallback = "1",
                .help = "the number of nodes, or its range if nodes may come and go; run the same command on each node",
                .group = kNodesGroup},
    TrainOption{.name = "--node-rank",
                .value = "N",
                .fallback = "0; any for a range of nodes",
                .help = "the number of this node, from 0",
                .group = kNodesGroup},
    TrainOption{.name = "--master-addr",
                .value = "HOST",
                .fallback = "127.0.0.1",
                .help = "the address of node 0",
                .group = kNodesGroup},
    TrainOption{.name = "--master-port",
                .value = "PORT",
                .fallback = "29500, or any free port on a single node",
                .help = "the port on node 0",
                .group = kNodesGroup},
    TrainOption{.name = "--rdzv-endpoint",
                .value = "HOST:PORT",
                .help = "same as --master-addr HOST --master-port PORT",
                .group = kNodesGroup},
    TrainOption{.name = "--rdzv-id",
                .also = "--run-id",
                .value = "NAME",
                .help = "the name of the job, the same on every node",
                .group = kNodesGroup},
    TrainOption{.name = "--rdzv-conf",
                .value = "KEY=VALUE",
                .fallback = "last_call_timeout=30",
                .help = "how many seconds a job with MIN nodes waits for more before it starts",
                .group = kNodesGroup},
    TrainOption{.name = "--take-in",
                .value = "WHEN",
                .fallback = "checkpoint",
                .help = "when a running job admits another node: after its next checkpoint, or now",
                .group = kNodesGroup},
    TrainOption{.name = "--token-file",
                .value = "FILE",
                .help = "a file with the job's secret, the same on every node and with mode 0600; `lockstep run "
                        "--new-token FILE` creates one (or put the secret in LOCKSTEP_TOKEN)",
                .group = kNodesGroup},
    TrainOption{.name = "--trust-network",
                .value = "NETWORK",
                .help = "no secret: anyone who reaches the job from this network (192.168.1.0/24) can join it, end it "
                        "or run code in it, as with torchrun; all others are rejected",
                .group = kNodesGroup},
    TrainOption{
        .name = "--insecure-no-token",
        .help =
            "run without a secret; refused unless all nodes are on this machine, or on the network of --trust-network",
        .group = kNodesGroup},
    TrainOption{
        .name = "--tls-cert",
        .value = "FILE",
        .help =
            "the PEM file of node 0's certificate: the nodes then meet in an encrypted store (or LOCKSTEP_TLS_CERT)",
        .group = kNodesGroup},
    TrainOption{.name = "--tls-key",
                .value = "FILE",
                .help = "the PEM file of its private key, only on node 0 (or LOCKSTEP_TLS_KEY)",
                .group = kNodesGroup},
    TrainOption{.name = "--tls-ca",
                .value = "FILE",
                .fallback = "the file of --tls-cert",
                .help = "the PEM file of the authority that signed the certificate (or LOCKSTEP_TLS_CA)",
                .group = kNodesGroup},
    TrainOption{.name = "--dist-url",
                .value = "URL",
                .help = "where the ranks meet: env://, tcp://HOST:PORT or file:///PATH",
                .group = kOneByOneGroup,
                .in_programs = true},
    TrainOption{.name = "--rank",
                .value = "N",
                .help = "the rank of this process, for tcp:// and file://",
                .group = kOneByOneGroup,
                .in_programs = true},
    TrainOption{.name = "--world-size",
                .value = "N",
                .help = "how many ranks there are, for tcp:// and file://",
                .group = kOneByOneGroup,
                .in_programs = true},
    TrainOption{.name = "--local-rank",
                .value = "N",
                .help = "as passed by torch.distributed.launch; must match the launcher's value",
                .group = kOneByOneGroup,
                .in_programs = true},
};

/// Returns the option's name, "--run-dir" for "--run_dir=x".
std::string option_name(std::string_view word) {
  std::string name(word.substr(0, word.find('=')));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Returns whether an option that every verb has takes a value; none if it is not such an option.
std::optional<bool> has_value_in_every_verb(const std::string& word) {
  if (word == "--log-level") return true;
  if (word == "--quiet" || word == "--help" || word == "-h") return false;
  return std::nullopt;
}

bool is_option(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

/// Returns true for a number or a boolean, which cannot be a recipe's name.
bool is_plain_value(const std::string& word) {
  return text::parse_number(word) || word == "true" || word == "false" || word == "True" || word == "False";
}

}  // namespace

std::span<const TrainOption> train_options() { return kOptions; }

const TrainOption* find_train_option(std::string_view word) {
  const std::string name = option_name(word);
  if (name.empty()) return nullptr;
  const auto* const found = std::ranges::find_if(kOptions, [&](const TrainOption& option) {
    return option.name == name || option.also == name ||
           (word.size() == 2 && word[0] == '-' && word[1] == option.letter);
  });
  return found == kOptions.end() ? nullptr : found;
}

std::string recipe_word(const std::vector<std::string>& words) {
  std::string doubtful;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (!is_option(word)) return word;
    if (word.find('=') != std::string::npos || i + 1 == words.size()) continue;
    const TrainOption* option = find_train_option(word);
    if (option != nullptr && option->name == "--update") {
      while (i + 1 < words.size() && !is_option(words[i + 1])) ++i;
    } else if (option != nullptr) {
      if (!option->value.empty()) ++i;
    } else if (const auto has_value = has_value_in_every_verb(word)) {
      if (*has_value) ++i;
    } else if (!is_option(words[i + 1])) {
      ++i;
      if (doubtful.empty() && !is_plain_value(words[i])) doubtful = words[i];
    }
  }
  return doubtful;
}

}  // namespace lockstep
