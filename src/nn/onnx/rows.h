// SPDX-License-Identifier: Apache-2.0
// Functions that write libtorch's operators as ONNX operators, for the rows of the table in operators.cpp.
#pragma once

#include "nn/onnx/call.h"

namespace lockstep::nn::onnx {

/// Adds the nodes that compute the operator, and sets its results. `op`: the table's third column, usually ONNX's
/// operator; empty if there is none.
using Row = void(OnnxCall& call, const char* op);

// elementwise.cpp
Row unary, question, identity, binary, add, subtract_from, divide, comparison, logical, negate_logical, clamp, rsqrt,
    gelu, silu, mish, celu, leaky, prelu, softplus, hard_tanh, hard_sigmoid, hard_swish, glu, addcmul, where,
    masked_fill, threshold, log_sigmoid;
Row shrink, rrelu, dropout, square, trunc, other_base, beside_one, remainder, lerp, bitwise;

// shapes.cpp
Row view, view_as, flatten, transpose, swap_axes, permute, squeeze, unsqueeze, expand, expand_as, repeat, narrow, slice,
    select;
Row cat, stack, split, chunk, unbind, size, gather, embedding, index_select, index, pad, roll, filled, filled_as,
    arange, pixel_shuffle, pad_edges, pad_by_number;
Row unflatten, move_axes, pixel_unshuffle, channel_shuffle, flip, triangle, scatter, repeat_each;

// layers.cpp
Row batch_norm, layer_norm, group_norm, linear, addmm, matmul, bilinear, einsum, embedding_bag, attention;
Row softmax, reduce, reduce_sum, extremum, arg_extremum, top_k, sort, grid_sampler, cumsum, norm, pairwise_distance,
    cosine_similarity, variance, truth;

// windows.cpp
Row convolution, convolution_by_name, max_pool, average_pool, adaptive_average_pool, adaptive_max_pool, max_unpool,
    unfold, fold, upsample_linear, upsample_nearest;

// recurrent.cpp
Row recurrent;

/// Runs the row of an operator. Throws: UsageError if there is none.
void run_row(OnnxCall& call);

/// Returns the operators that have a row, in alphabetical order.
[[nodiscard]] std::vector<std::string> operators();

}  // namespace lockstep::nn::onnx
