// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element separately.
#include <cmath>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

/// Returns both arguments, cast to the type of the result.
std::pair<std::string, std::string> operands(OnnxCall& call) {
  return {call.as(0, call.result_type()), call.as(1, call.result_type())};
}

/// Multiplies `name` by argument `i`, a factor, unless the factor is missing or 1.
std::string scaled(OnnxCall& call, const std::string& name, std::size_t i) {
  if (call.none(i) || call.number(i) == 1) return name;
  return call.add("Mul", {name, call.constant(call.number(i), call.result_type())});
}

std::string truncated(OnnxCall& call, const std::string& name) {
  return call.add("Mul", {call.add("Sign", {name}), call.add("Floor", {call.add("Abs", {name})})});
}

std::string number(OnnxCall& call, double value) { return call.constant(value, call.result_type()); }

}  // namespace

/// An operator with one argument; only round() may have a second one.
void unary(OnnxCall& call, const char* op) {
  if (call.count() > 1) call.refuse("it rounds to a number of decimals");
  call.give(call.add(op, {call.as(0, call.result_type())}));
}

/// Writes an operator that tests each element; the elements' type differs from the result's.
void question(OnnxCall& call, const char* op) { call.give(call.add(op, {call.in(0)})); }

void identity(OnnxCall& call, const char* /*op*/) { call.give(call.as(0, call.result_type())); }

void binary(OnnxCall& call, const char* op) {
  const auto [one, other] = operands(call);
  call.give(call.add(op, {one, other}));
}

void add(OnnxCall& call, const char* op) {
  const auto [one, other] = operands(call);
  call.give(call.add(op, {one, scaled(call, other, 2)}));
}

void subtract_from(OnnxCall& call, const char* /*op*/) {
  const auto [one, other] = operands(call);
  call.give(call.add("Sub", {other, scaled(call, one, 2)}));
}

void divide(OnnxCall& call, const char* /*op*/) {
  const auto [one, other] = operands(call);
  const std::string quotient = call.add("Div", {one, other});
  const bool floors = call.name().starts_with("floor_");
  if (call.none(2) && !floors) return call.give(quotient);
  const bool whole = !c10::isFloatingType(call.result_type());
  const std::string mode = floors ? "floor" : call.text(2);
  if (mode == "trunc") return call.give(whole ? quotient : truncated(call, quotient));
  if (!whole) return call.give(call.add("Floor", {quotient}));
  call.give(call.add("Div", {call.add("Sub", {one, call.add("Mod", {one, other})}), other}));
}

void comparison(OnnxCall& call, const char* op) {
  const at::ScalarType type = call.common_type(0, 1);
  const std::string result =
      call.add(std::string_view(op) == "Not" ? "Equal" : op, {call.as(0, type), call.as(1, type)});
  call.give(std::string_view(op) == "Not" ? call.add("Not", {result}) : result);
}

void logical(OnnxCall& call, const char* op) {
  call.give(call.add(op, {call.as(0, at::kBool), call.as(1, at::kBool)}));
}

void negate_logical(OnnxCall& call, const char* /*op*/) { call.give(call.add("Not", {call.as(0, at::kBool)})); }

void clamp(OnnxCall& call, const char* /*op*/) {
  const at::ScalarType type = call.result_type();
  call.give(
      call.add("Clip", {call.as(0, type), call.none(1) ? "" : call.as(1, type), call.none(2) ? "" : call.as(2, type)}));
}

void rsqrt(OnnxCall& call, const char* /*op*/) { call.give(call.add("Reciprocal", {call.add("Sqrt", {call.in(0)})})); }

/// x * (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh.
void gelu(OnnxCall& call, const char* /*op*/) {
  const std::string x = call.in(0);
  std::string inner;
  if (!call.none(1) && call.text(1) == "tanh") {
    const std::string cube = call.add("Mul", {call.add("Mul", {x, x}), x});
    const std::string sum = call.add("Add", {x, call.add("Mul", {cube, number(call, 0.044715)})});
    inner = call.add("Tanh", {call.add("Mul", {sum, number(call, std::sqrt(2 / M_PI))})});
  } else {
    inner = call.add("Erf", {call.add("Mul", {x, number(call, M_SQRT1_2)})});
  }
  const std::string factor = call.add("Mul", {call.add("Add", {inner, number(call, 1)}), number(call, 0.5)});
  call.give(call.add("Mul", {x, factor}));
}

void silu(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Mul", {call.in(0), call.add("Sigmoid", {call.in(0)})}));
}

void mish(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Mul", {call.in(0), call.add("Tanh", {call.add("Softplus", {call.in(0)})})}));
}

/// max(0, x) + min(0, a * (exp(x / a) - 1)). elu and selu have other scales: elu(x, alpha, scale, input_scale).
void celu(OnnxCall& call, const char* op) {
  const bool is_celu = std::string_view(op) == "Celu";
  const double alpha = call.none(1) ? 1 : call.number(1);
  if (!call.none(3) && call.number(3) != 1) call.refuse("it scales its input (input_scale)");
  if (is_celu || (call.none(2) || call.number(2) == 1))
    return call.give(call.add(op, {call.in(0)}, {{"alpha", alpha}}));
  call.give(call.add("Selu", {call.in(0)}, {{"alpha", alpha}, {"gamma", call.number(2)}}));
}

void leaky(OnnxCall& call, const char* op) { call.give(call.add(op, {call.in(0)}, {{"alpha", call.number(1)}})); }

void prelu(OnnxCall& call, const char* /*op*/) {
  std::string slope = call.in(1);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(call.rank(0)), 1);
  if (sizes.size() > 1) sizes[1] = call.sizes(1).empty() ? 1 : call.sizes(1).back();
  if (call.rank(1) != call.rank(0)) slope = call.add("Reshape", {slope, call.integers_of(sizes)});
  call.give(call.add("PRelu", {call.in(0), slope}));
}

/// softplus(x, beta, threshold): libtorch returns x if x * beta exceeds the threshold. From 15 on, float32 has the same
/// values without it.
void softplus(OnnxCall& call, const char* /*op*/) {
  if (!call.none(2) && call.number(2) < 15) call.refuse("its threshold is below 15");
  const double beta = call.number(1);
  if (beta == 1) return call.give(call.add("Softplus", {call.in(0)}));
  const std::string scaled = call.add("Mul", {call.in(0), number(call, beta)});
  call.give(call.add("Div", {call.add("Softplus", {scaled}), number(call, beta)}));
}

/// hardshrink(x, lambda), and softshrink: values within lambda of 0 become 0, and `soft` moves the others towards 0.
void shrink(OnnxCall& call, const char* op) {
  const double lambda = call.number(1);
  call.give(call.add("Shrink", {call.in(0)}, {{"lambd", lambda}, {"bias", *op == 0 ? 0 : lambda}}));
}

/// rrelu(x, lower, upper, training, ...).
void rrelu(OnnxCall& call, const char* /*op*/) {
  if (call.flag(3)) call.refuse("it draws random numbers");
  call.give(call.add("LeakyRelu", {call.in(0)}, {{"alpha", (call.number(1) + call.number(2)) / 2}}));
}

/// dropout(x, p, train) and its variants.
void dropout(OnnxCall& call, const char* /*op*/) {
  if (call.flag(2) && call.number(1) != 0) call.refuse("it applies dropout as in training");
  call.give(call.in(0));
}

void square(OnnxCall& call, const char* /*op*/) { call.give(call.add("Mul", {call.in(0), call.in(0)})); }

void trunc(OnnxCall& call, const char* /*op*/) { call.give(truncated(call, call.in(0))); }

/// Logarithms and powers with a base other than e: log2, log10, exp2.
void other_base(OnnxCall& call, const char* op) {
  const double base = std::log(call.name().ends_with("10") ? 10.0 : 2.0);
  const std::string x = call.as(0, call.result_type());
  if (std::string_view(op) == "Exp") return call.give(call.add(op, {call.add("Mul", {x, number(call, base)})}));
  call.give(call.add("Div", {call.add(op, {x}), number(call, base)}));
}

/// log1p and expm1.
void beside_one(OnnxCall& call, const char* op) {
  const std::string x = call.as(0, call.result_type());
  const bool is_log = std::string_view(op) == "Log";
  call.give(is_log ? call.add(op, {call.add("Add", {x, number(call, 1)})})
                   : call.add("Sub", {call.add(op, {x}), number(call, 1)}));
}

/// a - b * floor(a / b), which has the sign of b; fmod has the sign of a.
void remainder(OnnxCall& call, const char* op) {
  const auto [one, other] = operands(call);
  const bool is_fmod = std::string_view(op) == "fmod";
  if (is_fmod || !c10::isFloatingType(call.result_type()))
    return call.give(call.add("Mod", {one, other}, {{"fmod", is_fmod ? 1 : std::int64_t{0}}}));
  const std::string whole = call.add("Floor", {call.add("Div", {one, other})});
  call.give(call.add("Sub", {one, call.add("Mul", {whole, other})}));
}

/// lerp(a, b, weight): a + weight * (b - a).
void lerp(OnnxCall& call, const char* /*op*/) {
  const std::string apart = call.add("Sub", {call.in(1), call.in(0)});
  call.give(call.add("Add", {call.in(0), call.add("Mul", {call.as(2, call.result_type()), apart})}));
}

/// bitwise_and and its variants, for booleans only.
void bitwise(OnnxCall& call, const char* op) {
  if (call.result_type() != at::kBool) call.refuse("its arguments are whole numbers");
  std::string_view(op) == "Not" ? negate_logical(call, op) : logical(call, op);
}

void hard_tanh(OnnxCall& call, const char* op) {
  const bool is_six = std::string_view(op) == "six";
  call.give(call.add(
      "Clip", {call.in(0), number(call, is_six ? 0 : call.number(1)), number(call, is_six ? 6 : call.number(2))}));
}

void hard_sigmoid(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("HardSigmoid", {call.in(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
}

void hard_swish(OnnxCall& call, const char* /*op*/) {
  const std::string gate = call.add("HardSigmoid", {call.in(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  call.give(call.add("Mul", {call.in(0), gate}));
}

void glu(OnnxCall& call, const char* /*op*/) {
  const auto halves = call.add_all("Split", {call.in(0)}, {{"axis", call.dim(1)}}, 2);
  call.give(call.add("Mul", {halves[0], call.add("Sigmoid", {halves[1]})}));
}

/// x + value * a * b, or a / b.
void addcmul(OnnxCall& call, const char* op) {
  const std::string product = call.add(op, {call.in(1), call.in(2)});
  call.give(call.add("Add", {call.in(0), scaled(call, product, 3)}));
}

void where(OnnxCall& call, const char* /*op*/) {
  const at::ScalarType type = call.result_type();
  call.give(call.add("Where", {call.as(0, at::kBool), call.as(1, type), call.as(2, type)}));
}

void masked_fill(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Where", {call.as(1, at::kBool), call.as(2, call.result_type()), call.in(0)}));
}

/// threshold(x, threshold, value).
void threshold(OnnxCall& call, const char* /*op*/) {
  const std::string above = call.add("Greater", {call.in(0), number(call, call.number(1))});
  call.give(call.add("Where", {above, call.in(0), number(call, call.number(2))}));
}

void log_sigmoid(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Neg", {call.add("Softplus", {call.add("Neg", {call.in(0)})})}));
}

}  // namespace lockstep::nn::onnx
