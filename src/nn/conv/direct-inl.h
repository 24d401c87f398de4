// SPDX-License-Identifier: Apache-2.0
// The algorithm of direct.h for one instruction set, `Ops` (product-inl.h lists its members). The files that are
// compiled with these instructions enabled include it inside their namespaces, so it has no include guard.

/// A chunk of a class's results, and the first column to compute.
struct DirectPiece {
  const DirectClass* of = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t column = 0;
};

inline DirectPiece direct_piece(const DirectPlan& plan, std::int64_t index) {
  const std::int64_t chunks = direct_chunks(plan);
  DirectPiece piece{.column = index / chunks * kDirectColumns};
  std::int64_t chunk = index % chunks;
  for (const DirectClass& one : plan.classes) {
    const auto rows = static_cast<std::int64_t>(one.pixels.size()) * plan.images;
    const std::int64_t class_chunks = (rows + kDirectChunk - 1) / kDirectChunk;
    if (chunk < class_chunks) {
      piece.of = &one;
      piece.first = chunk * kDirectChunk;
      piece.last = std::min(rows, piece.first + kDirectChunk);
      return piece;
    }
    chunk -= class_chunks;
  }
  return piece;
}

/// A block of results: the addresses of its input rows and of its results.
template <class Ops, int kRows>
struct DirectBlock {
  const typename Ops::Element* rows[kRows];
  typename Ops::Element* to[kRows];
  std::int64_t count = 0;  ///< number of rows to store; other rows repeat the last one
};

/// The weights of a block of columns, [taps, in / kGroup, width], starting with one of its vectors.
template <class Ops>
struct DirectOperand {
  const typename Ops::Unit* weights = nullptr;
  std::int64_t steps = 0;  ///< steps of a tap
  std::int64_t width = 0;
  std::int64_t channels = 0;        ///< channels read at a pixel
  const float* bias = nullptr;      ///< bias of the first column, or null
  std::int64_t stored_columns = 0;  ///< columns in memory, starting with the first
};

template <class Ops, int kRows, int kCount>
LOCKSTEP_KERNEL_INLINE void direct_block(const DirectClass& results, const DirectOperand<Ops>& operand,
                                         const DirectBlock<Ops, kRows>& block) {
  using V = typename Ops::V;
  using Unit = typename Ops::Unit;
  V sums[kRows][kCount];
  for (int n = 0; n < kCount; ++n) {
    const V bias = operand.bias == nullptr ? Ops::zero() : Ops::load_sums(operand.bias + n * Ops::kLanes);
    for (int r = 0; r < kRows; ++r) sums[r][n] = bias;
  }
  for (const DirectRun& run : results.runs) {
    const Unit* b = operand.weights + run.tap * operand.steps * operand.width;
    const Unit* a[kRows];
    for (int r = 0; r < kRows; ++r) a[r] = reinterpret_cast<const Unit*>(block.rows[r] + run.from * operand.channels);
    const std::int64_t steps = run.taps * operand.steps;
    for (std::int64_t step = 0; step < steps; ++step) {
      V of_b[kCount];
      for (int n = 0; n < kCount; ++n) of_b[n] = Ops::load_units(b + n * Ops::kLanes);
      for (int r = 0; r < kRows; ++r) {
        const V of_a = Ops::set(a[r] + step);
        for (int n = 0; n < kCount; ++n) sums[r][n] = Ops::multiply_add(of_a, of_b[n], sums[r][n]);
      }
      b += operand.width;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (r >= block.count) break;
    for (int n = 0; n < kCount; ++n) {
      const std::int64_t left = operand.stored_columns - n * Ops::kLanes;
      if (left >= Ops::kLanes) {
        Ops::store(sums[r][n], block.to[r] + n * Ops::kLanes);
      } else if (left > 0) {
        typename Ops::Element part[Ops::kLanes];
        Ops::store(sums[r][n], part);
        std::copy(part, part + left, block.to[r] + n * Ops::kLanes);
      }
    }
  }
}

template <class Ops, int kRows, int kCount>
void direct_rows(const DirectPlan& plan, const DirectImages<typename Ops::Element>& images, const DirectPiece& piece,
                 const DirectOperand<Ops>& operand) {
  const auto& pixels = piece.of->pixels;
  const auto per_image = static_cast<std::int64_t>(pixels.size());
  for (std::int64_t first = piece.first; first < piece.last; first += kRows) {
    DirectBlock<Ops, kRows> block;
    block.count = std::min<std::int64_t>(kRows, piece.last - first);
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = std::min(first + r, piece.last - 1);
      const std::int64_t image = row / per_image;
      const DirectPixel& pixel = pixels[static_cast<std::size_t>(row % per_image)];
      block.rows[r] = images.x + (image * plan.from_pixels + pixel.from) * plan.in;
      block.to[r] = images.y + (image * plan.to_pixels + pixel.to) * plan.out + piece.column;
    }
    direct_block<Ops, kRows, kCount>(*piece.of, operand, block);
  }
}

template <class Ops>
void direct_piece_of(const DirectPlan& plan, const DirectImages<typename Ops::Element>& images,
                     const DirectPiece& piece) {
  const std::int64_t width = direct_width(plan.out, piece.column);
  const std::int64_t steps = plan.in / Ops::kGroup;
  const auto* packed = reinterpret_cast<const typename Ops::Unit*>(images.packed) + piece.column * plan.taps * steps;
  for (std::int64_t column = 0; column < width;) {
    DirectPiece part = piece;
    part.column += column;
    const DirectOperand<Ops> operand{.weights = packed + column,
                                     .steps = steps,
                                     .width = width,
                                     .channels = plan.in,
                                     .bias = images.bias == nullptr ? nullptr : images.bias + part.column,
                                     .stored_columns = plan.out - part.column};
    const std::int64_t vectors = std::min<std::int64_t>((width - column) / Ops::kLanes, Ops::kVectors);
    if (vectors == 1) direct_rows<Ops, 12, 1>(plan, images, part, operand);
    if (vectors == 2) direct_rows<Ops, Ops::kVectors == 4 ? 12 : 6, 2>(plan, images, part, operand);
    if constexpr (Ops::kVectors == 4) {
      if (vectors == 3) direct_rows<Ops, 8, 3>(plan, images, part, operand);
      if (vectors == 4) direct_rows<Ops, 6, 4>(plan, images, part, operand);
    }
    column += vectors * Ops::kLanes;
  }
}

template <class Ops>
void direct_pieces(const DirectPlan& plan, const DirectImages<typename Ops::Element>& images, std::int64_t begin,
                   std::int64_t end) {
  for (std::int64_t index = begin; index < end; ++index) {
    direct_piece_of<Ops>(plan, images, direct_piece(plan, index));
  }
}

// Number of units that are packed for one vector of columns before the next vector is packed. This matters when each
// unit of the sum is on its own page.
constexpr std::int64_t kPackedSteps = 16;

/// Packs the weights to [blocks of 64 columns, taps, in / kGroup, width, kGroup].
template <class Ops>
void direct_pack_of(const DirectPlan& plan, const DirectWeights& weights, typename Ops::Element* packed) {
  constexpr std::int64_t kGroup = Ops::kGroup;
  const std::int64_t steps = plan.in / kGroup;
  const std::int64_t together = weights.in == 1 ? steps : kPackedSteps;
  for (std::int64_t column = 0; column < plan.out; column += kDirectColumns) {
    const std::int64_t width = direct_width(plan.out, column);
    auto* block = reinterpret_cast<typename Ops::Unit*>(packed) + column * plan.taps * steps;
    for (std::int64_t tap = 0; tap < plan.taps; ++tap) {
      for (std::int64_t step = 0; step < steps; step += together) {
        for (std::int64_t c = 0; c < width; c += Ops::kLanes) {
          const float* from =
              weights.data + tap * weights.tap + (column + c) * weights.out + step * kGroup * weights.in;
          Ops::pack_columns({.from = from,
                             .column = weights.out,
                             .step = weights.in,
                             .columns = std::clamp<std::int64_t>(plan.out - column - c, 0, Ops::kLanes),
                             .steps = std::min(together, steps - step)},
                            block + (tap * steps + step) * width + c, width);
        }
      }
    }
  }
}

// Units that are summed in registers before the sum in memory is updated.
constexpr std::int64_t kDirectSteps = 256;

/// The channels of pixels as the units of a product: [.., steps, 16 or 64], with consecutive pixels in a unit.
template <class Ops>
struct DirectUnits {
  const typename Ops::Element* pixels = nullptr;
  std::int64_t channels = 0;
  const typename Ops::Element* zeros = nullptr;
  const std::int32_t* index = nullptr;  ///< indices of the pixels; -1: outside
  std::int64_t count = 0;
};

/// Maps channels of the pixels to columns of `total`.
struct DirectSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t column = 0;
  std::int64_t total = 0;
};

/// Writes the units in blocks of kBlock columns; the last block may be narrower.
template <class Ops, std::int64_t kBlock>
void direct_units(const DirectUnits<Ops>& source, const DirectSpan& span, typename Ops::Unit* units) {
  using Element = typename Ops::Element;
  constexpr std::int64_t kGroup = Ops::kGroup;
  const std::int64_t steps = (source.count + kGroup - 1) / kGroup;
  const Element* pixels[kDirectSteps][kGroup];
  for (std::int64_t at = 0; at < steps * kGroup; ++at) {
    const std::int64_t pixel = at < source.count ? source.index[at] : -1;
    pixels[at / kGroup][at % kGroup] = pixel < 0 ? source.zeros : source.pixels + pixel * source.channels;
  }
  for (std::int64_t c = span.begin; c < span.end;) {
    const std::int64_t at = span.column + c - span.begin;
    const std::int64_t block = at / kBlock * kBlock;
    const std::int64_t width = std::min(kBlock, span.total - block);
    auto* to = units + block * kDirectSteps + at - block;
    const std::int64_t count = std::min<std::int64_t>({Ops::kLanes, span.end - c, block + kBlock - at});
    if (count == Ops::kLanes) {
      for (std::int64_t step = 0; step < steps; ++step) Ops::join(pixels[step], c, to + step * width);
    } else {
      for (std::int64_t step = 0; step < steps; ++step) Ops::join_part(pixels[step], c, count, to + step * width);
    }
    c += count;
  }
}

template <class Ops>
void direct_weight_sums_of(const DirectConv& conv, const DirectGradient<typename Ops::Element>& gradient,
                           const DirectPairs& pairs, std::int64_t begin, std::int64_t end) {
  using Element = typename Ops::Element;
  using Unit = typename Ops::Unit;
  const auto count = static_cast<std::int64_t>(pairs.dy.size());
  const std::int64_t columns = pairs.taps * conv.in;
  const std::int64_t padded = direct_columns(columns);
  const std::vector<Element> zeros(static_cast<std::size_t>(std::max(conv.in, conv.out)));
  std::vector<Unit> left(static_cast<std::size_t>(direct_columns(end - begin) * kDirectSteps));
  std::vector<Unit> right(static_cast<std::size_t>(padded * kDirectSteps));
  float* sums = gradient.sums + pairs.tap * conv.in;
  for (std::int64_t row = begin; row < end && count == 0; ++row) {
    std::fill(sums + row * gradient.row, sums + row * gradient.row + columns, 0.0F);
  }
  constexpr std::int64_t kChunk = kDirectSteps * Ops::kGroup;
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const std::int64_t now = std::min(kChunk, count - first);
    direct_units<Ops, kDirectPanel>({.pixels = gradient.dy,
                                     .channels = conv.out,
                                     .zeros = zeros.data(),
                                     .index = pairs.dy.data() + first,
                                     .count = now},
                                    {begin, end, 0, direct_columns(end - begin)}, left.data());
    for (std::int64_t t = 0; t < pairs.taps; ++t) {
      direct_units<Ops, kDirectColumns>({.pixels = gradient.x,
                                         .channels = conv.in,
                                         .zeros = zeros.data(),
                                         .index = pairs.x.data() + t * count + first,
                                         .count = now},
                                        {0, conv.in, t * conv.in, padded}, right.data());
    }
    for (std::int64_t column = 0; column < padded; column += kDirectColumns) {
      const std::int64_t width = std::min(kDirectColumns, padded - column);
      for (std::int64_t row = begin; row < end; row += kDirectPanel) {
        product<Ops>({.rows = std::min(kDirectPanel, end - row),
                      .steps = (now + Ops::kGroup - 1) / Ops::kGroup,
                      .columns = width,
                      .a = left.data() + (row - begin) * kDirectSteps,
                      .a_row = 1,
                      .a_step = std::min(kDirectPanel, direct_columns(end - row)),
                      .b = right.data() + column * kDirectSteps,
                      .b_step = width,
                      .sums = sums + row * gradient.row + column,
                      .sums_row = gradient.row,
                      .add = first > 0});
      }
    }
  }
}
