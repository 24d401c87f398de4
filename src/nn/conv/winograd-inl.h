// SPDX-License-Identifier: Apache-2.0
// The algorithm of winograd.h for one instruction set, which `Ops` is (product-inl.h says what it has): part of the
// files that are compiled with its instructions switched on, inside their namespaces. Hence neither an include guard
// nor includes.

// Tiles whose points are in the cache at once: their sums for 64 channels, and the points of 128.
constexpr std::int64_t kTiles = 24;
constexpr std::int64_t kColumns = 64;
// Tiles that are summed before the sum in memory is touched, when tiles are what is summed over.
constexpr std::int64_t kSummedTiles = 128;
constexpr std::int64_t kPoints = 4;  // in a row of them

/// What Winograd calls B^T: from 4 neighbours to 4 points.
template <class Ops, class V>
LOCKSTEP_KERNEL_INLINE void to_points(const V (&from)[4], V (&to)[4]) {
  to[0] = Ops::sub(from[0], from[2]);
  to[1] = Ops::add(from[1], from[2]);
  to[2] = Ops::sub(from[2], from[1]);
  to[3] = Ops::sub(from[1], from[3]);
}

/// Tiles of one row that follow each other.
struct Run {
  std::int64_t image = 0;
  std::int64_t y = 0;  ///< row of the first pixels
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t at = 0;  ///< number of `first` in the block that the run belongs to
};

/// The run that begins at tile (or group of tiles) `at` of all, `per_row` in a row, and ends before `end`.
inline Run run_at(const Winograd& conv, std::int64_t at, std::int64_t end, std::int64_t per_row) {
  const std::int64_t rows = (conv.height + 1) / 2;
  const std::int64_t row = at / per_row;
  const std::int64_t first = at % per_row;
  return {.image = row / rows, .y = row % rows * 2, .first = first, .count = std::min(per_row - first, end - at)};
}

/// Images of so many channels, and a row of zeros.
template <class T>
struct Rows {
  const T* images = nullptr;
  std::int64_t channels = 0;
  const T* zeros = nullptr;
};

/// Row `y` of a run's image, or zeros where there is none.
template <class T>
const T* row_of(const Winograd& conv, const Rows<T>& rows, const Run& run, std::int64_t y) {
  if (y < 0 || y >= conv.height) return rows.zeros;
  return rows.images + (run.image * conv.height + y) * conv.width * rows.channels;
}

/// The elements of column x, or zeros beside the image.
template <class Ops>
LOCKSTEP_KERNEL_INLINE typename Ops::V pixel(const Winograd& conv, const typename Ops::Element* row, std::int64_t x,
                                             std::int64_t channels) {
  return x < 0 || x >= conv.width ? Ops::zero() : Ops::load(row + x * channels);
}

/// The same less their level, where the row is one of the image.
template <class Ops, bool kLevel>
LOCKSTEP_KERNEL_INLINE typename Ops::V input_pixel(const Winograd& conv, const typename Ops::Element* row,
                                                   std::int64_t x, typename Ops::V level) {
  if (!kLevel) return pixel<Ops>(conv, row, x, conv.in);
  return x < 0 || x >= conv.width ? Ops::zero() : Ops::sub(Ops::load(row + x * conv.in), level);
}

/// The level of a vector of channels in row `y`: none outside.
template <class Ops, bool kLevel>
LOCKSTEP_KERNEL_INLINE typename Ops::V level_of(const Winograd& conv, const float* level, std::int64_t y,
                                                std::int64_t channel) {
  return kLevel && y >= 0 && y < conv.height ? Ops::load_sums(level + channel) : Ops::zero();
}

/// What a run's points are made of.
template <class Ops>
struct Inputs {
  const typename Ops::Element* x = nullptr;
  const typename Ops::Element* zeros = nullptr;
  const float* level = nullptr;
};

/// Points of a run's tiles: `points` [16, kTiles, in].
template <class Ops, bool kLevel>
void points_of_run(const Winograd& conv, const Inputs<Ops>& of, const Run& run, typename Ops::Element* points) {
  using V = typename Ops::V;
  const typename Ops::Element* rows[4];
  const Rows<typename Ops::Element> all{.images = of.x, .channels = conv.in, .zeros = of.zeros};
  for (int i = 0; i < 4; ++i) rows[i] = row_of(conv, all, run, run.y - 1 + i);
  for (std::int64_t c = 0; c < conv.in; c += Ops::kLanes) {
    V columns[4][4];  // [column][point down]
    V levels[4];
    for (int i = 0; i < 4; ++i) levels[i] = level_of<Ops, kLevel>(conv, of.level, run.y - 1 + i, c);
    const auto take = [&](V(&column)[4], std::int64_t at) LOCKSTEP_KERNEL_ATTR {
      V down[4];
      for (int i = 0; i < 4; ++i) down[i] = input_pixel<Ops, kLevel>(conv, rows[i] + c, at, levels[i]);
      to_points<Ops>(down, column);
    };
    take(columns[0], 2 * run.first - 1);
    take(columns[1], 2 * run.first);
    for (std::int64_t t = 0; t < run.count; ++t) {
      const std::int64_t left = 2 * (run.first + t);
      take(columns[2], left + 1);
      take(columns[3], left + 2);
      for (int i = 0; i < 4; ++i) {
        const V across[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
        V out[4];
        to_points<Ops>(across, out);
        for (int j = 0; j < 4; ++j) Ops::store(out[j], points + ((i * 4 + j) * kTiles + run.at + t) * conv.in + c);
        columns[0][i] = columns[2][i];
        columns[1][i] = columns[3][i];
      }
    }
  }
}

/// Where a run's results go, from the sums [16, kTiles, kColumns].
template <class Ops>
struct Results {
  const float* sums = nullptr;
  const float* bias = nullptr;  ///< bias of the first channel
  bool bias_by_border = false;
  typename Ops::Element* y = nullptr;
  std::int64_t channel = 0;
  std::int64_t channels = 0;
};

/// The four results of a tile from its 16 sums, for one vector of channels.
template <class Ops>
LOCKSTEP_KERNEL_INLINE void tile_results(const float* sums, const typename Ops::V (&bias)[2][2],
                                         typename Ops::V (&results)[2][2]) {
  using V = typename Ops::V;
  V half[2][4];
  for (int j = 0; j < 4; ++j) {
    V m[4];
    for (int i = 0; i < 4; ++i) m[i] = Ops::load_sums(sums + (i * 4 + j) * kTiles * kColumns);
    half[0][j] = Ops::add(Ops::add(m[0], m[1]), m[2]);
    half[1][j] = Ops::sub(Ops::sub(m[1], m[2]), m[3]);
  }
  for (int i = 0; i < 2; ++i) {
    results[i][0] = Ops::add(Ops::add(Ops::add(half[i][0], half[i][1]), half[i][2]), bias[i][0]);
    results[i][1] = Ops::add(Ops::sub(Ops::sub(half[i][1], half[i][2]), half[i][3]), bias[i][1]);
  }
}

template <class Ops>
void results_of_run(const Winograd& conv, const Run& run, const Results<Ops>& to) {
  for (std::int64_t t = 0; t < run.count; ++t) {
    const std::int64_t x = 2 * (run.first + t);
    auto* at = to.y + ((run.image * conv.height + run.y) * conv.width + x) * conv.out + to.channel;
    for (std::int64_t c = 0; c < to.channels; c += Ops::kLanes) {
      typename Ops::V results[2][2];
      typename Ops::V bias[2][2];
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t border = to.bias_by_border ? winograd_border(conv, run.y + i / 2, x + i % 2) : 0;
        bias[i / 2][i % 2] =
            to.bias == nullptr ? Ops::zero() : Ops::load_sums(to.bias + border * conv.out + to.channel + c);
      }
      tile_results<Ops>(to.sums + (run.at + t) * kColumns + c, bias, results);
      for (std::int64_t i = 0; i < 2 && run.y + i < conv.height; ++i) {
        Ops::store(results[i][0], at + i * conv.width * conv.out + c);
        if (x + 1 < conv.width) Ops::store(results[i][1], at + i * conv.width * conv.out + conv.out + c);
      }
    }
  }
}

/// Calls f(run) for the runs of tiles (or groups of them) from `begin` to `end`, a block.
template <class F>
LOCKSTEP_KERNEL_INLINE void for_runs(const Winograd& conv, std::int64_t begin, std::int64_t end, std::int64_t per_row,
                                     F f) {
  for (std::int64_t at = begin; at < end;) {
    Run run = run_at(conv, at, end, per_row);
    run.at = at - begin;
    f(run);
    at += run.count;
  }
}

template <class Ops>
void forward(const Winograd& conv, const WinogradImages<typename Ops::Element>& images, std::int64_t begin,
             std::int64_t end) {
  using Element = typename Ops::Element;
  using Unit = typename Ops::Unit;
  const std::vector<Element> zeros(static_cast<std::size_t>(conv.width * conv.in));
  std::vector<Element> points(static_cast<std::size_t>(kWinogradPoints * kTiles * conv.in));
  std::vector<float> sums(static_cast<std::size_t>(kWinogradPoints * kTiles * kColumns));
  const std::int64_t steps = conv.in / Ops::kGroup;
  const std::int64_t last = end * conv.tile_columns();
  for (std::int64_t first = begin * conv.tile_columns(); first < last; first += kTiles) {
    const std::int64_t stop = std::min(first + kTiles, last);
    for_runs(conv, first, stop, conv.tile_columns(), [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
      const Inputs<Ops> of{.x = images.x, .zeros = zeros.data(), .level = images.level};
      if (images.level == nullptr) points_of_run<Ops, false>(conv, of, run, points.data());
      if (images.level != nullptr) points_of_run<Ops, true>(conv, of, run, points.data());
    });
    for (std::int64_t channel = 0; channel < conv.out; channel += kColumns) {
      const std::int64_t channels = std::min(kColumns, conv.out - channel);
      for (std::int64_t p = 0; p < kWinogradPoints; ++p) {
        product<Ops>({.rows = stop - first,
                      .steps = steps,
                      .columns = channels,
                      .a = reinterpret_cast<const Unit*>(points.data() + p * kTiles * conv.in),
                      .a_row = steps,
                      .a_step = 1,
                      .b = reinterpret_cast<const Unit*>(images.packed + p * conv.point_size()) + channel * steps,
                      .b_step = channels,
                      .sums = sums.data() + p * kTiles * kColumns,
                      .sums_row = kColumns});
      }
      for_runs(conv, first, stop, conv.tile_columns(), [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
        results_of_run<Ops>(conv, run,
                            {.sums = sums.data(),
                             .bias = images.bias,
                             .bias_by_border = images.level != nullptr,
                             .y = images.y,
                             .channel = channel,
                             .channels = channels});
      });
    }
  }
}

/// What part `kPart`, a row of points, takes of two or four rows of pixels.
template <class Ops, int kPart, class V>
LOCKSTEP_KERNEL_INLINE V point_down(V upper, V lower) {
  return kPart == 1 ? Ops::add(upper, lower) : Ops::sub(upper, lower);
}

/// Units of a run's groups of tiles, from x: `units` [4 points, groups of kSummedTiles, in].
template <class Ops, int kPart, bool kLevel>
void units_of_inputs(const Winograd& conv, const Inputs<Ops>& of, const Run& run, typename Ops::Unit* units) {
  using V = typename Ops::V;
  constexpr int kUpper[4] = {0, 1, 2, 1};
  constexpr int kLower[4] = {2, 2, 1, 3};
  constexpr int kGroup = Ops::kGroup;
  const Rows<typename Ops::Element> all{.images = of.x, .channels = conv.in, .zeros = of.zeros};
  const auto* upper = row_of(conv, all, run, run.y - 1 + kUpper[kPart]);
  const auto* lower = row_of(conv, all, run, run.y - 1 + kLower[kPart]);
  for (std::int64_t c = 0; c < conv.in; c += Ops::kLanes) {
    V columns[2 * kGroup + 2];
    const V above = level_of<Ops, kLevel>(conv, of.level, run.y - 1 + kUpper[kPart], c);
    const V below = level_of<Ops, kLevel>(conv, of.level, run.y - 1 + kLower[kPart], c);
    const auto take = [&](std::int64_t at) LOCKSTEP_KERNEL_ATTR {
      return point_down<Ops, kPart>(input_pixel<Ops, kLevel>(conv, upper + c, at, above),
                                    input_pixel<Ops, kLevel>(conv, lower + c, at, below));
    };
    columns[0] = take(2 * run.first * kGroup - 1);
    columns[1] = take(2 * run.first * kGroup);
    for (std::int64_t g = 0; g < run.count; ++g) {
      const std::int64_t left = 2 * (run.first + g) * kGroup;
      for (int k = 0; k < 2 * kGroup; ++k) columns[2 + k] = take(left + 1 + k);
      V points[4][kGroup];
      for (int e = 0; e < kGroup; ++e) {
        const V across[4] = {columns[2 * e], columns[2 * e + 1], columns[2 * e + 2], columns[2 * e + 3]};
        V out[4];
        to_points<Ops>(across, out);
        for (int j = 0; j < 4; ++j) points[j][e] = out[j];
      }
      for (int j = 0; j < 4; ++j)
        Ops::interleave(points[j], units + (j * (kSummedTiles / kGroup) + run.at + g) * conv.in + c);
      columns[0] = columns[2 * kGroup];
      columns[1] = columns[2 * kGroup + 1];
    }
  }
}

/// The same of the results' gradients, whose tiles are 2x2: `units` [4 points, blocks of kColumns of out, groups of
/// kSummedTiles, kColumns], so that a product's operand is one piece of memory.
template <class Ops, int kPart>
void units_of_gradients(const Winograd& conv, const typename Ops::Element* dy, const Run& run,
                        const typename Ops::Element* zeros, typename Ops::Unit* units) {
  using V = typename Ops::V;
  constexpr int kGroup = Ops::kGroup;
  constexpr std::int64_t kGroups = kSummedTiles / kGroup;
  const Rows<typename Ops::Element> all{.images = dy, .channels = conv.out, .zeros = zeros};
  const auto* upper = row_of(conv, all, run, run.y);
  const auto* lower = row_of(conv, all, run, run.y + 1);
  const auto take = [&](std::int64_t c, std::int64_t at) LOCKSTEP_KERNEL_ATTR {
    if (kPart == 0) return pixel<Ops>(conv, upper + c, at, conv.out);
    const V below = pixel<Ops>(conv, lower + c, at, conv.out);
    if (kPart == 3) return Ops::sub(Ops::zero(), below);
    const V above = pixel<Ops>(conv, upper + c, at, conv.out);
    return kPart == 1 ? Ops::add(above, below) : Ops::sub(above, below);
  };
  for (std::int64_t g = 0; g < run.count; ++g) {
    const std::int64_t left = 2 * (run.first + g) * kGroup;
    for (std::int64_t c = 0; c < conv.out; c += Ops::kLanes) {
      V points[4][kGroup];
      for (int e = 0; e < kGroup; ++e) {
        const V first = take(c, left + 2 * e);
        const V second = take(c, left + 2 * e + 1);
        points[0][e] = first;
        points[1][e] = Ops::add(first, second);
        points[2][e] = Ops::sub(first, second);
        points[3][e] = Ops::sub(Ops::zero(), second);
      }
      const std::int64_t block = c / kColumns * kColumns;
      auto* to = units + block * kGroups + (run.at + g) * std::min(kColumns, conv.out - block) + c - block;
      for (int j = 0; j < 4; ++j) Ops::interleave(points[j], to + j * kGroups * conv.out);
    }
  }
}

template <class Ops, int kPart>
void weight_sums_of_part(const Winograd& conv, const WinogradPart<typename Ops::Element>& of, std::int64_t begin,
                         std::int64_t end, float* sums) {
  using Element = typename Ops::Element;
  using Unit = typename Ops::Unit;
  constexpr std::int64_t kGroups = kSummedTiles / Ops::kGroup;
  const std::vector<Element> zeros(static_cast<std::size_t>(conv.width * std::max(conv.in, conv.out)));
  std::vector<Unit> inputs(static_cast<std::size_t>(kPoints * kGroups * conv.in));
  std::vector<Unit> gradients(static_cast<std::size_t>(kPoints * kGroups * conv.out));
  const std::int64_t per_row = (conv.tile_columns() + Ops::kGroup - 1) / Ops::kGroup;
  const std::int64_t last = end * per_row;
  for (std::int64_t first = begin * per_row; first < last; first += kGroups) {
    const std::int64_t stop = std::min(first + kGroups, last);
    for_runs(conv, first, stop, per_row, [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
      const Inputs<Ops> from{.x = of.x, .zeros = zeros.data(), .level = of.level};
      if (of.level == nullptr) units_of_inputs<Ops, kPart, false>(conv, from, run, inputs.data());
      if (of.level != nullptr) units_of_inputs<Ops, kPart, true>(conv, from, run, inputs.data());
      units_of_gradients<Ops, kPart>(conv, of.dy, run, zeros.data(), gradients.data());
    });
    for (std::int64_t j = 0; j < kPoints; ++j) {
      for (std::int64_t column = 0; column < conv.out; column += kColumns) {
        const std::int64_t columns = std::min(kColumns, conv.out - column);
        product<Ops>({.rows = conv.in,
                      .steps = stop - first,
                      .columns = columns,
                      .a = inputs.data() + j * kGroups * conv.in,
                      .a_row = 1,
                      .a_step = conv.in,
                      .b = gradients.data() + j * kGroups * conv.out + column * kGroups,
                      .b_step = columns,
                      .sums = sums + j * conv.point_size() + column,
                      .sums_row = conv.out,
                      .add = first > 0});
      }
    }
  }
}

template <class Ops>
void weight_sums(const Winograd& conv, const WinogradPart<typename Ops::Element>& of, std::int64_t begin,
                 std::int64_t end, float* sums) {
  if (of.part == 0) weight_sums_of_part<Ops, 0>(conv, of, begin, end, sums);
  if (of.part == 1) weight_sums_of_part<Ops, 1>(conv, of, begin, end, sums);
  if (of.part == 2) weight_sums_of_part<Ops, 2>(conv, of, begin, end, sums);
  if (of.part == 3) weight_sums_of_part<Ops, 3>(conv, of, begin, end, sums);
}

/// Weights at their 16 points, for one input channel and a vector of output channels from `out` on.
template <class Ops>
LOCKSTEP_KERNEL_INLINE void weight_points(const WinogradWeights& weights, std::int64_t in, std::int64_t out,
                                          typename Ops::V (&points)[4][4]) {
  using V = typename Ops::V;
  const float* at = weights.data + out * weights.out + in * weights.in;
  const auto ends_and_middle = [](V first, V middle, V last, V(&to)[4]) LOCKSTEP_KERNEL_ATTR {
    const V ends = Ops::add(first, last);
    to[0] = first;
    to[1] = Ops::half(Ops::add(ends, middle));
    to[2] = Ops::half(Ops::sub(ends, middle));
    to[3] = last;
  };
  V down[3][4];  // [column][point]
  for (int c = 0; c < 3; ++c) {
    V taps[3];
    for (int r = 0; r < 3; ++r) {
      float lanes[Ops::kLanes];
      for (int l = 0; l < Ops::kLanes; ++l) lanes[l] = at[r * weights.row + c * weights.column + l * weights.out];
      taps[r] = Ops::load_sums(lanes);
    }
    ends_and_middle(taps[0], taps[1], taps[2], down[c]);
  }
  for (int r = 0; r < 4; ++r) ends_and_middle(down[0][r], down[1][r], down[2][r], points[r]);
}

/// To [16, blocks of kColumns of out, in / kGroup, kColumns, kGroup]: a product's operand is one piece of memory.
template <class Ops>
void pack(const Winograd& conv, const WinogradWeights& weights, typename Ops::Element* packed) {
  using V = typename Ops::V;
  constexpr std::int64_t kGroup = Ops::kGroup;
  auto* units = reinterpret_cast<typename Ops::Unit*>(packed);
  const std::int64_t steps = conv.in / kGroup;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t o = 0; o < conv.out; o += Ops::kLanes) {
      const std::int64_t block = o / kColumns * kColumns;
      const std::int64_t width = std::min(kColumns, conv.out - block);
      auto* to = units + block * steps + step * width + o - block;
      V points[kGroup][4][4];
      for (int e = 0; e < kGroup; ++e) weight_points<Ops>(weights, step * kGroup + e, o, points[e]);
      for (int p = 0; p < kWinogradPoints; ++p) {
        V group[kGroup];
        for (int e = 0; e < kGroup; ++e) group[e] = points[e][p / 4][p % 4];
        Ops::interleave(group, to + p * (conv.point_size() / kGroup));
      }
    }
  }
}

template <class Ops>
void sum_pixels(const typename Ops::Element* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  for (std::int64_t c = 0; c < channels; c += Ops::kLanes) Ops::store_sums(Ops::zero(), sums + c);
  // Sums 32 pixels in registers, so that the sums in memory are few and their numbers have similar sizes.
  for (std::int64_t first = 0; first < pixels; first += 32) {
    const std::int64_t stop = std::min<std::int64_t>(first + 32, pixels);
    for (std::int64_t c = 0; c < channels; c += Ops::kLanes) {
      auto sum = Ops::zero();
      for (std::int64_t p = first; p < stop; ++p) sum = Ops::add(sum, Ops::load(dy + p * channels + c));
      Ops::store_sums(Ops::add(Ops::load_sums(sums + c), sum), sums + c);
    }
  }
}
