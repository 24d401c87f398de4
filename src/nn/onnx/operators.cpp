// SPDX-License-Identifier: Apache-2.0
// The table of operators: libtorch's name, the function that writes it, and ONNX's name if the function serves several.
#include <algorithm>
#include <array>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

struct Entry {
  std::string_view name;
  Row* row;
  const char* op = "";
};

constexpr std::array kTable = {
    // element-wise operators
    Entry{"abs", unary, "Abs"}, Entry{"acos", unary, "Acos"}, Entry{"asin", unary, "Asin"},
    Entry{"atan", unary, "Atan"}, Entry{"ceil", unary, "Ceil"}, Entry{"cos", unary, "Cos"},
    Entry{"cosh", unary, "Cosh"}, Entry{"erf", unary, "Erf"}, Entry{"exp", unary, "Exp"},
    Entry{"floor", unary, "Floor"}, Entry{"hardsigmoid", hard_sigmoid}, Entry{"isnan", question, "IsNaN"},
    Entry{"log", unary, "Log"}, Entry{"neg", unary, "Neg"}, Entry{"reciprocal", unary, "Reciprocal"},
    Entry{"relu", unary, "Relu"}, Entry{"round", unary, "Round"}, Entry{"sigmoid", unary, "Sigmoid"},
    Entry{"sign", unary, "Sign"}, Entry{"sin", unary, "Sin"}, Entry{"sinh", unary, "Sinh"},
    Entry{"softsign", unary, "Softsign"}, Entry{"sqrt", unary, "Sqrt"}, Entry{"tan", unary, "Tan"},
    Entry{"tanh", unary, "Tanh"}, Entry{"rsqrt", rsqrt}, Entry{"selu", unary, "Selu"}, Entry{"celu", celu, "Celu"},
    Entry{"elu", celu, "Elu"}, Entry{"gelu", gelu}, Entry{"glu", glu}, Entry{"hardswish", hard_swish},
    Entry{"hardtanh", hard_tanh}, Entry{"relu6", hard_tanh, "six"}, Entry{"leaky_relu", leaky, "LeakyRelu"},
    Entry{"mish", mish}, Entry{"prelu", prelu}, Entry{"silu", silu}, Entry{"softplus", softplus},
    Entry{"threshold", threshold}, Entry{"log_sigmoid", log_sigmoid}, Entry{"add", add, "Add"},
    Entry{"sub", add, "Sub"}, Entry{"rsub", subtract_from}, Entry{"mul", binary, "Mul"}, Entry{"div", divide},
    Entry{"pow", binary, "Pow"}, Entry{"maximum", binary, "Max"}, Entry{"minimum", binary, "Min"},
    Entry{"addcmul", addcmul, "Mul"}, Entry{"addcdiv", addcmul, "Div"}, Entry{"clamp", clamp},
    Entry{"clamp_min", binary, "Max"}, Entry{"clamp_max", binary, "Min"}, Entry{"eq", comparison, "Equal"},
    Entry{"ne", comparison, "Not"}, Entry{"gt", comparison, "Greater"}, Entry{"ge", comparison, "GreaterOrEqual"},
    Entry{"lt", comparison, "Less"}, Entry{"le", comparison, "LessOrEqual"}, Entry{"logical_and", logical, "And"},
    Entry{"logical_or", logical, "Or"}, Entry{"logical_xor", logical, "Xor"}, Entry{"logical_not", negate_logical},
    Entry{"where", where}, Entry{"masked_fill", masked_fill}, Entry{"hardshrink", shrink},
    Entry{"softshrink", shrink, "soft"}, Entry{"rrelu", rrelu}, Entry{"square", square}, Entry{"trunc", trunc},
    Entry{"fix", trunc}, Entry{"log2", other_base, "Log"}, Entry{"log10", other_base, "Log"},
    Entry{"exp2", other_base, "Exp"}, Entry{"log1p", beside_one, "Log"}, Entry{"expm1", beside_one, "Exp"},
    Entry{"acosh", unary, "Acosh"}, Entry{"asinh", unary, "Asinh"}, Entry{"atanh", unary, "Atanh"},
    Entry{"floor_divide", divide}, Entry{"remainder", remainder}, Entry{"fmod", remainder, "fmod"}, Entry{"lerp", lerp},
    Entry{"bitwise_and", bitwise, "And"}, Entry{"bitwise_or", bitwise, "Or"}, Entry{"bitwise_xor", bitwise, "Xor"},
    Entry{"bitwise_not", bitwise, "Not"}, Entry{"__and__", bitwise, "And"}, Entry{"__or__", bitwise, "Or"},
    // operators that return their input, perhaps in another type
    Entry{"alias", identity}, Entry{"clone", identity}, Entry{"contiguous", identity}, Entry{"detach", identity},
    Entry{"dropout", dropout}, Entry{"feature_dropout", dropout}, Entry{"alpha_dropout", dropout},
    Entry{"feature_alpha_dropout", dropout}, Entry{"to", identity}, Entry{"type_as", identity},
    // operators that change shapes
    Entry{"view", view}, Entry{"reshape", view}, Entry{"_unsafe_view", view}, Entry{"view_as", view_as},
    Entry{"reshape_as", view_as}, Entry{"flatten", flatten}, Entry{"transpose", transpose}, Entry{"permute", permute},
    Entry{"t", swap_axes}, Entry{"numpy_T", swap_axes}, Entry{"squeeze", squeeze}, Entry{"unsqueeze", unsqueeze},
    Entry{"expand", expand}, Entry{"expand_as", expand_as}, Entry{"repeat", repeat}, Entry{"narrow", narrow},
    Entry{"slice", slice}, Entry{"select", select}, Entry{"cat", cat}, Entry{"concat", cat}, Entry{"stack", stack},
    Entry{"split", split}, Entry{"split_with_sizes", split}, Entry{"chunk", chunk}, Entry{"unbind", unbind},
    Entry{"size", size}, Entry{"gather", gather}, Entry{"embedding", embedding}, Entry{"index_select", index_select},
    Entry{"index", index}, Entry{"constant_pad_nd", pad}, Entry{"pad", pad, "mode"}, Entry{"_pad_enum", pad_by_number},
    Entry{"roll", roll}, Entry{"reflection_pad1d", pad_edges, "reflect"},
    Entry{"reflection_pad2d", pad_edges, "reflect"}, Entry{"replication_pad1d", pad_edges, "edge"},
    Entry{"replication_pad2d", pad_edges, "edge"}, Entry{"pixel_shuffle", pixel_shuffle}, Entry{"arange", arange},
    Entry{"zeros", filled}, Entry{"ones", filled}, Entry{"new_zeros", filled}, Entry{"new_ones", filled},
    Entry{"full", filled, "value"}, Entry{"new_full", filled, "value"}, Entry{"empty_like", filled_as},
    Entry{"zeros_like", filled_as}, Entry{"ones_like", filled_as}, Entry{"full_like", filled_as, "value"},
    Entry{"fill", filled_as, "value"}, Entry{"reflection_pad3d", pad_edges, "reflect"},
    Entry{"replication_pad3d", pad_edges, "edge"}, Entry{"unflatten", unflatten}, Entry{"movedim", move_axes},
    Entry{"moveaxis", move_axes}, Entry{"swapaxes", transpose}, Entry{"swapdims", transpose},
    Entry{"pixel_unshuffle", pixel_unshuffle}, Entry{"channel_shuffle", channel_shuffle}, Entry{"flip", flip},
    Entry{"tril", triangle}, Entry{"triu", triangle, "u"}, Entry{"scatter", scatter},
    Entry{"repeat_interleave", repeat_each}, Entry{"unsafe_chunk", chunk}, Entry{"unsafe_split", split},
    Entry{"unsafe_split_with_sizes", split},
    // operators that combine elements
    Entry{"_convolution", convolution}, Entry{"batch_norm", batch_norm, "BatchNormalization"},
    Entry{"instance_norm", batch_norm, "InstanceNormalization"}, Entry{"layer_norm", layer_norm},
    Entry{"group_norm", group_norm}, Entry{"linear", linear}, Entry{"addmm", addmm}, Entry{"baddbmm", addmm},
    Entry{"scaled_dot_product_attention", attention}, Entry{"matmul", matmul}, Entry{"mm", matmul},
    Entry{"bmm", matmul}, Entry{"max_pool1d", max_pool}, Entry{"max_pool2d", max_pool}, Entry{"max_pool3d", max_pool},
    Entry{"avg_pool1d", average_pool}, Entry{"avg_pool2d", average_pool}, Entry{"avg_pool3d", average_pool},
    Entry{"adaptive_avg_pool1d", adaptive_average_pool}, Entry{"adaptive_avg_pool2d", adaptive_average_pool},
    Entry{"adaptive_avg_pool3d", adaptive_average_pool}, Entry{"softmax", softmax, "Softmax"},
    Entry{"log_softmax", softmax, "LogSoftmax"}, Entry{"mean", reduce, "ReduceMean"},
    Entry{"amax", reduce, "ReduceMax"}, Entry{"amin", reduce, "ReduceMin"}, Entry{"prod", reduce, "ReduceProd"},
    Entry{"logsumexp", reduce, "ReduceLogSumExp"}, Entry{"sum", reduce_sum, "ReduceSum"}, Entry{"norm", norm},
    Entry{"linalg_vector_norm", norm}, Entry{"frobenius_norm", norm}, Entry{"max", extremum, "max"},
    Entry{"min", extremum, "min"}, Entry{"argmax", arg_extremum, "ArgMax"}, Entry{"argmin", arg_extremum, "ArgMin"},
    Entry{"topk", top_k}, Entry{"sort", sort}, Entry{"argsort", sort, "places"}, Entry{"cumsum", cumsum},
    Entry{"var", variance}, Entry{"std", variance, "Sqrt"}, Entry{"any", truth, "ReduceMax"},
    Entry{"all", truth, "ReduceMin"}, Entry{"bilinear", bilinear}, Entry{"einsum", einsum},
    Entry{"embedding_bag", embedding_bag}, Entry{"pairwise_distance", pairwise_distance},
    Entry{"cosine_similarity", cosine_similarity}, Entry{"grid_sampler", grid_sampler},
    // operators on windows
    Entry{"_convolution_mode", convolution_by_name}, Entry{"max_pool1d_with_indices", max_pool},
    Entry{"max_pool2d_with_indices", max_pool}, Entry{"max_pool3d_with_indices", max_pool},
    Entry{"adaptive_max_pool1d", adaptive_max_pool}, Entry{"adaptive_max_pool2d", adaptive_max_pool},
    Entry{"adaptive_max_pool3d", adaptive_max_pool}, Entry{"max_unpool2d", max_unpool},
    Entry{"max_unpool3d", max_unpool}, Entry{"im2col", unfold}, Entry{"col2im", fold},
    Entry{"upsample_linear1d", upsample_linear, "linear"}, Entry{"upsample_bilinear2d", upsample_linear, "linear"},
    Entry{"upsample_trilinear3d", upsample_linear, "linear"}, Entry{"upsample_bicubic2d", upsample_linear, "cubic"},
    Entry{"upsample_nearest1d", upsample_nearest}, Entry{"upsample_nearest2d", upsample_nearest},
    Entry{"upsample_nearest3d", upsample_nearest}, Entry{"_upsample_nearest_exact1d", upsample_nearest, "exact"},
    Entry{"_upsample_nearest_exact2d", upsample_nearest, "exact"},
    Entry{"_upsample_nearest_exact3d", upsample_nearest, "exact"},
    // recurrent operators
    Entry{"lstm", recurrent, "LSTM"}, Entry{"gru", recurrent, "GRU"}, Entry{"rnn_tanh", recurrent, "Tanh"},
    Entry{"rnn_relu", recurrent, "Relu"}};

}  // namespace

void run_row(OnnxCall& call) {
  std::string name = call.name();
  if (name.ends_with("_")) name.pop_back();  // the traced graph has no in-place operators
  const auto* const entry =
      std::find_if(kTable.begin(), kTable.end(), [&](const Entry& each) { return each.name == name; });
  if (entry == kTable.end()) call.refuse("the exporter does not support it");
  entry->row(call, entry->op);
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const Entry& each : kTable) names.emplace_back(each.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep::nn::onnx
