// SPDX-License-Identifier: Apache-2.0
#include "boxes.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

namespace lockstep::testing::nccl_double {
namespace {

constexpr std::size_t kBoxBytes = std::size_t{1} << 17;
constexpr int kSpins = 200;
constexpr useconds_t kNap = 50;

/// Waits: yields at first, because the peer may be on the same core.
class Patience {
 public:
  void wait() { ++rounds_ < kSpins ? (void)sched_yield() : (void)usleep(kNap); }
  void reset() { rounds_ = 0; }

 private:
  int rounds_ = 0;
};

struct Box {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::uint64_t call;
  std::uint64_t bytes;
  std::array<std::byte, kBoxBytes> data;
};

}  // namespace

struct Boxes::Shared {
  std::atomic<int> arrived;
  std::array<std::array<Box, kMostRanks>, kMostRanks> boxes;  ///< boxes by sender, then receiver
};

std::string Boxes::make() {
  static std::atomic<int> next{0};
  // Deliberately unlike Lockstep's names, which tests search for to find what the library left behind.
  const std::string name = "/nccl-double-" + std::to_string(getpid()) + "-" + std::to_string(next++);
  (void)shm_unlink(name.c_str());  // removes what a killed process with this process ID left
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) return "";
  const bool is_large = ftruncate(file, sizeof(Shared)) == 0;
  close(file);
  return is_large ? name : "";
}

Boxes::Boxes(const std::string& name) : name_(name) {
  const int file = shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) return;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
}

Boxes::~Boxes() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

bool Boxes::meet(int rank, int world, const std::atomic<bool>& aborted) {
  ++shared_->arrived;
  Patience patience;
  while (shared_->arrived < world && !aborted) patience.wait();
  if (rank == 0) remove_name();
  return !aborted;
}

void Boxes::remove_name() { shm_unlink(name_.c_str()); }

/// Returns true if something was moved.
bool Boxes::move(int rank, Transfer& transfer) {
  const auto self = static_cast<std::size_t>(rank);
  const auto peer = static_cast<std::size_t>(transfer.peer);
  Box& box = transfer.out ? shared_->boxes[self][peer] : shared_->boxes[peer][self];
  if (transfer.out) {
    if (box.written != box.read) return false;
    if (transfer.left == 0) {  // the peer has the last part
      transfer.call = 0;
      return true;
    }
    box.bytes = std::min(transfer.left, kBoxBytes);
    box.call = transfer.call;
    std::memcpy(box.data.data(), transfer.at, box.bytes);
  } else if (box.written == box.read || box.call != transfer.call || box.bytes > transfer.left) {
    return false;
  } else {
    std::memcpy(transfer.at, box.data.data(), box.bytes);
  }
  transfer.at += box.bytes;
  transfer.left -= box.bytes;
  ++(transfer.out ? box.written : box.read);
  if (!transfer.out && transfer.left == 0) transfer.call = 0;
  return true;
}

bool Boxes::exchange(int rank, std::vector<Transfer> transfers, const std::atomic<bool>& aborted) {
  std::erase_if(transfers, [](const Transfer& transfer) { return transfer.left == 0; });
  Patience patience;
  while (!transfers.empty()) {
    if (aborted) return false;
    bool moved = false;
    std::set<std::pair<bool, int>> busy;
    for (Transfer& transfer : transfers) {
      if (busy.insert({transfer.out, transfer.peer}).second && move(rank, transfer)) moved = true;
    }
    std::erase_if(transfers, [](const Transfer& transfer) { return transfer.call == 0; });
    if (moved) patience.reset();
    if (!moved) patience.wait();
  }
  return true;
}

}  // namespace lockstep::testing::nccl_double
