// SPDX-License-Identifier: Apache-2.0
// Reductions over a transport. In one exchange each contributor sends every other contributor the elements that the
// latter combines; a second exchange shares the results. This is a direct reduce-scatter followed by an all-gather: 2
// (W-1)/W of the bytes.
#pragma once

#include <vector>

#include "comm/core/tree_reduce.h"
#include "comm/network/transport.h"

namespace lockstep::comm {

/// A rank that contributes rows, the elements that it combines, and the replicas summed in each of its rows.
struct Contributor {
  int rank = 0;
  ElementRange range;
  std::vector<ReplicaSpan> rows;
};

struct ExchangeReduce {
  std::vector<Contributor> contributors;  ///< from left to right in the tree
  Reduction reduction;
  std::size_t leaf_bytes = 1;    ///< bytes per element of the rows
  std::size_t result_bytes = 1;  ///< bytes per element of the result
  const std::byte* rows = nullptr;
  std::size_t row_bytes = 0;    ///< bytes from one of this rank's rows to the next
  std::byte* output = nullptr;  ///< address of element `range.begin` of this rank's result; may be in its first row
};

/// Messages that ranks send before their rows, in the same exchange.
struct Preamble {
  std::vector<Message> sends = {};
  std::vector<Message> receives = {};
};

/// Combines this rank's range over all contributors, each part of the range as soon as it has arrived from all of them,
/// or the whole range after the exchange if every rank combines everything (is_one_pass()). `scratch` holds the
/// received rows and grows as needed. Blocks: yes. Throws: anything Transport::exchange() throws.
void exchange_and_reduce(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                         std::vector<std::byte>& scratch);

/// Receives the rows of all ranks, after the preamble, without combining them. Use it only if every rank combines
/// everything (is_one_pass()) and there are few ranks (not is_large()). Blocks: yes. Throws: anything
/// Transport::exchange() throws.
[[nodiscard]] std::vector<TreeLeaf> exchange_rows(Transport& transport, const ExchangeReduce& job,
                                                  const Collective& collective, std::vector<std::byte>& scratch,
                                                  const Preamble& preamble);

/// Sends this rank's combined range to all contributors, and receives their ranges. `base` is the address of element 0.
void share_ranges(Transport& transport, const ExchangeReduce& job, const Collective& collective, std::byte* base);

/// Returns the ranges of `count` contributors that together combine `numel` elements; each one combines everything if
/// that is less work than a second exchange.
[[nodiscard]] std::vector<ElementRange> ranges_for_all(std::int64_t numel, std::size_t bytes, int count);

/// Returns true if ranges_for_all() gives everything to each contributor.
[[nodiscard]] bool is_one_pass(std::size_t bytes);

}  // namespace lockstep::comm
