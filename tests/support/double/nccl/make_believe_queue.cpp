// SPDX-License-Identifier: Apache-2.0
// The memory of a make-believe GPU is the host's.
#include <utility>

#include "queue.h"
#include "support/double/stream_handle.h"

namespace lockstep::testing::nccl_double {

void enqueue(const std::vector<Operation>& group, const Place& place, Calls work) {
  std::vector<make_believe::Access> accesses;
  for (const Operation& operation : group) {
    if (const std::size_t bytes = bytes_read(operation, place)) accesses.push_back({operation.from, bytes, false});
    if (const std::size_t bytes = bytes_written(operation, place)) accesses.push_back({operation.to, bytes, true});
  }
  auto& stream = *reinterpret_cast<make_believe::StreamHandle*>(group.front().stream);
  stream.enqueue("a collective of NCCL's", accesses, [group, work = std::move(work)] { work(group); });
}

bool is_recorded(nccl::Stream /*stream*/) { return false; }

}  // namespace lockstep::testing::nccl_double
