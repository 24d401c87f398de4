// SPDX-License-Identifier: Apache-2.0
// Makes models equal on all ranks before training: compares them by name, then copies the values of one rank.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::parallel {

/// Compares names, shapes, dtypes and memory layout across the ranks.
///
/// Collective: yes.  Blocks: yes.
/// Throws: UsageError on every rank, naming the first difference and both sides.
void require_equal_models(const NamedTensors& parameters, const NamedTensors& buffers, ProcessGroup& group);

/// Overwrites the tensors on every rank with those of rank `source`, in a few broadcasts.
///
/// Collective: yes.  Blocks: yes.
void copy_from_rank(int source, const NamedTensors& items, ProcessGroup& group);

}  // namespace lockstep::parallel
