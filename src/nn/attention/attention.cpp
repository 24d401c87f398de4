// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/record_function.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "lockstep/tensor/threads.h"
#include "nn/attention/attention_kernel.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensors of a call, which backward uses again.
struct Attended {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;    ///< expanded, its last dimension contiguous, or undefined
  at::Tensor hidden;  ///< expanded, its last dimension contiguous, or undefined
  at::Tensor logs;    ///< [B, H, N]
  double scale = 1;
};

char* element_at(const at::Tensor& tensor, std::int64_t item, std::int64_t head) {
  const std::int64_t offset = item * tensor.stride(0) + head * tensor.stride(1);
  return static_cast<char*>(tensor.data_ptr()) + offset * static_cast<std::int64_t>(tensor.element_size());
}

AttentionRows rows_of(const at::Tensor& tensor, std::int64_t item, std::int64_t head) {
  return {.data = element_at(tensor, item, head), .row = tensor.stride(2)};
}

/// Returns the result [B, ., H * d] as a view by head, [B, H, ., d].
at::Tensor by_head(const at::Tensor& joined, std::int64_t heads) {
  return joined.view({joined.size(0), joined.size(1), heads, -1}).transpose(1, 2);
}

at::Tensor empty_by_head(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

AttentionHead head_of(const Attended& attended, std::int64_t item, std::int64_t head) {
  AttentionHead made{.type = detail::element_type(attended.query),
                     .queries = attended.query.size(2),
                     .keys = attended.key.size(2),
                     .depth = attended.query.size(3),
                     .scale = static_cast<float>(attended.scale),
                     .query = rows_of(attended.query, item, head),
                     .key = rows_of(attended.key, item, head),
                     .value = rows_of(attended.value, item, head),
                     .logs = reinterpret_cast<float*>(element_at(attended.logs, item, head))};
  if (attended.bias.defined()) {
    made.bias = reinterpret_cast<const float*>(element_at(attended.bias, item % attended.bias.size(0), head));
    made.bias_row = attended.bias.stride(2);
  }
  if (attended.hidden.defined()) {
    made.hidden = reinterpret_cast<const std::uint8_t*>(element_at(attended.hidden, item, head));
    made.hidden_row = attended.hidden.stride(2);
  }
  return made;
}

template <class F>
void for_heads(const Attended& attended, F f) {
  const std::int64_t heads = attended.query.size(1);
  tensor::parallel_for(0, attended.query.size(0) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i / heads, i % heads);
  });
}

/// Sums the gradient over the items that share a bias, in the order of the items. Shapes: [B, H, N, M] to [W, H, N, M].
at::Tensor bias_gradient(const at::Tensor& by_item, const at::Tensor& bias) {
  const std::int64_t windows = bias.size(0);
  if (by_item.size(0) == windows) return by_item;
  at::Tensor sums = at::empty(bias.sizes(), by_item.options());
  const std::int64_t numel = sums.numel() / windows;
  tensor::parallel_for(0, windows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      float* to = sums.data_ptr<float>() + w * numel;
      std::fill(to, to + numel, 0.0F);
      for (std::int64_t item = w; item < by_item.size(0); item += windows) {
        const float* from = by_item.data_ptr<float>() + item * numel;
        for (std::int64_t i = 0; i < numel; ++i) to[i] += from[i];
      }
    }
  });
  return sums;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  /// `rows`: query, key and value.
  static at::Tensor forward(AutogradContext* context, const at::TensorList& rows, const c10::optional<at::Tensor>& bias,
                            const AttentionOptions* options) {
    const at::Tensor& query = rows[0];
    Attended attended{.query = query,
                      .key = rows[1],
                      .value = rows[2],
                      .bias = bias ? *bias : at::Tensor(),
                      .hidden = options->hidden,
                      .logs = {},
                      .scale = options->scale};
    attended.logs = at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
    at::Tensor out = at::empty({query.size(0), query.size(2), query.size(1) * query.size(3)}, query.options());
    const at::Tensor heads = by_head(out, query.size(1));
    for_heads(attended, [&](std::int64_t item, std::int64_t head) {
      attention_forward(head_of(attended, item, head), rows_of(heads, item, head));
    });
    context->save_for_backward({query, attended.key, attended.value, attended.bias, attended.hidden, attended.logs});
    context->saved_data["scale"] = options->scale;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::attention");
    const variable_list kept = context->get_saved_variables();
    RECORD_FUNCTION("lockstep::attention_backward", std::vector<c10::IValue>({kept[0], kept[1]}));
    const Attended attended{.query = kept[0],
                            .key = kept[1],
                            .value = kept[2],
                            .bias = kept[3],
                            .hidden = kept[4],
                            .logs = kept[5],
                            .scale = context->saved_data["scale"].toDouble()};
    const std::int64_t heads = attended.query.size(1);
    const at::Tensor grad = by_head(grads[0].to(attended.query.scalar_type()).contiguous(), heads);
    const at::Tensor to_query = empty_by_head(attended.query);
    const at::Tensor to_key = empty_by_head(attended.key);
    const at::Tensor to_value = empty_by_head(attended.value);
    at::Tensor to_bias;
    if (attended.bias.defined() && context->needs_input_grad(3)) {
      to_bias = at::empty({attended.query.size(0), heads, attended.query.size(2), attended.key.size(2)},
                          attended.bias.options());
    }
    for_heads(attended, [&](std::int64_t item, std::int64_t head) {
      attention_backward(
          head_of(attended, item, head), rows_of(grad, item, head),
          {.query = rows_of(to_query, item, head),
           .key = rows_of(to_key, item, head),
           .value = rows_of(to_value, item, head),
           .bias = to_bias.defined() ? reinterpret_cast<float*>(element_at(to_bias, item, head)) : nullptr});
    });
    return {to_query, to_key, to_value, to_bias.defined() ? bias_gradient(to_bias, attended.bias) : at::Tensor(), {}};
  }
};

bool can_attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const AttentionOptions& options) {
  if (query.dim() != 4 || key.dim() != 4 || !detail::product_type(query) || !detail::has_kernel_type(key)) return false;
  if (query.size(3) % 8 != 0 || key.size(3) != query.size(3) || value.sizes() != key.sizes()) return false;
  if (key.size(0) != query.size(0) || key.size(1) != query.size(1)) return false;
  const at::Tensor& bias = options.bias;
  if (!bias.defined()) return true;
  return bias.dim() == 4 && bias.scalar_type() == at::kFloat && query.size(0) % bias.size(0) == 0 &&
         (bias.size(1) == query.size(1) || (bias.size(1) == 1 && !bias.requires_grad())) &&
         bias.size(2) == query.size(2) && bias.size(3) == key.size(2);
}

/// Computes attention with libtorch's matrix products and softmax.
at::Tensor attention_plain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const AttentionOptions& options) {
  at::Tensor scores = at::matmul(query * options.scale, key.transpose(2, 3));
  if (options.bias.defined()) {
    const at::Tensor& bias = options.bias;
    scores = (scores.view({-1, bias.size(0), query.size(1), bias.size(2), bias.size(3)}) + bias).view(scores.sizes());
  }
  if (options.hidden.defined()) {
    scores = scores.masked_fill(options.hidden, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), value);
  return mixed.transpose(1, 2).reshape({query.size(0), query.size(2), query.size(1) * query.size(3)});
}

}  // namespace

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options) {
  if (!can_attend(query, key, value, options)) return attention_plain(query, key, value, options);
  RECORD_FUNCTION("lockstep::attention", std::vector<c10::IValue>({query, key}));
  const at::ScalarType type = *detail::product_type(query);
  const auto rows = [&](const at::Tensor& tensor) {
    const at::Tensor typed = tensor.to(type);
    return typed.stride(3) == 1 ? typed : typed.contiguous();
  };
  AttentionOptions plain = options;
  if (plain.hidden.defined()) {
    const at::Tensor whole = plain.hidden.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
    plain.hidden = whole.stride(3) == 1 || whole.size(3) == 1 ? whole : whole.contiguous();
  }
  // A torch::autograd::Function does not accept undefined tensors as inputs.
  c10::optional<at::Tensor> bias;
  if (plain.bias.defined()) {
    bias = plain.bias.contiguous().expand({plain.bias.size(0), query.size(1), query.size(2), key.size(2)});
  }
  const std::array<at::Tensor, 3> all = {rows(query), rows(key), rows(value)};
  return AttentionFunction::apply(at::TensorList(all), bias, &plain);
}

}  // namespace lockstep::nn
