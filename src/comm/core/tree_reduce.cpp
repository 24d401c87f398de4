// SPDX-License-Identifier: Apache-2.0
// Plain loops that the compiler vectorises, compiled once per instruction set; Highway chooses the set at run time.
// Nothing here may be contracted into fused operations (-ffp-contract=off), so that every set gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/core/tree_reduce.cpp"
#include <hwy/foreach_target.h>  // compiles this file again for each instruction set
//
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "comm/core/tree_reduce.h"

#ifndef LOCKSTEP_COMM_TREE_REDUCE_SHARED
#define LOCKSTEP_COMM_TREE_REDUCE_SHARED
namespace lockstep::comm {
namespace {

// Elements in a block: accumulators and sources of one block fit into the L1 cache together.
constexpr std::int64_t kBlock = 2048;

/// The arguments of one call, without template parameters, for the functions of each instruction set.
struct TreeCall {
  c10::ScalarType dtype;
  c10::ScalarType result;
  ReduceOp op;
  const TreeLeaf* leaves;
  int leaf_count;
  int divisor;
  std::byte* const* destinations;
  int destination_count;
  std::int64_t count;
  double* scratch;  ///< a block for each level of the tree, wide enough for every accumulator
};

}  // namespace
}  // namespace lockstep::comm
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::comm {
namespace HWY_NAMESPACE {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

inline float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

/// The accumulator of a stored type, and the conversions between them.
template <class T>
struct Element {
  using Acc = T;
  static Acc load(T value) { return value; }
  static T store(Acc value) { return value; }
};
template <>
struct Element<Bf16> {
  using Acc = float;
  static float load(Bf16 value) { return as_float(static_cast<std::uint32_t>(value.bits) << 16); }
  static Bf16 store(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    return {static_cast<std::uint16_t>(value != value ? 0x7FC0U : rounded)};
  }
};
template <>
struct Element<Fp16> {
  using Acc = float;
  static float load(Fp16 value) {
    const std::uint32_t magnitude = (static_cast<std::uint32_t>(value.bits) & 0x7FFFU) << 13;
    const std::uint32_t sign = (static_cast<std::uint32_t>(value.bits) & 0x8000U) << 16;
    const std::uint32_t scaled = as_bits(as_float(magnitude) * 0x1.0p+112F);
    const std::uint32_t special = magnitude | 0x7F800000U;  // infinity and NaN keep their mantissa
    return as_float(sign | (magnitude >= 0x0F800000U ? special : scaled));
  }
  // From Maratyszcza's FP16 library: two scalings make overflow infinite, one addition rounds to nearest even.
  static Fp16 store(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t twice = bits + bits;
    const float scaled_up = as_float(bits & 0x7FFFFFFFU) * 0x1.0p+112F;
    const float base = scaled_up * 0x1.0p-110F;
    const std::uint32_t exponent = twice & 0xFF000000U;
    const std::uint32_t bias = exponent < 0x71000000U ? 0x71000000U : exponent;
    const std::uint32_t sum = as_bits(as_float((bias >> 1) + 0x07800000U) + base);
    const std::uint32_t finite = ((sum >> 13) & 0x00007C00U) + (sum & 0x00000FFFU);
    return {static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | (twice > 0xFF000000U ? 0x7E00U : finite))};
  }
};

// Integers wrap around, as in libtorch. They are computed as unsigned, because signed overflow is undefined.
template <class A>
using Wrapping = std::conditional_t<(sizeof(A) > 4), std::uint64_t, std::uint32_t>;

struct Sum {
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) + static_cast<Wrapping<A>>(b));
    return a + b;
  }
};
struct Product {
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
    return a * b;
  }
};
struct BitAnd {
  template <class A>
  static A apply(A a, A b) {
    return static_cast<A>(a & b);
  }
};
struct BitOr {
  template <class A>
  static A apply(A a, A b) {
    return static_cast<A>(a | b);
  }
};
struct BitXor {
  template <class A>
  static A apply(A a, A b) {
    return static_cast<A>(a ^ b);
  }
};
// A NaN wins, as in libtorch's amin and amax.
struct Min {
  template <class A>
  static A apply(A a, A b) {
    return (a < b || a != a) ? a : b;
  }
};
struct Max {
  template <class A>
  static A apply(A a, A b) {
    return (a > b || a != a) ? a : b;
  }
};

template <class T, class Op>
struct Tree {
  using Acc = typename Element<T>::Acc;
  const TreeLeaf* leaves;
  std::int64_t begin;
  std::int64_t size;
  Acc (*scratch)[kBlock];

  const T* at(int leaf) const { return reinterpret_cast<const T*>(leaves[leaf].data) + begin; }
  void add_leaf(Acc* __restrict acc, int leaf) const {
    const T* __restrict source = at(leaf);
    for (std::int64_t i = 0; i < size; ++i) acc[i] = Op::apply(acc[i], Element<T>::load(source[i]));
  }
  void add_acc(Acc* __restrict acc, const Acc* __restrict other) const {
    for (std::int64_t i = 0; i < size; ++i) acc[i] = Op::apply(acc[i], other[i]);
  }
  void load(Acc* __restrict acc, int leaf) const {
    const T* __restrict source = at(leaf);
    for (std::int64_t i = 0; i < size; ++i) acc[i] = Element<T>::load(source[i]);
  }
  void load_pair(Acc* __restrict acc, int leaf) const {
    const T* __restrict a = at(leaf);
    const T* __restrict b = at(leaf + 1);
    for (std::int64_t i = 0; i < size; ++i) acc[i] = Op::apply(Element<T>::load(a[i]), Element<T>::load(b[i]));
  }

  /// Reduces the subtree of the leaves first .. last - 1.
  void reduce(int first, int last, int level) const {
    Acc* acc = scratch[level];
    if (last - first == 1) return load(acc, first);
    if (last - first == 2) return load_pair(acc, first);
    const int split = tree_split(leaves[first].span.begin, leaves[last - 1].span.end);
    int middle = first + 1;
    while (leaves[middle].span.begin != split) ++middle;
    reduce(first, middle, level);
    if (last - middle == 1) return add_leaf(acc, middle);
    reduce(middle, last, level + 1);
    add_acc(acc, scratch[level + 1]);
  }
};

// Multiplies by the exact inverse if the divisor is a power of two: the same bits as the division, in a fraction of the
// time.
template <class Acc>
void divide_block(Acc* __restrict acc, std::int64_t size, int count) {
  const Acc divisor = static_cast<Acc>(count);
  if ((count & (count - 1)) == 0) {
    const Acc inverse = static_cast<Acc>(1) / divisor;
    for (std::int64_t i = 0; i < size; ++i) acc[i] *= inverse;
  } else {
    for (std::int64_t i = 0; i < size; ++i) acc[i] /= divisor;
  }
}

/// Returns the accumulators in the stored type: converted into `room`, or in place.
template <class R, class Acc>
const R* store_block(const Acc* __restrict acc, R* __restrict room, std::int64_t size) {
  if constexpr (std::is_same_v<R, Acc>) {
    return acc;
  } else {
    for (std::int64_t i = 0; i < size; ++i) room[i] = Element<R>::store(acc[i]);
    return room;
  }
}

/// T is the type of the leaves and R that of the result; both have the same accumulator.
template <class T, class R, class Op>
void reduce_all(const TreeCall& call) {
  using Acc = typename Element<T>::Acc;
  auto* scratch = reinterpret_cast<Acc(*)[kBlock]>(call.scratch);
  alignas(64) R room[kBlock];
  for (std::int64_t begin = 0; begin < call.count; begin += kBlock) {
    const std::int64_t size = call.count - begin < kBlock ? call.count - begin : kBlock;
    const Tree<T, Op> tree{call.leaves, begin, size, scratch};
    tree.reduce(0, call.leaf_count, 0);
    if constexpr (std::is_floating_point_v<Acc>) {
      if (call.op == ReduceOp::kMean) divide_block(scratch[0], size, call.divisor);
    }
    const R* result = store_block<R>(scratch[0], room, size);
    for (int d = 0; d < call.destination_count; ++d) {
      std::memcpy(reinterpret_cast<R*>(call.destinations[d]) + begin, result,
                  static_cast<std::size_t>(size) * sizeof(R));
    }
  }
}

template <class T, class R>
void reduce_floats(const TreeCall& call) {
  if (call.op == ReduceOp::kMin) return reduce_all<T, R, Min>(call);
  if (call.op == ReduceOp::kMax) return reduce_all<T, R, Max>(call);
  if (call.op == ReduceOp::kProduct) return reduce_all<T, R, Product>(call);
  reduce_all<T, R, Sum>(call);
}

template <class T>
void reduce_integers(const TreeCall& call) {
  if (call.op == ReduceOp::kMin) return reduce_all<T, T, Min>(call);
  if (call.op == ReduceOp::kMax) return reduce_all<T, T, Max>(call);
  if (call.op == ReduceOp::kProduct) return reduce_all<T, T, Product>(call);
  if (call.op == ReduceOp::kBitAnd) return reduce_all<T, T, BitAnd>(call);
  if (call.op == ReduceOp::kBitOr) return reduce_all<T, T, BitOr>(call);
  if (call.op == ReduceOp::kBitXor) return reduce_all<T, T, BitXor>(call);
  reduce_all<T, T, Sum>(call);
}

/// Reduces bool values, bytes of 0 and 1.
void reduce_bools(const TreeCall& call) {
  if (call.op == ReduceOp::kBitXor) return reduce_all<std::uint8_t, std::uint8_t, BitXor>(call);
  const bool all = call.op == ReduceOp::kMin || call.op == ReduceOp::kProduct || call.op == ReduceOp::kBitAnd;
  if (all) return reduce_all<std::uint8_t, std::uint8_t, BitAnd>(call);
  reduce_all<std::uint8_t, std::uint8_t, BitOr>(call);
}

template <class T>
void reduce_narrow(const TreeCall& call) {
  if (call.result == c10::ScalarType::Float) return reduce_floats<T, float>(call);
  reduce_floats<T, T>(call);
}

void reduce_call(const TreeCall& call) {
  switch (call.dtype) {
    case c10::ScalarType::Float:
      if (call.result == c10::ScalarType::Half) return reduce_floats<float, Fp16>(call);
      if (call.result == c10::ScalarType::BFloat16) return reduce_floats<float, Bf16>(call);
      return reduce_floats<float, float>(call);
    case c10::ScalarType::Double:
      return reduce_floats<double, double>(call);
    case c10::ScalarType::Half:
      return reduce_narrow<Fp16>(call);
    case c10::ScalarType::BFloat16:
      return reduce_narrow<Bf16>(call);
    case c10::ScalarType::Byte:
      return reduce_integers<std::uint8_t>(call);
    case c10::ScalarType::Char:
      return reduce_integers<std::int8_t>(call);
    case c10::ScalarType::Short:
      return reduce_integers<std::int16_t>(call);
    case c10::ScalarType::Int:
      return reduce_integers<std::int32_t>(call);
    case c10::ScalarType::Long:
      return reduce_integers<std::int64_t>(call);
    case c10::ScalarType::Bool:
      return reduce_bools(call);
    default:
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::comm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {

HWY_EXPORT(reduce_call);

bool is_reducible(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Byte:
    case c10::ScalarType::Char:
    case c10::ScalarType::Short:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
    case c10::ScalarType::Bool:
      return true;
    default:
      return false;
  }
}

c10::ScalarType accumulator_of(c10::ScalarType dtype) {
  const bool narrow = dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
  return narrow ? c10::ScalarType::Float : dtype;
}

namespace {

// Checks that no leaf is missing, which would make the search endless.
void check_leaves(const std::vector<TreeLeaf>& leaves) {
  bool valid = !leaves.empty();
  for (std::size_t i = 1; valid && i < leaves.size(); ++i) valid = leaves[i].span.begin == leaves[i - 1].span.end;
  if (!valid) throw InternalError("tree_reduce was called with leaves that do not form a subtree");
}

/// Returns an upper bound on the accumulator blocks that the tree needs at once: its depth.
std::size_t levels_of(const std::vector<TreeLeaf>& leaves) {
  std::size_t levels = 1;
  while (std::int64_t{1} << levels < leaves.back().span.end - leaves.front().span.begin) ++levels;
  return levels;
}

/// Returns scratch memory that is valid until this thread's next call. It is kept between calls, but not as a static
/// array: that much thread-local storage would not fit into a thread with a small stack.
double* reserve_scratch(std::size_t levels) {
  thread_local hwy::AlignedFreeUniquePtr<double[]> scratch;
  thread_local std::size_t reserved = 0;
  if (levels <= reserved) return scratch.get();
  const std::size_t numbers = levels * static_cast<std::size_t>(kBlock);
  scratch = hwy::AllocateAligned<double>(numbers);
  reserved = scratch == nullptr ? 0 : levels;
  if (scratch != nullptr) return scratch.get();
  throw ResourceError("no memory is left for the scratch buffer of a reduction: " +
                      text::bytes(numbers * sizeof(double)));
}

}  // namespace

void tree_reduce(const Reduction& reduction, const std::vector<TreeLeaf>& leaves,
                 const std::vector<std::byte*>& destinations, std::int64_t count) {
  const c10::ScalarType result = reduction.result.value_or(reduction.dtype);
  if (!is_reducible(reduction.dtype) || accumulator_of(result) != accumulator_of(reduction.dtype)) {
    throw InternalError("tree_reduce was called with dtypes that it does not support");
  }
  check_leaves(leaves);
  TreeCall call{};
  call.dtype = reduction.dtype;
  call.result = result;
  call.op = reduction.op;
  call.leaves = leaves.data();
  call.leaf_count = static_cast<int>(leaves.size());
  call.divisor = reduction.divisor;
  call.destinations = destinations.data();
  call.destination_count = static_cast<int>(destinations.size());
  call.count = count;
  call.scratch = reserve_scratch(levels_of(leaves));
  HWY_DYNAMIC_DISPATCH(reduce_call)(call);
}

}  // namespace lockstep::comm
#endif
