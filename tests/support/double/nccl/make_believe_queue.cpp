// SPDX-License-Identifier: Apache-2.0
// The queue for a fake GPU, whose memory is the host's.
#include <utility>

#include "queue.h"
#include "support/double/stream_handle.h"

namespace lockstep::testing::nccl_double {
namespace {

make_believe::StreamHandle& handle_of(nccl::Stream stream) {
  return *reinterpret_cast<make_believe::StreamHandle*>(stream);
}

}  // namespace

void enqueue(const std::vector<Operation>& group, const Place& place, Calls work) {
  std::vector<make_believe::Access> accesses;
  for (const Operation& operation : group) {
    if (const std::size_t bytes = bytes_read(operation, place)) accesses.push_back({operation.from, bytes, false});
    if (const std::size_t bytes = bytes_written(operation, place)) accesses.push_back({operation.to, bytes, true});
  }
  handle_of(group.front().stream).enqueue("a collective of NCCL's", accesses, [group, work = std::move(work)] {
    work(group);
  });
}

bool is_recorded(nccl::Stream stream) { return handle_of(stream).is_recording(); }

bool forgets_recordings() { return true; }

}  // namespace lockstep::testing::nccl_double
