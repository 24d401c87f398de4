// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/attention/attention_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>
// Highway's mathematical functions must follow highway.h.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/attention/attention_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

// Queries processed at a time: they share each read of keys and values.
constexpr std::int64_t kQueries = 4;

/// Copies of rows as float32, row by row and transposed. The transposed copy is padded to whole vectors.
class FloatRows {
 public:
  FloatRows(std::int64_t rows, std::int64_t depth) : depth_(depth), rows_(static_cast<std::size_t>(rows * depth)) {}

  template <class T>
  void read(const AttentionRows& from) {
    const std::int64_t rows = static_cast<std::int64_t>(rows_.size()) / depth_;
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = static_cast<const T*>(from.data) + i * from.row;
      for_channels(depth_, [&](auto d, std::int64_t c) HWY_ATTR { hn::StoreU(load(d, row + c), d, at(i) + c); });
    }
  }
  template <class T>
  void write(const AttentionRows& to) {
    const std::int64_t rows = static_cast<std::int64_t>(rows_.size()) / depth_;
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = static_cast<T*>(to.data) + i * to.row;
      for_channels(depth_, [&](auto d, std::int64_t c) HWY_ATTR { store(hn::LoadU(d, at(i) + c), d, row + c); });
    }
  }
  [[nodiscard]] float* at(std::int64_t row) { return rows_.data() + row * depth_; }
  [[nodiscard]] std::vector<float> turned() const {
    const std::int64_t rows = static_cast<std::int64_t>(rows_.size()) / depth_;
    std::vector<float> columns(static_cast<std::size_t>(padded(rows) * depth_));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < depth_; ++c) {
        columns[static_cast<std::size_t>(c * padded(rows) + i)] = rows_[static_cast<std::size_t>(i * depth_ + c)];
      }
    }
    return columns;
  }

 private:
  std::int64_t depth_;
  std::vector<float> rows_;
};

/// Computes to[r][j] = the sum over c of rows[r][c] * columns[c][j].
HWY_INLINE void scores_of(const float* const (&rows)[kQueries], const std::vector<float>& columns, std::int64_t depth,
                          float* const (&to)[kQueries]) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = static_cast<std::int64_t>(columns.size()) / depth;
  for (std::int64_t j = 0; j < width; j += lanes) {
    hn::Vec<Floats> sums[kQueries];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (std::int64_t c = 0; c < depth; ++c) {
      const auto column = hn::LoadU(d, columns.data() + c * width + j);
      for (std::int64_t r = 0; r < kQueries; ++r) sums[r] = hn::MulAdd(hn::Set(d, rows[r][c]), column, sums[r]);
    }
    for (std::int64_t r = 0; r < kQueries; ++r) hn::StoreU(sums[r], d, to[r] + j);
  }
}

/// Computes to[r][c] = the sum over j of shares[r][j] * rows[j][c].
HWY_INLINE void mixed(const float* const (&shares)[kQueries], FloatRows& rows, std::int64_t count, std::int64_t depth,
                      float* const (&to)[kQueries]) {
  for_channels(depth, [&](auto d, std::int64_t c) HWY_ATTR {
    hn::Vec<decltype(d)> sums[kQueries];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (std::int64_t j = 0; j < count; ++j) {
      const auto row = hn::LoadU(d, rows.at(j) + c);
      for (std::int64_t r = 0; r < kQueries; ++r) sums[r] = hn::MulAdd(hn::Set(d, shares[r][j]), row, sums[r]);
    }
    for (std::int64_t r = 0; r < kQueries; ++r) hn::StoreU(sums[r], d, to[r] + c);
  });
}

/// Adds to rows[j][c] the sum over r of shares[r][j] * from[r][c].
HWY_INLINE void spread(const float* const (&shares)[kQueries], const float* const (&from)[kQueries], std::int64_t count,
                       std::int64_t depth, FloatRows& rows) {
  for_channels(depth, [&](auto d, std::int64_t c) HWY_ATTR {
    hn::Vec<decltype(d)> values[kQueries];
    for (std::int64_t r = 0; r < kQueries; ++r) values[r] = hn::LoadU(d, from[r] + c);
    for (std::int64_t j = 0; j < count; ++j) {
      auto sum = hn::LoadU(d, rows.at(j) + c);
      for (std::int64_t r = 0; r < kQueries; ++r) sum = hn::MulAdd(hn::Set(d, shares[r][j]), values[r], sum);
      hn::StoreU(sum, d, rows.at(j) + c);
    }
  });
}

/// Turns the products of query `row` with the keys into scores, scaled and biased. Scores of hidden keys and padding
/// are -infinity.
HWY_INLINE void finish_scores(const AttentionHead& head, std::int64_t row, float* scores) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::int64_t width = padded(head.keys);
  const float* bias = head.bias == nullptr ? nullptr : head.bias + row * head.bias_row;
  for_span(0, head.keys, [&](auto d, std::int64_t j, auto memory) HWY_ATTR {
    auto score = hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, head.scale));
    if (bias != nullptr) score = hn::Add(score, memory.get(d, bias + j));
    memory.put(score, d, scores + j);
  });
  for (std::int64_t j = head.keys; j < width; ++j) scores[j] = kNone;
  if (head.hidden == nullptr) return;
  const std::uint8_t* hidden = head.hidden + row * head.hidden_row;
  for (std::int64_t j = 0; j < head.keys; ++j) {
    if (hidden[j] != 0) scores[j] = kNone;
  }
}

/// Returns the exponential; it maps -infinity to 0.
template <class Tag>
HWY_INLINE hn::Vec<Tag> exponential(Tag d, hn::Vec<Tag> x) {
  const auto power = hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -104.0F)), power);
}

/// Replaces scores by their softmax; returns the logarithm of the sum of the exponentials.
HWY_INLINE float soften(std::int64_t keys, float* scores) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = padded(keys);
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::int64_t j = 0; j < width; j += lanes) most = hn::Max(most, hn::LoadU(d, scores + j));
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  auto sums = hn::Zero(d);
  for (std::int64_t j = 0; j < width; j += lanes) {
    const auto power = exponential(d, hn::Sub(hn::LoadU(d, scores + j), hn::Set(d, largest)));
    hn::StoreU(power, d, scores + j);
    sums = hn::Add(sums, power);
  }
  const float sum = sum_of(d, sums);
  const auto factor = hn::Set(d, 1 / sum);
  for (std::int64_t j = 0; j < width; j += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), factor), d, scores + j);
  return largest + std::log(sum);
}

/// Buffers for kQueries rows.
class Block {
 public:
  explicit Block(std::int64_t width) : width_(width), data_(static_cast<std::size_t>(kQueries * width)) {}
  [[nodiscard]] float* at(std::int64_t row) { return data_.data() + row * width_; }

 private:
  std::int64_t width_;
  std::vector<float> data_;
};

template <class T>
void forward_head(const AttentionHead& head, const AttentionRows& out) {
  FloatRows query(head.queries, head.depth);
  FloatRows key(head.keys, head.depth);
  FloatRows value(head.keys, head.depth);
  query.read<T>(head.query);
  key.read<T>(head.key);
  value.read<T>(head.value);
  const std::vector<float> turned_keys = key.turned();
  Block shares(padded(head.keys));
  Block results(head.depth);
  float* const of_shares[kQueries] = {shares.at(0), shares.at(1), shares.at(2), shares.at(3)};
  const float* const read_shares[kQueries] = {shares.at(0), shares.at(1), shares.at(2), shares.at(3)};
  float* const of_results[kQueries] = {results.at(0), results.at(1), results.at(2), results.at(3)};
  for (std::int64_t first = 0; first < head.queries; first += kQueries) {
    const std::int64_t there = std::min(kQueries, head.queries - first);
    const float* rows[kQueries];
    for (std::int64_t r = 0; r < kQueries; ++r) rows[r] = query.at(first + std::min(r, there - 1));
    scores_of(rows, turned_keys, head.depth, of_shares);
    for (std::int64_t r = 0; r < there; ++r) {
      finish_scores(head, first + r, of_shares[r]);
      head.logs[first + r] = soften(head.keys, of_shares[r]);
    }
    mixed(read_shares, value, head.keys, head.depth, of_results);
    for (std::int64_t r = 0; r < there; ++r) {
      T* to = static_cast<T*>(out.data) + (first + r) * out.row;
      for_channels(head.depth,
                   [&](auto d, std::int64_t c) HWY_ATTR { store(hn::LoadU(d, of_results[r] + c), d, to + c); });
    }
  }
}

/// Recomputes the softmax of a query, and turns its gradient, in `grads`, into the gradient of the scores.
HWY_INLINE void harden(const AttentionHead& head, std::int64_t row, float* shares, float* grads) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = padded(head.keys);
  const auto log = hn::Set(d, head.logs[row]);
  auto sums = hn::Zero(d);
  for (std::int64_t j = 0; j < width; j += lanes) {
    const auto share = exponential(d, hn::Sub(hn::LoadU(d, shares + j), log));
    hn::StoreU(share, d, shares + j);
    sums = hn::MulAdd(share, hn::LoadU(d, grads + j), sums);
  }
  const auto mean = hn::Set(d, sum_of(d, sums));
  for (std::int64_t j = 0; j < width; j += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, shares + j), hn::Sub(hn::LoadU(d, grads + j), mean)), d, grads + j);
  }
}

template <class T>
void backward_head(const AttentionHead& head, const AttentionRows& grad, const AttentionGradients& into) {
  const std::int64_t depth = head.depth;
  FloatRows query(head.queries, depth);
  FloatRows key(head.keys, depth);
  FloatRows value(head.keys, depth);
  FloatRows coming(head.queries, depth);
  FloatRows query_grad(head.queries, depth);
  FloatRows key_grad(head.keys, depth);
  FloatRows value_grad(head.keys, depth);
  query.read<T>(head.query);
  key.read<T>(head.key);
  value.read<T>(head.value);
  coming.read<T>(grad);
  const std::vector<float> turned_keys = key.turned();
  const std::vector<float> turned_values = value.turned();
  const std::int64_t width = padded(head.keys);
  Block shares(width);
  Block grads(width);
  Block results(depth);
  float* const of_shares[kQueries] = {shares.at(0), shares.at(1), shares.at(2), shares.at(3)};
  float* const of_grads[kQueries] = {grads.at(0), grads.at(1), grads.at(2), grads.at(3)};
  float* const of_results[kQueries] = {results.at(0), results.at(1), results.at(2), results.at(3)};
  const float* const read_shares[kQueries] = {shares.at(0), shares.at(1), shares.at(2), shares.at(3)};
  const float* const read_grads[kQueries] = {grads.at(0), grads.at(1), grads.at(2), grads.at(3)};
  for (std::int64_t first = 0; first < head.queries; first += kQueries) {
    const std::int64_t there = std::min(kQueries, head.queries - first);
    const float* rows[kQueries];
    const float* coming_rows[kQueries];
    for (std::int64_t r = 0; r < kQueries; ++r) {
      rows[r] = query.at(first + std::min(r, there - 1));
      coming_rows[r] = coming.at(first + std::min(r, there - 1));
    }
    scores_of(rows, turned_keys, depth, of_shares);
    scores_of(coming_rows, turned_values, depth, of_grads);
    for (std::int64_t r = 0; r < there; ++r) {
      finish_scores(head, first + r, of_shares[r]);
      harden(head, first + r, of_shares[r], of_grads[r]);
      if (into.bias != nullptr) std::copy(of_grads[r], of_grads[r] + head.keys, into.bias + (first + r) * head.keys);
      const Floats d;
      for (std::int64_t j = 0; j < width; j += static_cast<std::int64_t>(hn::Lanes(d))) {
        hn::StoreU(hn::Mul(hn::LoadU(d, of_grads[r] + j), hn::Set(d, head.scale)), d, of_grads[r] + j);
      }
    }
    for (std::int64_t r = there; r < kQueries; ++r) {  // rows that repeat the last query must not contribute
      std::fill(of_shares[r], of_shares[r] + width, 0.0F);
      std::fill(of_grads[r], of_grads[r] + width, 0.0F);
    }
    mixed(read_grads, key, head.keys, depth, of_results);
    for (std::int64_t r = 0; r < there; ++r) std::copy(of_results[r], of_results[r] + depth, query_grad.at(first + r));
    spread(read_grads, rows, head.keys, depth, key_grad);
    spread(read_shares, coming_rows, head.keys, depth, value_grad);
  }
  query_grad.write<T>(into.query);
  key_grad.write<T>(into.key);
  value_grad.write<T>(into.value);
}

void attention_forward_of(const AttentionHead& head, const AttentionRows& out) {
  if (head.type == ElementType::kFloat) return forward_head<float>(head, out);
  forward_head<std::uint16_t>(head, out);
}

void attention_backward_of(const AttentionHead& head, const AttentionRows& grad, const AttentionGradients& into) {
  if (head.type == ElementType::kFloat) return backward_head<float>(head, grad, into);
  backward_head<std::uint16_t>(head, grad, into);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(attention_forward_of);
HWY_EXPORT(attention_backward_of);

void attention_forward(const AttentionHead& head, const AttentionRows& out) {
  HWY_DYNAMIC_DISPATCH(attention_forward_of)(head, out);
}

void attention_backward(const AttentionHead& head, const AttentionRows& grad, const AttentionGradients& into) {
  HWY_DYNAMIC_DISPATCH(attention_backward_of)(head, grad, into);
}

}  // namespace lockstep::nn
#endif
