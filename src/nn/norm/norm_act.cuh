// SPDX-License-Identifier: Apache-2.0
// The passes of norm_act_kernel.h on a GPU, over channels-last memory. CUDA C++ without any header: the build embeds
// this text, and tensor/device_kernels.h compiles it for the process's GPU. A test compiles it for the CPU.
//
// Moments are combined as in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979), so they need no shift near the mean. The order of all sums depends only on the shape, so a GPU
// gives the same results bit for bit each time.

namespace lockstep::nn {

/// The arguments of all kernels. Images are dense [images, height, width, channels]; unused pointers are null.
struct NormActDevice {
  const void* x;
  const void* residual;   ///< added before ReLU, or null
  const void* grad;       ///< gradient of the output
  void* out;
  void* dx;
  void* dresidual;
  float* partial;         ///< [blocks, 2, channels]
  float* rows;            ///< [4, channels]: a, b (y = a x + b), mean, 1 / standard deviation
  float* by;              ///< [3, channels]: dx = by[0] g + by[1] x + by[2]
  const float* weight;
  const float* bias;
  const float* input_bias;  ///< bias of the previous convolution, not yet added to x, or null
  float* running_mean;      ///< or null
  float* running_var;
  float* dweight;
  float* dbias;
  float* dinput_bias;       ///< or null
  double momentum;        ///< weight of the batch in the running statistics
  double eps;
  unsigned images;
  unsigned height;
  unsigned width;
  unsigned channels;      ///< a multiple of 8
  unsigned blocks;        ///< blocks that share the pixels of a sum
};

#if defined(LOCKSTEP_KERNELS)
namespace device {

constexpr unsigned kThreads = 256;
constexpr unsigned kVector = 8;         // channels per thread
constexpr unsigned kFinishChannels = 32;  // channels per block that finishes sums
constexpr unsigned kSlices = kThreads / kFinishChannels;

struct alignas(16) Words {
  unsigned word[4];
};

#if defined(__CUDACC_RTC__)
#define LOCKSTEP_DEVICE __device__ __forceinline__
LOCKSTEP_DEVICE Words load_words(const void* from) { return *static_cast<const Words*>(from); }
LOCKSTEP_DEVICE void store_words(void* to, const Words& words) { *static_cast<Words*>(to) = words; }
#else  // the test's processor
#define LOCKSTEP_DEVICE inline
LOCKSTEP_DEVICE Words load_words(const void* from) {
  Words words;
  __builtin_memcpy(&words, from, sizeof words);
  return words;
}
LOCKSTEP_DEVICE void store_words(void* to, const Words& words) { __builtin_memcpy(to, &words, sizeof words); }
#endif

/// Rounds to bfloat16, to nearest, ties to even.
LOCKSTEP_DEVICE unsigned bits_of(float value) {
  if (value != value) return 0x7FC0u;
  const unsigned bits = __float_as_uint(value);
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

struct BFloat16 {
  unsigned short bits;
};

LOCKSTEP_DEVICE void load(const BFloat16* from, float (&to)[kVector]) {
  const Words words = load_words(from);
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words.word[i] << 16);
    to[2 * i + 1] = __uint_as_float(words.word[i] & 0xFFFF0000u);
  }
}

LOCKSTEP_DEVICE void store(const float (&from)[kVector], BFloat16* to) {
  Words words;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) words.word[i] = bits_of(from[2 * i]) | (bits_of(from[2 * i + 1]) << 16);
  store_words(to, words);
}

LOCKSTEP_DEVICE void load(const float* from, float (&to)[kVector]) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const Words words = load_words(from + 4 * half);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) to[4 * half + i] = __uint_as_float(words.word[i]);
  }
}

LOCKSTEP_DEVICE void store(const float (&from)[kVector], float* to) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    Words words;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) words.word[i] = __float_as_uint(from[4 * half + i]);
    store_words(to + 4 * half, words);
  }
}

/// A thread's place in a block that sums over pixels: it sums 8 adjacent channels of every (blocks * rows)-th pixel.
struct Place {
  unsigned here;     // threads that share a pixel
  unsigned rows;     // pixels that the block processes at a time
  unsigned row;
  unsigned channel;  // first channel of the thread
  bool active;
};

LOCKSTEP_DEVICE Place place_of(const NormActDevice& with) {
  const unsigned lanes = with.channels / kVector;
  const unsigned first = blockIdx.y * kThreads;
  const unsigned left = lanes - first;
  const unsigned here = left < kThreads ? left : kThreads;
  const unsigned rows = kThreads / here;
  const unsigned row = threadIdx.x / here;
  return {here, rows, row, (first + threadIdx.x % here) * kVector, row < rows};
}

/// Returns the number of pixels that a row sums: begin, begin + stride, ... below `pixels`.
LOCKSTEP_DEVICE unsigned pixels_of(unsigned pixels, unsigned begin, unsigned stride) {
  return begin < pixels ? (pixels - begin - 1) / stride + 1 : 0;
}

/// Returns the number of pixels that all rows of a block sum in total.
LOCKSTEP_DEVICE unsigned pixels_of_block(unsigned pixels, unsigned block, unsigned rows, unsigned blocks) {
  const unsigned stride = blocks * rows;
  const unsigned left = pixels % stride;
  const unsigned begin = block * rows;
  const unsigned more = left > begin ? left - begin : 0;
  return pixels / stride * rows + (more < rows ? more : rows);
}

/// Returns the first step of a tree reduction: the greatest power of two below `rows`; 0 for one row.
LOCKSTEP_DEVICE unsigned half_of(unsigned rows) {
  unsigned half = 1;
  while (half * 2 < rows) half *= 2;
  return rows > 1 ? half : 0;
}

/// Combines the moments of `more` values with the moments of `n` values.
template <class T>
LOCKSTEP_DEVICE void combine(T n, T& mean, T& squares, T more, T its_mean, T its_squares) {
  if (more == 0) return;
  const T all = n + more;
  const T distance = its_mean - mean;
  mean += distance * (more / all);
  squares += its_squares + distance * distance * (n * (more / all));
}

/// Computes the mean and the sum of squared distances from it, by channel, of each block's pixels.
template <class T>
LOCKSTEP_DEVICE void moments(const NormActDevice& with) {
  __shared__ float shared_mean[kVector][kThreads];
  __shared__ float shared_squares[kVector][kThreads];
  __shared__ float shared_count[kThreads];
  const Place at = place_of(with);
  const unsigned pixels = with.images * with.height * with.width;
  const unsigned stride = with.blocks * at.rows;
  const unsigned begin = blockIdx.x * at.rows + at.row;
  const unsigned count = at.active ? pixels_of(pixels, begin, stride) : 0;
  float shift[kVector] = {};
  float sum[kVector] = {};
  float square[kVector] = {};
  const T* x = static_cast<const T*>(with.x);
  if (count > 0) load(x + static_cast<unsigned long long>(begin) * with.channels + at.channel, shift);
#pragma unroll 4
  for (unsigned i = 0; i < count; ++i) {
    float value[kVector];
    load(x + (static_cast<unsigned long long>(begin) + static_cast<unsigned long long>(i) * stride) * with.channels + at.channel,
         value);
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) {
      const float from = value[c] - shift[c];
      sum[c] += from;
      square[c] += from * from;
    }
  }
  const float n = static_cast<float>(count);
#pragma unroll
  for (unsigned c = 0; c < kVector; ++c) {
    const float mean = count > 0 ? sum[c] / n : 0.0f;
    shared_mean[c][threadIdx.x] = shift[c] + mean;
    shared_squares[c][threadIdx.x] = count > 0 ? square[c] - sum[c] * mean : 0.0f;
  }
  shared_count[threadIdx.x] = n;
  __syncthreads();
  for (unsigned half = half_of(at.rows); half > 0; half /= 2) {
    const unsigned other = threadIdx.x + half * at.here;
    if (at.active && at.row < half && at.row + half < at.rows) {
      const float own = shared_count[threadIdx.x];
      const float more = shared_count[other];
#pragma unroll
      for (unsigned c = 0; c < kVector; ++c) {
        combine(own, shared_mean[c][threadIdx.x], shared_squares[c][threadIdx.x], more, shared_mean[c][other],
                shared_squares[c][other]);
      }
    }
    __syncthreads();
    if (at.active && at.row < half && at.row + half < at.rows) shared_count[threadIdx.x] += shared_count[other];
    __syncthreads();
  }
  if (at.row != 0 || !at.active) return;
  float* mean = with.partial + static_cast<unsigned long long>(blockIdx.x) * 2 * with.channels + at.channel;
#pragma unroll
  for (unsigned c = 0; c < kVector; ++c) {
    mean[c] = shared_mean[c][threadIdx.x];
    mean[with.channels + c] = shared_squares[c][threadIdx.x];
  }
}

LOCKSTEP_DEVICE bool is_finite(double value) { return value - value == 0; }

/// Sets the rows of the layer from its moments, and the running statistics. A channel whose moments are not finite
/// keeps its running statistics, which would otherwise never become finite again.
LOCKSTEP_DEVICE void set_rows(const NormActDevice& with, unsigned c, double mean, double squares) {
  const double count = static_cast<double>(with.images) * with.height * with.width;
  const double var = squares < 0 ? 0 : squares / count;
  const double inverse = 1 / sqrt(var + with.eps);
  const double a = with.weight[c] * inverse;
  with.rows[c] = static_cast<float>(a);
  with.rows[with.channels + c] = static_cast<float>(with.bias[c] - mean * a);
  with.rows[2 * with.channels + c] = static_cast<float>(mean);
  with.rows[3 * with.channels + c] = static_cast<float>(inverse);
  if (with.running_mean == nullptr || !is_finite(mean) || !is_finite(var)) return;
  const double with_bias = with.input_bias != nullptr ? mean + with.input_bias[c] : mean;
  const double keep = 1 - with.momentum;
  with.running_mean[c] = static_cast<float>(with.momentum * with_bias + keep * with.running_mean[c]);
  with.running_var[c] = static_cast<float>(with.momentum * (var * count / (count - 1)) + keep * with.running_var[c]);
}

/// Combines the blocks' moments in double.
LOCKSTEP_DEVICE void finish_moments(const NormActDevice& with) {
  __shared__ double shared[3][kSlices][kFinishChannels];
  const unsigned slot = threadIdx.x % kFinishChannels;
  const unsigned slice = threadIdx.x / kFinishChannels;
  const unsigned channel = blockIdx.x * kFinishChannels + slot;
  const unsigned pixels = with.images * with.height * with.width;
  const unsigned lane = channel / kVector;
  const unsigned left = with.channels / kVector - lane / kThreads * kThreads;
  const unsigned rows = kThreads / (left < kThreads ? left : kThreads);
  double n = 0;
  double mean = 0;
  double squares = 0;
  for (unsigned block = slice; channel < with.channels && block < with.blocks; block += kSlices) {
    const double its = pixels_of_block(pixels, block, rows, with.blocks);
    const float* block_moments = with.partial + static_cast<unsigned long long>(block) * 2 * with.channels + channel;
    combine<double>(n, mean, squares, its, block_moments[0], block_moments[with.channels]);
    n += its;
  }
  shared[0][slice][slot] = n;
  shared[1][slice][slot] = mean;
  shared[2][slice][slot] = squares;
  __syncthreads();
  if (slice != 0 || channel >= with.channels) return;
  for (unsigned i = 1; i < kSlices; ++i) {
    combine<double>(n, mean, squares, shared[0][i][slot], shared[1][i][slot], shared[2][i][slot]);
    n += shared[0][i][slot];
  }
  set_rows(with, channel, mean, squares);
}

/// The pixels of one pooling window, or one pixel without pooling. Pixel 1 is right of the first, pixel 2 below it,
/// pixel 3 both.
struct Window {
  unsigned long long first;  // index of the first pixel in x
  unsigned wide;             // columns of the window in x: 1 at an odd right edge
  unsigned high;
  unsigned long long out;    // pixel of the output; valid only for a whole window
};

/// Returns window `index`. Windows are numbered over the input, so partial windows of an odd last row or column are
/// included.
template <bool kPool>
LOCKSTEP_DEVICE Window window_at(const NormActDevice& with, unsigned index) {
  if (!kPool) return {index, 1, 1, index};
  const unsigned columns = (with.width + 1) / 2;
  const unsigned lines = (with.height + 1) / 2;
  const unsigned column = index % columns;
  const unsigned line = index / columns % lines;
  const unsigned image = index / columns / lines;
  return {(static_cast<unsigned long long>(image) * with.height + 2 * line) * with.width + 2 * column,
          2 * column + 1 < with.width ? 2u : 1u, 2 * line + 1 < with.height ? 2u : 1u,
          (static_cast<unsigned long long>(image) * (with.height / 2) + line) * (with.width / 2) + column};
}

template <bool kPool>
LOCKSTEP_DEVICE bool is_whole(const Window& window) {
  return !kPool || (window.wide == 2 && window.high == 2);
}

/// True if pixel `i` of the window is in x.
LOCKSTEP_DEVICE bool has(const Window& window, unsigned i) { return (i & 1) < window.wide && (i >> 1) < window.high; }

LOCKSTEP_DEVICE unsigned long long place(const NormActDevice& with, const Window& window, unsigned i) {
  return (window.first + (i & 1) + (i >> 1) * with.width) * with.channels;
}

template <bool kPool>
LOCKSTEP_DEVICE unsigned windows_of(const NormActDevice& with) {
  if (!kPool) return with.images * with.height * with.width;
  return with.images * ((with.height + 1) / 2) * ((with.width + 1) / 2);
}

template <bool kPool>
constexpr unsigned kPixels = kPool ? 4 : 1;

LOCKSTEP_DEVICE void load_row(const float* row, unsigned channel, float (&to)[kVector]) { load(row + channel, to); }

/// Loads the residual, if there is one; pooling excludes it.
template <class T, bool kPool>
LOCKSTEP_DEVICE void load_residual(const NormActDevice& with, const Window& window, unsigned channel, float (&to)[kVector]) {
  if (!kPool && with.residual != nullptr) {
    load(static_cast<const T*>(with.residual) + place(with, window, 0) + channel, to);
  }
}

/// Computes max(0, a x + b + residual), and its maximum over a window.
template <class T, bool kPool>
LOCKSTEP_DEVICE void forward(const NormActDevice& with) {
  const unsigned lanes = with.channels / kVector;
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index / lanes >= windows_of<kPool>(with)) return;
  const unsigned channel = index % lanes * kVector;
  const Window window = window_at<kPool>(with, index / lanes);
  if (!is_whole<kPool>(window)) return;
  float a[kVector];
  float b[kVector];
  load_row(with.rows, channel, a);
  load_row(with.rows + with.channels, channel, b);
  float largest[kVector] = {};
#pragma unroll
  for (unsigned i = 0; i < kPixels<kPool>; ++i) {
    float value[kVector];
    load(static_cast<const T*>(with.x) + place(with, window, i) + channel, value);
    float added[kVector] = {};
    load_residual<T, kPool>(with, window, channel, added);
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) {
      const float y = a[c] * value[c] + b[c] + added[c];
      // NaN stays NaN, as in libtorch's ReLU.
      if (y > largest[c] || y != y) largest[c] = y;
    }
  }
  store(largest, static_cast<T*>(with.out) + window.out * with.channels + channel);
}

/// For each channel: g, and the pixel of a window that receives it: the first of the largest pixels, if above 0.
struct Reached {
  unsigned pixel[kVector];  // pixel in the window; 4: none
  float g[kVector];
  float x[kVector];         // that pixel's x
};

template <class T, bool kPool>
LOCKSTEP_DEVICE Reached reached(const NormActDevice& with, const Window& window, unsigned channel,
                                const float (&x)[kPixels<kPool>][kVector]) {
  Reached to;
  float a[kVector];
  float b[kVector];
  float largest[kVector] = {};
  load_row(with.rows, channel, a);
  load_row(with.rows + with.channels, channel, b);
  load(static_cast<const T*>(with.grad) + window.out * with.channels + channel, to.g);
#pragma unroll
  for (unsigned c = 0; c < kVector; ++c) to.pixel[c] = 4;
#pragma unroll
  for (unsigned i = 0; i < kPixels<kPool>; ++i) {
    float added[kVector] = {};
    load_residual<T, kPool>(with, window, channel, added);
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) {
      const float y = a[c] * x[i][c] + b[c] + added[c];
      if (y > largest[c] || y != y) {
        largest[c] = y;
        to.pixel[c] = i;
        to.x[c] = x[i][c];
      }
    }
  }
  return to;
}

template <class T, bool kPool>
LOCKSTEP_DEVICE void load_window(const NormActDevice& with, const Window& window, unsigned channel,
                                 float (&x)[kPixels<kPool>][kVector]) {
#pragma unroll
  for (unsigned i = 0; i < kPixels<kPool>; ++i) {
    if (has(window, i)) load(static_cast<const T*>(with.x) + place(with, window, i) + channel, x[i]);
  }
}

/// Sums g and g (x - mean), by channel, over each block's windows.
template <class T, bool kPool>
LOCKSTEP_DEVICE void backward_sums(const NormActDevice& with) {
  __shared__ float shared[2 * kVector][kThreads];
  const Place at = place_of(with);
  const unsigned stride = with.blocks * at.rows;
  const unsigned begin = blockIdx.x * at.rows + at.row;
  const unsigned count = at.active ? pixels_of(windows_of<kPool>(with), begin, stride) : 0;
  float plain[kVector] = {};
  float times_x[kVector] = {};
  float mean[kVector] = {};
  if (count > 0) load_row(with.rows + 2 * with.channels, at.channel, mean);
  for (unsigned i = 0; i < count; ++i) {
    const Window window = window_at<kPool>(with, begin + i * stride);
    if (!is_whole<kPool>(window)) continue;
    float x[kPixels<kPool>][kVector];
    load_window<T, kPool>(with, window, at.channel, x);
    const Reached to = reached<T, kPool>(with, window, at.channel, x);
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) {
      if (to.pixel[c] == 4) continue;
      plain[c] += to.g[c];
      times_x[c] += to.g[c] * (to.x[c] - mean[c]);
    }
  }
#pragma unroll
  for (unsigned c = 0; c < kVector; ++c) {
    shared[c][threadIdx.x] = plain[c];
    shared[kVector + c][threadIdx.x] = times_x[c];
  }
  __syncthreads();
  for (unsigned half = half_of(at.rows); half > 0; half /= 2) {
    if (at.active && at.row < half && at.row + half < at.rows) {
#pragma unroll
      for (unsigned c = 0; c < 2 * kVector; ++c) shared[c][threadIdx.x] += shared[c][threadIdx.x + half * at.here];
    }
    __syncthreads();
  }
  if (at.row != 0 || !at.active) return;
  float* sums = with.partial + static_cast<unsigned long long>(blockIdx.x) * 2 * with.channels + at.channel;
#pragma unroll
  for (unsigned c = 0; c < kVector; ++c) {
    sums[c] = shared[c][threadIdx.x];
    sums[with.channels + c] = shared[kVector + c][threadIdx.x];
  }
}

/// Computes the gradients of weight and bias, and the factors of the input's gradient.
LOCKSTEP_DEVICE void finish_backward(const NormActDevice& with) {
  __shared__ double shared[2][kSlices][kFinishChannels];
  const unsigned slot = threadIdx.x % kFinishChannels;
  const unsigned slice = threadIdx.x / kFinishChannels;
  const unsigned c = blockIdx.x * kFinishChannels + slot;
  double plain = 0;
  double times_x = 0;
  for (unsigned block = slice; c < with.channels && block < with.blocks; block += kSlices) {
    const float* block_sums = with.partial + static_cast<unsigned long long>(block) * 2 * with.channels + c;
    plain += block_sums[0];
    times_x += block_sums[with.channels];
  }
  shared[0][slice][slot] = plain;
  shared[1][slice][slot] = times_x;
  __syncthreads();
  if (slice != 0 || c >= with.channels) return;
  for (unsigned i = 1; i < kSlices; ++i) {
    plain += shared[0][i][slot];
    times_x += shared[1][i][slot];
  }
  const double count = static_cast<double>(with.images) * with.height * with.width;
  const double a = with.rows[c];
  const double inverse = with.rows[3 * with.channels + c];
  const double dp = -a * inverse * inverse * times_x / count;
  with.by[c] = static_cast<float>(a);
  with.by[with.channels + c] = static_cast<float>(dp);
  with.by[2 * with.channels + c] = static_cast<float>(-a * plain / count - dp * with.rows[2 * with.channels + c]);
  with.dweight[c] = static_cast<float>(times_x * inverse);
  with.dbias[c] = static_cast<float>(plain);
  if (with.dinput_bias != nullptr) with.dinput_bias[c] = 0;  // the batch norm subtracts the bias together with the mean
}

/// Computes the gradient of the input, and of the residual if there is one.
template <class T, bool kPool>
LOCKSTEP_DEVICE void backward(const NormActDevice& with) {
  const unsigned lanes = with.channels / kVector;
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index / lanes >= windows_of<kPool>(with)) return;
  const unsigned channel = index % lanes * kVector;
  const Window window = window_at<kPool>(with, index / lanes);
  float x[kPixels<kPool>][kVector];
  load_window<T, kPool>(with, window, channel, x);
  Reached to{};
  if (is_whole<kPool>(window)) {
    to = reached<T, kPool>(with, window, channel, x);
  } else {
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) to.pixel[c] = 4;
  }
  float da[kVector];
  float dp[kVector];
  float dq[kVector];
  load_row(with.by, channel, da);
  load_row(with.by + with.channels, channel, dp);
  load_row(with.by + 2 * with.channels, channel, dq);
#pragma unroll
  for (unsigned i = 0; i < kPixels<kPool>; ++i) {
    if (!has(window, i)) continue;
    float dx[kVector];
    float g[kVector];
#pragma unroll
    for (unsigned c = 0; c < kVector; ++c) {
      g[c] = to.pixel[c] == i ? to.g[c] : 0.0f;
      dx[c] = da[c] * g[c] + dp[c] * x[i][c] + dq[c];
    }
    store(dx, static_cast<T*>(with.dx) + place(with, window, i) + channel);
    if (!kPool && with.dresidual != nullptr) {
      store(g, static_cast<T*>(with.dresidual) + place(with, window, i) + channel);
    }
  }
}

#define LOCKSTEP_KERNEL(name, ...) \
  extern "C" __global__ void __launch_bounds__(256) name(const NormActDevice with) { __VA_ARGS__(with); }
#define LOCKSTEP_KERNELS_OF(type, T)                              \
  LOCKSTEP_KERNEL(moments_##type, moments<T>)                     \
  LOCKSTEP_KERNEL(forward_##type, forward<T, false>)              \
  LOCKSTEP_KERNEL(forward_pool_##type, forward<T, true>)          \
  LOCKSTEP_KERNEL(backward_sums_##type, backward_sums<T, false>)  \
  LOCKSTEP_KERNEL(backward_sums_pool_##type, backward_sums<T, true>) \
  LOCKSTEP_KERNEL(backward_##type, backward<T, false>)            \
  LOCKSTEP_KERNEL(backward_pool_##type, backward<T, true>)

LOCKSTEP_KERNEL(finish_moments_of_channels, finish_moments)
LOCKSTEP_KERNEL(finish_backward_of_channels, finish_backward)
LOCKSTEP_KERNELS_OF(float32, float)
LOCKSTEP_KERNELS_OF(bfloat16, BFloat16)

}  // namespace device
#endif  // LOCKSTEP_KERNELS

}  // namespace lockstep::nn
