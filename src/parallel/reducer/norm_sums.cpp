// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/norm_sums.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lockstep/optim/clip.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kBlock = optim::kNormBlock;

/// Writes the sums of the blocks of `member` that begin in `share` into `sums`.
template <class T>
void add_blocks(const T* bucket, const NormMember& member, ElementRange share, double* sums) {
  const std::int64_t before = std::max<std::int64_t>(0, share.begin - member.offset);
  for (std::int64_t begin = (before + kBlock - 1) / kBlock * kBlock; begin < member.numel; begin += kBlock) {
    if (member.offset + begin >= share.end) return;
    sums[begin / kBlock] = optim::block_squares(bucket + member.offset + begin, std::min(kBlock, member.numel - begin));
  }
}

}  // namespace

NormSums::NormSums(const NamedTensors& parameters, int world, int rank) : world_(world), rank_(rank), first_{0} {
  for (const auto& item : parameters) {
    first_.push_back(first_.back() + (item.second.numel() + kBlock - 1) / kBlock);
  }
  sums_ = at::zeros({first_.back()}, at::kDouble);
}

void NormSums::restart() { sums_.zero_(); }

void NormSums::add(const at::Tensor& bucket, const std::vector<NormMember>& members) {
  const ElementRange share = shard_of(bucket.numel(), world_, rank_);
  auto* sums = sums_.data_ptr<double>();
  for (const NormMember& member : members) {
    double* of_member = sums + first_[member.parameter];
    if (bucket.scalar_type() == at::kDouble) {
      add_blocks(bucket.data_ptr<double>(), member, share, of_member);
    } else {
      add_blocks(bucket.data_ptr<float>(), member, share, of_member);
    }
  }
}

void NormSums::combine(ProcessGroup& group) { group.all_reduce(sums_).wait(); }

std::vector<double> NormSums::of(std::size_t parameter) const {
  const auto* sums = sums_.data_ptr<double>();
  return {sums + first_[parameter], sums + first_[parameter + 1]};
}

}  // namespace lockstep::parallel
