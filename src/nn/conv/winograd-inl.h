// SPDX-License-Identifier: Apache-2.0
// The algorithm of winograd.h for one instruction set, `Ops` (product-inl.h lists its members), and for tiles of kTile
// x kTile results (tile_transforms-inl.h). The files that are compiled with these instructions enabled include it
// inside their namespaces, so it has no include guard.

// Tiles processed at once: their sums for 64 channels, and their points for 128 channels, fit in the cache.
constexpr std::int64_t kTiles = 24;
constexpr std::int64_t kColumns = 64;
// Number of tiles that a sum over tiles adds up in registers before it updates the sum in memory.
constexpr std::int64_t kSummedTiles = 128;
// The distance between the sums of two points: not a power of two, so that a tile's points are in different cache sets.
constexpr std::int64_t kSumsStep = kTiles * kColumns + 16;

/// Returns the distance between the elements of two points, for `channels` channels: not a power of two either.
template <class Ops>
constexpr std::int64_t point_step(std::int64_t channels) {
  return kTiles * channels + Ops::kLanes * Ops::kGroup;
}

/// Consecutive tiles of one row.
struct Run {
  std::int64_t image = 0;
  std::int64_t y = 0;  ///< row of the tiles' first pixels
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t at = 0;  ///< index of `first` in the block of the run
};

/// Returns the run that begins at tile (or group of tiles) `at` and ends before `end`. `per_row`: tiles in a row.
inline Run run_at(const Winograd& conv, std::int64_t at, std::int64_t end, std::int64_t per_row) {
  const std::int64_t rows = conv.image_tile_rows();
  const std::int64_t row = at / per_row;
  const std::int64_t first = at % per_row;
  return {
      .image = row / rows, .y = row % rows * conv.tile, .first = first, .count = std::min(per_row - first, end - at)};
}

/// The images, their number of channels, and a row of zeros.
template <class T>
struct Rows {
  const T* images = nullptr;
  std::int64_t channels = 0;
  const T* zeros = nullptr;
};

/// Returns row `y` of a run's image, or zeros outside it.
template <class T>
const T* row_of(const Winograd& conv, const Rows<T>& rows, const Run& run, std::int64_t y) {
  if (y < 0 || y >= conv.height) return rows.zeros;
  return rows.images + (run.image * conv.height + y) * conv.width * rows.channels;
}

/// Returns the elements of column x, or zeros outside the image.
template <class Ops>
LOCKSTEP_KERNEL_INLINE typename Ops::V pixel(const Winograd& conv, const typename Ops::Element* row, std::int64_t x,
                                             std::int64_t channels) {
  return x < 0 || x >= conv.width ? Ops::zero() : Ops::load(row + x * channels);
}

/// Does the same as pixel(), but subtracts the level. `level` is zero if the row is outside.
template <class Ops, bool kLevel>
LOCKSTEP_KERNEL_INLINE typename Ops::V input_pixel(const Winograd& conv, const typename Ops::Element* row,
                                                   std::int64_t x, typename Ops::V level) {
  if (!kLevel) return pixel<Ops>(conv, row, x, conv.in);
  return x < 0 || x >= conv.width ? Ops::zero() : Ops::sub(Ops::load(row + x * conv.in), level);
}

/// Returns the level of a vector of channels in row `y`; zero outside.
template <class Ops, bool kLevel>
LOCKSTEP_KERNEL_INLINE typename Ops::V level_of(const Winograd& conv, const float* level, std::int64_t y,
                                                std::int64_t channel) {
  return kLevel && y >= 0 && y < conv.height ? Ops::load_sums(level + channel) : Ops::zero();
}

/// The inputs from which a run's points are computed.
template <class Ops>
struct Inputs {
  const typename Ops::Element* x = nullptr;
  const typename Ops::Element* zeros = nullptr;
  const float* level = nullptr;
};

/// Computes the points of a run's tiles: `points` is [side x side, point_step()]; a point has [kTiles, in].
template <class Ops, int kTile, bool kLevel>
void points_of_run(const Winograd& conv, const Inputs<Ops>& inputs, const Run& run, typename Ops::Element* points) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  const std::int64_t step = point_step<Ops>(conv.in);
  const typename Ops::Element* rows[kSide];
  const Rows<typename Ops::Element> all{.images = inputs.x, .channels = conv.in, .zeros = inputs.zeros};
  for (int i = 0; i < kSide; ++i) rows[i] = row_of(conv, all, run, run.y - 1 + i);
  for (std::int64_t c = 0; c < conv.in; c += Ops::kLanes) {
    V columns[kSide][kSide];  // [column][point down]
    V levels[kSide];
    for (int i = 0; i < kSide; ++i) levels[i] = level_of<Ops, kLevel>(conv, inputs.level, run.y - 1 + i, c);
    const auto take = [&](V(&column)[kSide], std::int64_t at) LOCKSTEP_KERNEL_ATTR {
      V down[kSide];
      for (int i = 0; i < kSide; ++i) down[i] = input_pixel<Ops, kLevel>(conv, rows[i] + c, at, levels[i]);
      Transform<Ops, kTile>::inputs(down, column);
    };
    take(columns[0], kTile * run.first - 1);
    take(columns[1], kTile * run.first);
    for (std::int64_t t = 0; t < run.count; ++t) {
      const std::int64_t left = kTile * (run.first + t);
      for (int k = 2; k < kSide; ++k) take(columns[k], left + k - 1);
      auto* to = points + (run.at + t) * conv.in + c;
      for (int i = 0; i < kSide; ++i) {
        V across[kSide];
        for (int k = 0; k < kSide; ++k) across[k] = columns[k][i];
        V out[kSide];
        Transform<Ops, kTile>::inputs(across, out);
        for (int j = 0; j < kSide; ++j) Ops::store(out[j], to + (i * kSide + j) * step);
        columns[0][i] = columns[kTile][i];
        columns[1][i] = columns[kTile + 1][i];
      }
    }
  }
}

/// The buffers for a run's results, and their sums, [side x side, kSumsStep]; a point has [kTiles, kColumns].
template <class Ops>
struct Results {
  const float* sums = nullptr;
  const float* bias = nullptr;  ///< bias of the first channel
  typename Ops::Element* y = nullptr;
  std::int64_t channel = 0;
  std::int64_t channels = 0;
};

/// Computes the results of a tile from its sums, for one vector of channels.
template <class Ops, int kTile>
LOCKSTEP_KERNEL_INLINE void tile_results(const float* sums, typename Ops::V (&results)[kTile][kTile]) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  V half[kTile][kSide];
  for (int j = 0; j < kSide; ++j) {
    V points[kSide];
    for (int i = 0; i < kSide; ++i) points[i] = Ops::load_sums(sums + (i * kSide + j) * kSumsStep);
    V down[kTile];
    Transform<Ops, kTile>::results(points, down);
    for (int i = 0; i < kTile; ++i) half[i][j] = down[i];
  }
  for (int i = 0; i < kTile; ++i) Transform<Ops, kTile>::results(half[i], results[i]);
}

/// Computes the results of a run. With `kBorder`, the bias is [16, out], with a row for each border.
template <class Ops, int kTile, bool kBorder>
void results_of_run(const Winograd& conv, const Run& run, const Results<Ops>& to) {
  const std::int64_t rows = std::min<std::int64_t>(kTile, conv.height - run.y);
  for (std::int64_t t = 0; t < run.count; ++t) {
    const std::int64_t x = kTile * (run.first + t);
    const std::int64_t columns = std::min<std::int64_t>(kTile, conv.width - x);
    auto* at = to.y + ((run.image * conv.height + run.y) * conv.width + x) * conv.out + to.channel;
    for (std::int64_t c = 0; c < to.channels; c += Ops::kLanes) {
      typename Ops::V results[kTile][kTile];
      tile_results<Ops, kTile>(to.sums + (run.at + t) * kColumns + c, results);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const std::int64_t border = kBorder ? winograd_border(conv, run.y + i, x + j) : 0;
          const auto shift =
              to.bias == nullptr ? Ops::zero() : Ops::load_sums(to.bias + border * conv.out + to.channel + c);
          Ops::store(Ops::add(results[i][j], shift), at + (i * conv.width + j) * conv.out + c);
        }
      }
    }
  }
}

/// Calls f(run) for each run of tiles (or groups of tiles) in the block from `begin` to `end`.
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

template <class Ops, int kTile>
void forward(const Winograd& conv, const WinogradImages<typename Ops::Element>& images, std::int64_t begin,
             std::int64_t end) {
  using Element = typename Ops::Element;
  using Unit = typename Ops::Unit;
  const std::vector<Element> zeros(static_cast<std::size_t>(conv.width * conv.in));
  std::vector<Element> points(static_cast<std::size_t>(conv.points() * point_step<Ops>(conv.in)));
  std::vector<float> sums(static_cast<std::size_t>(conv.points() * kSumsStep));
  const std::int64_t steps = conv.in / Ops::kGroup;
  const std::int64_t last = end * conv.tile_columns();
  for (std::int64_t first = begin * conv.tile_columns(); first < last; first += kTiles) {
    const std::int64_t stop = std::min(first + kTiles, last);
    for_runs(conv, first, stop, conv.tile_columns(), [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
      const Inputs<Ops> inputs{.x = images.x, .zeros = zeros.data(), .level = images.level};
      if (images.level == nullptr) points_of_run<Ops, kTile, false>(conv, inputs, run, points.data());
      if (images.level != nullptr) points_of_run<Ops, kTile, true>(conv, inputs, run, points.data());
    });
    for (std::int64_t channel = 0; channel < conv.out; channel += kColumns) {
      const std::int64_t channels = std::min(kColumns, conv.out - channel);
      for (std::int64_t p = 0; p < conv.points(); ++p) {
        product<Ops>({.rows = stop - first,
                      .steps = steps,
                      .columns = channels,
                      .a = reinterpret_cast<const Unit*>(points.data() + p * point_step<Ops>(conv.in)),
                      .a_row = steps,
                      .a_step = 1,
                      .b = reinterpret_cast<const Unit*>(images.packed + p * conv.point_step()) + channel * steps,
                      .b_step = channels,
                      .sums = sums.data() + p * kSumsStep,
                      .sums_row = kColumns});
      }
      for_runs(conv, first, stop, conv.tile_columns(), [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
        const Results<Ops> to{
            .sums = sums.data(), .bias = images.bias, .y = images.y, .channel = channel, .channels = channels};
        if (images.level == nullptr) results_of_run<Ops, kTile, false>(conv, run, to);
        if (images.level != nullptr) results_of_run<Ops, kTile, true>(conv, run, to);
      });
    }
  }
}

/// Computes the units of a run's groups of tiles for row kPart of the points: `units` [side, groups of kSummedTiles,
/// in].
template <class Ops, int kTile, int kPart, bool kLevel>
void units_of_inputs(const Winograd& conv, const Inputs<Ops>& inputs, const Run& run, typename Ops::Unit* units) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  constexpr int kGroup = Ops::kGroup;
  const typename Ops::Element* rows[kSide];
  const Rows<typename Ops::Element> all{.images = inputs.x, .channels = conv.in, .zeros = inputs.zeros};
  for (int i = 0; i < kSide; ++i) rows[i] = row_of(conv, all, run, run.y - 1 + i);
  for (std::int64_t c = 0; c < conv.in; c += Ops::kLanes) {
    V columns[kTile * kGroup + 2];
    V levels[kSide];
    for (int i = 0; i < kSide; ++i) levels[i] = level_of<Ops, kLevel>(conv, inputs.level, run.y - 1 + i, c);
    const auto take = [&](std::int64_t at) LOCKSTEP_KERNEL_ATTR {
      V down[kSide];  // The compiler omits the rows that this point does not need.
      for (int i = 0; i < kSide; ++i) down[i] = input_pixel<Ops, kLevel>(conv, rows[i] + c, at, levels[i]);
      V points[kSide];
      Transform<Ops, kTile>::inputs(down, points);
      return points[kPart];
    };
    columns[0] = take(kTile * run.first * kGroup - 1);
    columns[1] = take(kTile * run.first * kGroup);
    for (std::int64_t g = 0; g < run.count; ++g) {
      const std::int64_t left = kTile * (run.first + g) * kGroup;
      for (int k = 0; k < kTile * kGroup; ++k) columns[2 + k] = take(left + 1 + k);
      V points[kSide][kGroup];
      for (int e = 0; e < kGroup; ++e) {
        V across[kSide];
        for (int j = 0; j < kSide; ++j) across[j] = columns[kTile * e + j];
        V out[kSide];
        Transform<Ops, kTile>::inputs(across, out);
        for (int j = 0; j < kSide; ++j) points[j][e] = out[j];
      }
      for (int j = 0; j < kSide; ++j)
        Ops::interleave(points[j], units + (j * (kSummedTiles / kGroup) + run.at + g) * conv.in + c);
      columns[0] = columns[kTile * kGroup];
      columns[1] = columns[kTile * kGroup + 1];
    }
  }
}

/// Does the same for the results' gradients: `units` is [side, blocks of kColumns of out, groups of kSummedTiles,
/// kColumns], so that a product's operand is contiguous.
template <class Ops, int kTile, int kPart>
void units_of_gradients(const Winograd& conv, const typename Ops::Element* dy, const Run& run,
                        const typename Ops::Element* zeros, typename Ops::Unit* units) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  constexpr int kGroup = Ops::kGroup;
  constexpr std::int64_t kGroups = kSummedTiles / kGroup;
  const typename Ops::Element* rows[kTile];
  const Rows<typename Ops::Element> all{.images = dy, .channels = conv.out, .zeros = zeros};
  for (int i = 0; i < kTile; ++i) rows[i] = row_of(conv, all, run, run.y + i);
  const auto take = [&](std::int64_t c, std::int64_t at) LOCKSTEP_KERNEL_ATTR {
    V down[kTile];
    for (int i = 0; i < kTile; ++i) down[i] = pixel<Ops>(conv, rows[i] + c, at, conv.out);
    V points[kSide];
    Transform<Ops, kTile>::gradients(down, points);
    return points[kPart];
  };
  for (std::int64_t g = 0; g < run.count; ++g) {
    const std::int64_t left = kTile * (run.first + g) * kGroup;
    for (std::int64_t c = 0; c < conv.out; c += Ops::kLanes) {
      V points[kSide][kGroup];
      for (int e = 0; e < kGroup; ++e) {
        V across[kTile];
        for (int j = 0; j < kTile; ++j) across[j] = take(c, left + kTile * e + j);
        V out[kSide];
        Transform<Ops, kTile>::gradients(across, out);
        for (int j = 0; j < kSide; ++j) points[j][e] = out[j];
      }
      const std::int64_t block = c / kColumns * kColumns;
      auto* to = units + block * kGroups + (run.at + g) * std::min(kColumns, conv.out - block) + c - block;
      for (int j = 0; j < kSide; ++j) Ops::interleave(points[j], to + j * kGroups * conv.out);
    }
  }
}

template <class Ops, int kTile, int kPart>
void weight_sums_of_part(const Winograd& conv, const WinogradPart<typename Ops::Element>& source, std::int64_t begin,
                         std::int64_t end, float* sums) {
  using Element = typename Ops::Element;
  using Unit = typename Ops::Unit;
  constexpr std::int64_t kGroups = kSummedTiles / Ops::kGroup;
  constexpr std::int64_t kSide = kTile + 2;
  const std::vector<Element> zeros(static_cast<std::size_t>(conv.width * std::max(conv.in, conv.out)));
  std::vector<Unit> inputs(static_cast<std::size_t>(kSide * kGroups * conv.in));
  std::vector<Unit> gradients(static_cast<std::size_t>(kSide * kGroups * conv.out));
  const std::int64_t per_row = (conv.tile_columns() + Ops::kGroup - 1) / Ops::kGroup;
  const std::int64_t last = end * per_row;
  for (std::int64_t first = begin * per_row; first < last; first += kGroups) {
    const std::int64_t stop = std::min(first + kGroups, last);
    for_runs(conv, first, stop, per_row, [&](const Run& run) LOCKSTEP_KERNEL_ATTR {
      const Inputs<Ops> from{.x = source.x, .zeros = zeros.data(), .level = source.level};
      if (source.level == nullptr) units_of_inputs<Ops, kTile, kPart, false>(conv, from, run, inputs.data());
      if (source.level != nullptr) units_of_inputs<Ops, kTile, kPart, true>(conv, from, run, inputs.data());
      units_of_gradients<Ops, kTile, kPart>(conv, source.dy, run, zeros.data(), gradients.data());
    });
    for (std::int64_t j = 0; j < kSide; ++j) {
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
                      .sums = sums + j * conv.point_step() + column,
                      .sums_row = conv.out,
                      .add = first > 0});
      }
    }
  }
}

template <class Ops, int kTile, int kPart = 0>
void weight_sums(const Winograd& conv, const WinogradPart<typename Ops::Element>& source, std::int64_t begin,
                 std::int64_t end, float* sums) {
  if (source.part == kPart) return weight_sums_of_part<Ops, kTile, kPart>(conv, source, begin, end, sums);
  if constexpr (kPart + 1 < kTile + 2) weight_sums<Ops, kTile, kPart + 1>(conv, source, begin, end, sums);
}

/// Computes the points of the weights, for one input channel and a vector of output channels starting at `out`.
template <class Ops, int kTile>
LOCKSTEP_KERNEL_INLINE void weight_points(const WinogradWeights& weights, std::int64_t in, std::int64_t out,
                                          typename Ops::V (&points)[kTile + 2][kTile + 2]) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  const float* at = weights.data + out * weights.out + in * weights.in;
  V down[3][kSide];  // [column][point]
  for (int c = 0; c < 3; ++c) {
    V taps[3];
    for (int r = 0; r < 3; ++r) {
      float lanes[Ops::kLanes];
      for (int l = 0; l < Ops::kLanes; ++l) lanes[l] = at[r * weights.row + c * weights.column + l * weights.out];
      taps[r] = Ops::load_sums(lanes);
    }
    Transform<Ops, kTile>::weights(taps, down[c]);
  }
  for (int r = 0; r < kSide; ++r) {
    const V across[3] = {down[0][r], down[1][r], down[2][r]};
    Transform<Ops, kTile>::weights(across, points[r]);
  }
}

/// Packs weights to [points, blocks of kColumns of out, in / kGroup, kColumns, kGroup]: operands are contiguous.
template <class Ops, int kTile>
void pack(const Winograd& conv, const WinogradWeights& weights, typename Ops::Element* packed) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  constexpr std::int64_t kGroup = Ops::kGroup;
  auto* units = reinterpret_cast<typename Ops::Unit*>(packed);
  const std::int64_t steps = conv.in / kGroup;
  for (std::int64_t o = 0; o < conv.out; o += Ops::kLanes) {
    const std::int64_t block = o / kColumns * kColumns;
    const std::int64_t width = std::min(kColumns, conv.out - block);
    // Weights of neighbouring input channels share a cache line, and the cache holds the lines of all columns.
    for (std::int64_t step = 0; step < steps; ++step) {
      auto* to = units + block * steps + step * width + o - block;
      V points[kGroup][kSide][kSide];
      for (int e = 0; e < kGroup; ++e) weight_points<Ops, kTile>(weights, step * kGroup + e, o, points[e]);
      for (int p = 0; p < kSide * kSide; ++p) {
        V group[kGroup];
        for (int e = 0; e < kGroup; ++e) group[e] = points[e][p / kSide][p % kSide];
        Ops::interleave(group, to + p * (conv.point_step() / kGroup));
      }
    }
  }
}

/// Turns the sums [points, in, out] into the gradient of the weights, and writes its data.
template <class Ops, int kTile>
void unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient) {
  using V = typename Ops::V;
  constexpr int kSide = kTile + 2;
  auto* data = const_cast<float*>(gradient.data);
  for (std::int64_t o = 0; o < conv.out; o += Ops::kLanes) {
    for (std::int64_t in = 0; in < conv.in; ++in) {
      const float* at = sums + in * conv.out + o;
      V down[3][kSide];
      for (int c = 0; c < kSide; ++c) {
        V points[kSide];
        for (int r = 0; r < kSide; ++r) points[r] = Ops::load_sums(at + (r * kSide + c) * conv.point_step());
        V taps[3];
        Transform<Ops, kTile>::weight_gradients(points, taps);
        for (int r = 0; r < 3; ++r) down[r][c] = taps[r];
      }
      for (int r = 0; r < 3; ++r) {
        V taps[3];
        Transform<Ops, kTile>::weight_gradients(down[r], taps);
        float* to = data + o * gradient.out + in * gradient.in + r * gradient.row;
        for (int c = 0; c < 3; ++c) {
          float lanes[Ops::kLanes];
          Ops::store_sums(taps[c], lanes);
          for (int l = 0; l < Ops::kLanes; ++l) to[c * gradient.column + l * gradient.out] = lanes[l];
        }
      }
    }
  }
}

template <class Ops>
void sum_pixels(const typename Ops::Element* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  for (std::int64_t c = 0; c < channels; c += Ops::kLanes) Ops::store_sums(Ops::zero(), sums + c);
  // Sums 32 pixels in registers, so that few sums go to memory, and the numbers being added have similar magnitudes.
  for (std::int64_t first = 0; first < pixels; first += 32) {
    const std::int64_t stop = std::min<std::int64_t>(first + 32, pixels);
    for (std::int64_t c = 0; c < channels; c += Ops::kLanes) {
      auto sum = Ops::zero();
      for (std::int64_t p = first; p < stop; ++p) sum = Ops::add(sum, Ops::load(dy + p * channels + c));
      Ops::store_sums(Ops::add(Ops::load_sums(sums + c), sum), sums + c);
    }
  }
}
