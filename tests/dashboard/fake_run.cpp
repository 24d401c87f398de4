// SPDX-License-Identifier: Apache-2.0
// Creates runs for the page tests.
//   fake_run folder FOLDER RANKS POINTS LR   a run folder: log.jsonl with POINTS steps, the rings of RANKS ranks
//   fake_run rank                            a rank under `lockstep run` that stays in the section "forward"
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/trace.h"
#include "lockstep/flight/recorder.h"
#include "lockstep/flight/ring.h"
#include "lockstep/view/digest_chain.h"

namespace {

namespace fs = std::filesystem;
using lockstep::flight::Ring;
using lockstep::flight::Writer;

void write_step(Writer& writer, std::int64_t step) {
  writer.set_step(step);
  writer.enter("forward");
  writer.leave("forward");
  writer.enter("backward");
  for (int bucket = 0; bucket < 4; ++bucket) {
    const Writer::Call call{.name = "all_reduce",
                            .sequence = static_cast<std::uint64_t>(4 * step + bucket),
                            .bytes = 1 << 20,
                            .bucket = bucket,
                            .buckets = 4};
    writer.begin(call);
    writer.end(call);
  }
  writer.leave("backward");
  writer.enter("optimizer");
  writer.leave("optimizer");
}

// The writer uses the current time; this spreads the events over two seconds.
void spread(Ring& ring) {
  const auto events = std::min<std::uint64_t>(ring.next.load(), lockstep::flight::kEvents);
  const std::int64_t end = lockstep::flight::now_ns();
  const std::uint64_t first = ring.next.load() - events;
  for (std::uint64_t i = 0; i < events; ++i) {
    auto& slot = ring.events[(first + i) % lockstep::flight::kEvents];
    slot.time_ns = end - static_cast<std::int64_t>((events - i) * 2'000'000'000 / events);
  }
}

void write_ring(const fs::path& folder, int rank, int ranks) {
  fs::create_directories(folder);
  const auto ring = std::make_unique<Ring>();
  Writer writer(*ring, {.pid = 1 << 22, .rank = rank, .world_size = ranks, .host = "host"});
  for (int step = 1; step <= 300; ++step) write_step(writer, step);
  spread(*ring);
  std::ofstream(folder / "flight.ring", std::ios::binary)
      .write(reinterpret_cast<const char*>(ring.get()), sizeof(Ring));
  std::ofstream(folder / "stderr.log") << "rank " << rank << " says hello\n";
  std::ofstream(folder / "stdout.log");
}

void write_log(const fs::path& file, int points) {
  std::ofstream out(file);
  for (int step = 1; step <= points; ++step) {
    const double loss = 1.0 / (1 + 1e-3 * step) + 0.01 * std::sin(step);
    out << fmt::format(R"({{"event": "step", "step": {}, "epoch": 1, "loss": {}, "lr": 0.001, "images_per_s": {}}})",
                       step, step == points / 2 ? 7.5 : loss, 500 + step % 100)
        << "\n";
  }
  out << fmt::format(
             R"({{"event": "epoch", "epoch": 1, "step": {}, "loss": 0.25, "seconds": 50, "metrics": {{"accuracy": 0.875}}}})",
             points)
      << "\n";
}

/// Digests of 60 steps: from step 31 they depend on the learning rate.
void write_digests(const fs::path& folder, double lr) {
  lockstep::view::DigestWriter chain(folder, {});
  for (int step = 1; step <= 60; ++step) {
    chain.add(
        {.step = step, .loss = 1, .gradients = 2, .weights = step <= 30 ? 3 : static_cast<std::uint64_t>(1e6 * lr)});
  }
}

int make_folder(char** words) {
  const fs::path folder = words[0];
  const int ranks = std::atoi(words[1]);
  fs::create_directories(folder);
  write_log(folder / "log.jsonl", std::atoi(words[2]));
  std::ofstream(folder / "config.yml") << fmt::format("recipe: captcha\nseed: 0\noptimizer:\n  lr: {}\n", words[3]);
  write_digests(folder, std::atof(words[3]));
  for (int rank = 0; rank < ranks; ++rank) {
    write_ring(folder / "logs" / "attempt_0" / fmt::format("rank-{}", rank), rank, ranks);
  }
  return 0;
}

int be_rank() {
  const char* file = std::getenv("LOCKSTEP_FLIGHT");
  lockstep::flight::start_recorder(
      {.rank = std::atoi(std::getenv("RANK")), .world_size = 4, .host = "host", .file = file == nullptr ? "" : file});
  const lockstep::trace::Span span({.name = "forward"});
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::strcmp(argv[1], "folder") == 0) return make_folder(argv + 2);
  return argc == 2 && std::strcmp(argv[1], "rank") == 0 ? be_rank() : 64;
}
