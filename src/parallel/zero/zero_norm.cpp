// SPDX-License-Identifier: Apache-2.0
#include "parallel/zero/zero_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/optim/clip.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kShardBlock = optim::kNormBlock;

std::int64_t blocks_in(std::int64_t numel) { return (numel + kShardBlock - 1) / kShardBlock; }

/// A block of a parameter that is split across two or more ranks' parts.
struct SharedBlock {
  std::int64_t row = 0;     ///< row in the tensor that joins the shared blocks
  std::int64_t length = 0;  ///< number of elements
};
using BlockOf = std::pair<std::size_t, std::int64_t>;  // parameter, number of the block in it

/// Returns the shared blocks, the same on every rank.
std::map<BlockOf, SharedBlock> shared_blocks(const ZeroLayout& layout, int world) {
  std::map<BlockOf, SharedBlock> found;
  for (const ZeroGroup& group : layout.groups()) {
    for (int rank = 1; rank < world; ++rank) {
      const std::int64_t boundary = shard_of(group.layout.numel, world, rank).begin;
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        const tensor::FlatSlot& slot = group.layout.slots[i];
        const std::int64_t inside = boundary - slot.offset;
        if (inside <= 0 || inside >= slot.numel || inside % kShardBlock == 0) continue;
        const std::int64_t block = inside / kShardBlock;
        found.try_emplace({group.members[i], block},
                          SharedBlock{.row = static_cast<std::int64_t>(found.size()),
                                      .length = std::min(kShardBlock, slot.numel - block * kShardBlock)});
      }
    }
  }
  return found;
}

/// This rank's blocks: the sums of its whole blocks, and the elements of the shared blocks.
class Blocks {
 public:
  Blocks(const NamedTensors& parameters, const ZeroLayout& layout, int world)
      : layout_(layout), shared_(shared_blocks(layout, world)) {
    for (const auto& item : parameters) {
      first_.push_back(count_);
      count_ += blocks_in(item.second.numel());
    }
    sums_ = at::zeros({count_}, at::kDouble);
    pieces_ = at::zeros({static_cast<std::int64_t>(shared_.size()), kShardBlock}, at::kDouble);
  }

  void read(std::size_t index, const at::Tensor& part) {
    const std::int64_t begin = layout_.parts()[index].begin;
    const std::int64_t end = begin + layout_.parts()[index].length;
    auto* sums = sums_.data_ptr<double>();
    for (std::int64_t block = begin / kShardBlock; block * kShardBlock < end; ++block) {
      const std::int64_t from = std::max(begin, block * kShardBlock);
      const at::Tensor values = part.narrow(0, from - begin, std::min(end, (block + 1) * kShardBlock) - from);
      const auto shared = shared_.find({index, block});
      if (shared == shared_.end()) {
        sums[first_[index] + block] = optim::block_squares(values);
      } else {
        pieces_[shared->second.row].narrow(0, from - block * kShardBlock, values.numel()).copy_(values);
      }
    }
  }

  /// Combines the blocks of all ranks. One rank has each value and the others have zero, so adding changes no bit.
  void combine(ProcessGroup& group) {
    group.all_reduce(sums_).wait();
    group.all_reduce(pieces_).wait();
    auto* sums = sums_.data_ptr<double>();
    for (const auto& [block, shared] : shared_) {
      sums[first_[block.first] + block.second] = optim::block_squares(pieces_[shared.row].narrow(0, 0, shared.length));
    }
  }

  [[nodiscard]] std::vector<double> of(std::size_t index, std::int64_t numel) const {
    const auto* first = sums_.data_ptr<double>() + first_[index];
    return {first, first + blocks_in(numel)};
  }

 private:
  const ZeroLayout& layout_;
  std::map<BlockOf, SharedBlock> shared_;
  std::vector<std::int64_t> first_;  ///< number of each parameter's first block
  std::int64_t count_ = 0;
  at::Tensor sums_;
  at::Tensor pieces_;
};

/// Returns the norm, added in the device's own order, which depends on the world size.
double device_norm(const NamedTensors& parameters, const ZeroLayout& layout, ProcessGroup& group) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& grad = parameters[i].second.grad();
    if (grad.defined()) parts.push_back(layout.part_of(layout.in_memory_order(grad, i), i));
  }
  std::erase_if(parts, [](const at::Tensor& part) { return part.numel() == 0; });
  const at::Tensor& any = parameters.front().second;
  const at::Tensor norms = parts.empty() ? at::zeros({0}, any.options()) : at::stack(at::_foreach_norm(parts));
  const at::Tensor squares = optim::norm_of_norms(norms).square().reshape({1});
  group.all_reduce(squares).wait();
  return std::sqrt(squares.item<double>());
}

}  // namespace

double sharded_grad_norm(const NamedTensors& parameters, const ZeroLayout& layout, ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  if (optim::on_one_gpu(parameters)) return device_norm(parameters, layout, group);
  Blocks blocks(parameters, layout, group.world_size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& grad = parameters[i].second.grad();
    if (!grad.defined()) continue;
    const at::Tensor part = layout.part_of(layout.in_memory_order(grad, i), i);
    const bool wide = part.scalar_type() == at::kDouble || part.scalar_type() == at::kFloat;
    blocks.read(i, wide ? part.cpu() : part.cpu().to(at::kFloat));
  }
  blocks.combine(group);
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return parameters[a].first < parameters[b].first; });
  std::vector<std::vector<double>> sums;
  for (const std::size_t index : order) {
    if (!parameters[index].second.grad().defined()) continue;
    sums.push_back(blocks.of(index, parameters[index].second.numel()));
  }
  return optim::norm_of_blocks(sums);
}

}  // namespace lockstep::parallel
