// SPDX-License-Identifier: Apache-2.0
// Matrix products whose sums stay in registers, for one instruction set, `Ops`. The files that are compiled with its
// instructions enabled include this file inside their namespaces, so it has no include guard.
//
// Ops has: Element (of the images), Unit (32 bits of a product's operands: one float32, or two bfloat16 that are
// consecutive in the sum), kGroup (elements in a unit), kLanes, kVectors (vectors of columns in a block of the
// product), V (a vector of float32); load, store (elements), load_sums, store_sums (float32), zero, add, sub, half, set
// (one unit in all lanes), multiply_add (of units, to float32), interleave (kGroup vectors into one vector of units),
// join and join_part (the same channels of kGroup pixels into a vector of units, or into its first lanes), and
// pack_columns (float32 weights into units). float32's Ops also has times (a vector times a number) and add_times.

/// A matrix product: sums[r][c] becomes (with `add`: increases by) the sum over s of a[r][s] * b[s][c]. Strides are in
/// units.
template <class Ops>
struct Product {
  std::int64_t rows = 0;
  std::int64_t steps = 0;
  std::int64_t columns = 0;
  const typename Ops::Unit* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_step = 0;
  const typename Ops::Unit* b = nullptr;
  std::int64_t b_step = 0;
  float* sums = nullptr;
  std::int64_t sums_row = 0;
  bool add = false;
};

/// Computes kRows x kCount vectors of sums, all in registers.
template <class Ops, int kRows, int kCount>
LOCKSTEP_KERNEL_INLINE void product_block(const Product<Ops>& p, std::int64_t row, std::int64_t column) {
  using V = typename Ops::V;
  const auto* a = p.a + row * p.a_row;
  const auto* b = p.b + column;
  V sums[kRows][kCount];
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kCount; ++n) sums[r][n] = Ops::zero();
  }
  for (std::int64_t step = 0; step < p.steps; ++step) {
    V of_b[kCount];
    for (int n = 0; n < kCount; ++n) of_b[n] = Ops::load_units(b + n * Ops::kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V of_a = Ops::set(a + r * p.a_row);
      for (int n = 0; n < kCount; ++n) sums[r][n] = Ops::multiply_add(of_a, of_b[n], sums[r][n]);
    }
    a += p.a_step;
    b += p.b_step;
  }
  for (int r = 0; r < kRows; ++r) {
    float* to = p.sums + (row + r) * p.sums_row + column;
    for (int n = 0; n < kCount; ++n, to += Ops::kLanes) {
      Ops::store_sums(p.add ? Ops::add(Ops::load_sums(to), sums[r][n]) : sums[r][n], to);
    }
  }
}

/// Computes all rows of some columns, in blocks of kRows.
template <class Ops, int kRows, int kCount>
void product_columns(const Product<Ops>& p, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) product_block<Ops, kRows, kCount>(p, row, column);
  for (; row + 4 <= p.rows; row += 4) product_block<Ops, 4, kCount>(p, row, column);
  for (; row + 2 <= p.rows; row += 2) product_block<Ops, 2, kCount>(p, row, column);
  for (; row < p.rows; ++row) product_block<Ops, 1, kCount>(p, row, column);
}

/// Computes a product. With fewer vectors of columns, a block has more rows: with about 24 sums in progress, none waits
/// for another.
template <class Ops>
void product(const Product<Ops>& p) {
  constexpr std::int64_t kWide = Ops::kVectors * Ops::kLanes;
  std::int64_t column = 0;
  for (; column + kWide <= p.columns; column += kWide) product_columns<Ops, 6, Ops::kVectors>(p, column);
  const std::int64_t vectors = (p.columns - column + Ops::kLanes - 1) / Ops::kLanes;
  if constexpr (Ops::kVectors == 4) {
    if (vectors == 3) product_columns<Ops, 8, 3>(p, column);
    if (vectors == 2) product_columns<Ops, 12, 2>(p, column);
  }
  if (vectors == 1) product_columns<Ops, 12, 1>(p, column);
}
