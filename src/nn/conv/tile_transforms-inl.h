// SPDX-License-Identifier: Apache-2.0
// Winograd's transforms before and after the products, along one side of a tile (winograd.h). The files that are
// compiled for one instruction set include this file inside their namespaces, so it has no include guard.
//
// Along a side, kTile results depend on kTile + 2 input pixels, which give as many points. Lavin and Gray's names for
// the matrices are in brackets. F(2, 3) uses their points 0, 1, -1 and infinity. F(4, 3) uses 0, 3/4, -3/4, 3/2, -3/2
// and infinity instead of 0, 1, -1, 2, -2 and infinity. These are exact in binary, and results are 2 to 4 times more
// accurate, because no power of a point is much larger than the others.

template <class Ops, int kTile>
struct Transform;

template <class Ops>
struct Transform<Ops, 2> {
  using V = typename Ops::V;

  /// Computes the points of input pixels (B^T).
  static LOCKSTEP_KERNEL_INLINE void inputs(const V (&from)[4], V (&to)[4]) {
    to[0] = Ops::sub(from[0], from[2]);
    to[1] = Ops::add(from[1], from[2]);
    to[2] = Ops::sub(from[2], from[1]);
    to[3] = Ops::sub(from[1], from[3]);
  }
  /// Computes the results of points (A^T).
  static LOCKSTEP_KERNEL_INLINE void results(const V (&from)[4], V (&to)[2]) {
    to[0] = Ops::add(Ops::add(from[0], from[1]), from[2]);
    to[1] = Ops::sub(Ops::sub(from[1], from[2]), from[3]);
  }
  /// Computes the points of the results' gradients (A).
  static LOCKSTEP_KERNEL_INLINE void gradients(const V (&from)[2], V (&to)[4]) {
    to[0] = from[0];
    to[1] = Ops::add(from[0], from[1]);
    to[2] = Ops::sub(from[0], from[1]);
    to[3] = Ops::sub(Ops::zero(), from[1]);
  }
  /// Computes the points of weights (G).
  static LOCKSTEP_KERNEL_INLINE void weights(const V (&from)[3], V (&to)[4]) {
    const V ends = Ops::add(from[0], from[2]);
    to[0] = from[0];
    to[1] = Ops::half(Ops::add(ends, from[1]));
    to[2] = Ops::half(Ops::sub(ends, from[1]));
    to[3] = from[2];
  }
  /// Computes the gradients of the weights from points (G^T).
  static LOCKSTEP_KERNEL_INLINE void weight_gradients(const V (&from)[4], V (&to)[3]) {
    const V both = Ops::half(Ops::add(from[1], from[2]));
    to[0] = Ops::add(from[0], both);
    to[1] = Ops::half(Ops::sub(from[1], from[2]));
    to[2] = Ops::add(both, from[3]);
  }
};

template <class Ops>
struct Transform<Ops, 4> {
  using V = typename Ops::V;
  // The points are 0, a, -a, b, -b and infinity.
  static constexpr float kA = 0.75F;
  static constexpr float kB = 1.5F;
  static constexpr float kA2 = kA * kA;
  static constexpr float kB2 = kB * kB;
  static constexpr float kByA = 1 / (2 * kA2 * (kA2 - kB2));
  static constexpr float kByB = 1 / (2 * kB2 * (kB2 - kA2));

  static LOCKSTEP_KERNEL_INLINE void inputs(const V (&from)[6], V (&to)[6]) {
    const V even = Ops::add_times(from[4], from[2], -kB2);
    const V odd = Ops::add_times(from[3], from[1], -kB2);
    const V even2 = Ops::add_times(from[4], from[2], -kA2);
    const V odd2 = Ops::add_times(from[3], from[1], -kA2);
    to[0] = Ops::add_times(Ops::add_times(from[4], from[2], -kA2 - kB2), from[0], kA2 * kB2);
    to[1] = Ops::add_times(even, odd, kA);
    to[2] = Ops::add_times(even, odd, -kA);
    to[3] = Ops::add_times(even2, odd2, kB);
    to[4] = Ops::add_times(even2, odd2, -kB);
    to[5] = Ops::add_times(Ops::add_times(from[5], from[3], -kA2 - kB2), from[1], kA2 * kB2);
  }
  static LOCKSTEP_KERNEL_INLINE void results(const V (&from)[6], V (&to)[4]) {
    const V sum = Ops::add(from[1], from[2]);
    const V difference = Ops::sub(from[1], from[2]);
    const V sum2 = Ops::add(from[3], from[4]);
    const V difference2 = Ops::sub(from[3], from[4]);
    to[0] = Ops::add(Ops::add(from[0], sum), sum2);
    to[1] = Ops::add_times(Ops::times(difference, kA), difference2, kB);
    to[2] = Ops::add_times(Ops::times(sum, kA2), sum2, kB2);
    to[3] = Ops::add_times(Ops::add_times(from[5], difference, kA * kA2), difference2, kB * kB2);
  }
  static LOCKSTEP_KERNEL_INLINE void gradients(const V (&from)[4], V (&to)[6]) {
    const V even = Ops::add_times(from[0], from[2], kA2);
    const V odd = Ops::add_times(from[1], from[3], kA2);
    const V even2 = Ops::add_times(from[0], from[2], kB2);
    const V odd2 = Ops::add_times(from[1], from[3], kB2);
    to[0] = from[0];
    to[1] = Ops::add_times(even, odd, kA);
    to[2] = Ops::add_times(even, odd, -kA);
    to[3] = Ops::add_times(even2, odd2, kB);
    to[4] = Ops::add_times(even2, odd2, -kB);
    to[5] = from[3];
  }
  static LOCKSTEP_KERNEL_INLINE void weights(const V (&from)[3], V (&to)[6]) {
    const V ends = Ops::times(Ops::add_times(from[0], from[2], kA2), kByA);
    const V ends2 = Ops::times(Ops::add_times(from[0], from[2], kB2), kByB);
    to[0] = Ops::times(from[0], 1 / (kA2 * kB2));
    to[1] = Ops::add_times(ends, from[1], kA * kByA);
    to[2] = Ops::add_times(ends, from[1], -kA * kByA);
    to[3] = Ops::add_times(ends2, from[1], kB * kByB);
    to[4] = Ops::add_times(ends2, from[1], -kB * kByB);
    to[5] = from[2];
  }
  static LOCKSTEP_KERNEL_INLINE void weight_gradients(const V (&from)[6], V (&to)[3]) {
    const V sum = Ops::times(Ops::add(from[1], from[2]), kByA);
    const V difference = Ops::times(Ops::sub(from[1], from[2]), kA * kByA);
    const V sum2 = Ops::times(Ops::add(from[3], from[4]), kByB);
    const V difference2 = Ops::sub(from[3], from[4]);
    to[0] = Ops::add_times(Ops::add(sum, sum2), from[0], 1 / (kA2 * kB2));
    to[1] = Ops::add_times(difference, difference2, kB * kByB);
    to[2] = Ops::add_times(Ops::add_times(from[5], sum, kA2), sum2, kB2);
  }
};
