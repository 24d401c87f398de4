// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/state_part.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::int64_t total_bytes(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) bytes += static_cast<std::int64_t>(tensor->nbytes());
  }
  return bytes;
}

/// Returns the index of the first element of `tensor` that begins at byte `byte` of the state or later. `from`: the
/// byte at which the tensor begins.
std::int64_t element_at(std::int64_t byte, std::int64_t from, const at::Tensor& tensor) {
  const auto size = static_cast<std::int64_t>(tensor.element_size());
  return std::clamp<std::int64_t>((byte - from + size - 1) / size, 0, tensor.numel());
}

/// One piece, and its place in the whole.
struct Piece {
  const at::Tensor* tensor = nullptr;
  const TensorSlice* slice = nullptr;
};

DataError bad_piece(const std::string& name, const std::string& what) {
  return DataError(fmt::format("the parts of '{}' do not make a whole tensor: {}", name, what));
}

std::int64_t numel_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) throw bad_piece(name, "its shape is not valid");
  }
  return count;
}

/// Returns true if the strides are those of a dense tensor: each element of the shape has its own place, without gaps.
bool is_dense(const TensorSlice& slice) {
  if (slice.strides.empty()) return true;
  if (slice.strides.size() != slice.shape.size()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride and size of each dimension larger than 1
  for (std::size_t i = 0; i < slice.shape.size(); ++i) {
    if (slice.shape[i] != 1) dimensions.emplace_back(slice.strides[i], slice.shape[i]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  std::int64_t expected = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride != expected) return false;
    if (__builtin_mul_overflow(expected, size, &expected)) return false;
  }
  return true;
}

at::Tensor join_pieces(const std::string& name, std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.slice->begin < b.slice->begin; });
  const TensorSlice& first = *pieces.front().slice;
  const auto dtype = pieces.front().tensor->scalar_type();
  const std::int64_t whole = numel_of(name, first.shape);
  if (!is_dense(first)) throw bad_piece(name, "their strides are not those of a dense tensor");
  std::int64_t have = 0;
  for (const Piece& piece : pieces) {
    if (piece.slice->shape != first.shape || piece.slice->strides != first.strides ||
        piece.tensor->scalar_type() != dtype || piece.tensor->dim() != 1) {
      throw bad_piece(name, "their shapes, strides or dtypes differ");
    }
    if (piece.slice->begin != have) {
      throw bad_piece(name, fmt::format("a piece begins at element {}, but the pieces before it have {}",
                                        piece.slice->begin, have));
    }
    have += piece.tensor->numel();
  }
  if (have != whole) throw bad_piece(name, fmt::format("they have {} of {} elements", have, whole));
  at::Tensor joined = at::empty({whole}, pieces.front().tensor->options());
  for (const Piece& piece : pieces) {
    joined.narrow(0, piece.slice->begin, piece.tensor->numel()).copy_(*piece.tensor);
  }
  return first.strides.empty() ? joined.view(first.shape) : joined.as_strided(first.shape, first.strides);
}

}  // namespace

StatePart part_of(const StateDict& state, int rank, int world_size) {
  const std::int64_t total = total_bytes(state);
  const auto border = [&](std::int64_t r) { return total / world_size * r + total % world_size * r / world_size; };
  StatePart part;
  std::int64_t from = 0;
  for (const auto& [name, value] : state) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor == nullptr || tensor->numel() == 0) {
      if (rank == 0) part.entries[name] = value;
      continue;
    }
    const std::int64_t begin = element_at(border(rank), from, *tensor);
    const std::int64_t end = element_at(border(rank + 1), from, *tensor);
    from += static_cast<std::int64_t>(tensor->nbytes());
    if (begin >= end) continue;
    if (end - begin == tensor->numel()) {
      part.entries[name] = value;
      continue;
    }
    part.entries[name] = tensor->detach().reshape({-1}).narrow(0, begin, end - begin);
    part.slices[name] = {.begin = begin, .shape = tensor->sizes().vec()};
  }
  return part;
}

StateDict join_parts(const std::vector<StatePart>& parts) {
  StateDict whole;
  std::map<std::string, std::vector<Piece>> pieces;
  for (const StatePart& part : parts) {
    for (const auto& [name, value] : part.entries) {
      const auto slice = part.slices.find(name);
      if (slice != part.slices.end()) {
        pieces[name].push_back({&std::get<at::Tensor>(value), &slice->second});
      } else if (!whole.emplace(name, value).second) {
        throw DataError(fmt::format("two parts hold '{}'", name));
      }
    }
  }
  for (auto& [name, list] : pieces) {
    if (!whole.emplace(name, join_pieces(name, std::move(list))).second) {
      throw DataError(fmt::format("two parts hold '{}'", name));
    }
  }
  return whole;
}

}  // namespace lockstep
