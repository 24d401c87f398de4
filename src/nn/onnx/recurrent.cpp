// SPDX-License-Identifier: Apache-2.0
// Recurrent layers. libtorch computes all layers and directions in one operator, ONNX has one operator for each layer.
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

/// The layout of the arguments: op(x, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first).
struct Layout {
  bool has_biases = false;
  std::int64_t layers = 0;
  std::int64_t directions = 0;
  std::int64_t hidden = 0;
  bool batch_first = false;

  [[nodiscard]] std::size_t weights() const { return has_biases ? 4 : 2; }  ///< tensors of a layer in one direction
};

Layout layout_of(const OnnxCall& call) {
  if (call.list_size(2) == 0) call.refuse("its input is a packed sequence");
  const Layout layout{.has_biases = call.flag(3),
                      .layers = call.integer(4),
                      .directions = call.flag(7) ? 2 : 1,
                      .hidden = call.result_sizes(1).back(),
                      .batch_first = call.flag(8)};
  if (call.flag(6) && call.number(5) != 0) call.refuse("it applies dropout as in training");
  if (call.list_size(2) != layout.weights() * static_cast<std::size_t>(layout.layers * layout.directions))
    call.refuse("it projects its hidden state (proj_size)");
  return layout;
}

/// Returns the parts of a weight or bias, one for each gate, in ONNX's order.
std::string in_order(OnnxCall& call, const std::string& name, const std::vector<std::size_t>& order) {
  if (order.size() == 1) return name;
  const auto parts = call.add_all("Split", {name}, {{"axis", std::int64_t{0}}}, order.size());
  std::vector<std::string> sorted;
  for (const std::size_t each : order) sorted.push_back(parts[each]);
  return call.add("Concat", sorted, {{"axis", std::int64_t{0}}});
}

/// Stacks the tensors of both directions: [directions, ...].
std::string stacked(OnnxCall& call, const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& each : names) parts.push_back(call.add("Unsqueeze", {each, call.integers_of({0})}));
  return parts.size() == 1 ? parts.front() : call.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

/// ONNX's operator and its attributes.
struct Kind {
  const char* op;
  std::vector<std::size_t> order;  ///< order of the gates
  OnnxAttributes attributes = {};
};

Kind kind_of(std::string_view op, std::size_t directions) {
  if (op == "LSTM") return {"LSTM", {0, 3, 1, 2}};
  if (op == "GRU") return {"GRU", {1, 0, 2}, {{"linear_before_reset", std::int64_t{1}}}};
  return {"RNN", {0}, {{"activations", std::vector<std::string>(directions, std::string(op))}}};
}

/// Returns the weights of a layer in ONNX's form: the weights of the input, those of the state, and the biases of both.
std::vector<std::string> weights_of(OnnxCall& call, const Layout& layout, std::int64_t layer, const Kind& kind) {
  const std::vector<std::string> all = call.list(2);
  std::vector<std::vector<std::string>> parts(layout.weights());
  for (std::int64_t direction = 0; direction < layout.directions; ++direction) {
    const auto begin = static_cast<std::size_t>(layer * layout.directions + direction) * layout.weights();
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(in_order(call, all.at(begin + i), kind.order));
  }
  std::vector<std::string> made = {stacked(call, parts[0]), stacked(call, parts[1]), ""};
  if (layout.has_biases)
    made[2] = call.add("Concat", {stacked(call, parts[2]), stacked(call, parts[3])}, {{"axis", std::int64_t{1}}});
  return made;
}

/// Returns a layer's rows of a state.
std::string state_of(OnnxCall& call, const std::string& name, const Layout& layout, std::int64_t layer) {
  if (layout.layers == 1) return name;
  const std::int64_t begin = layer * layout.directions;
  return call.add(
      "Slice", {name, call.integers_of({begin}), call.integers_of({begin + layout.directions}), call.integers_of({0})});
}

std::string transposed(OnnxCall& call, const std::string& name, const std::vector<std::int64_t>& order) {
  return call.add("Transpose", {name}, {{"perm", order}});
}

}  // namespace

/// `op`: LSTM, GRU, or the activation function of a plain RNN.
void recurrent(OnnxCall& call, const char* op) {
  const bool has_cell = std::string_view(op) == "LSTM";
  const Layout layout = layout_of(call);
  const auto directions = static_cast<std::size_t>(layout.directions);
  const std::vector<std::string> before = has_cell ? call.list(1) : std::vector<std::string>{call.in(1)};
  Kind kind = kind_of(op, directions);
  kind.attributes.emplace_back("hidden_size", layout.hidden);
  if (directions == 2) kind.attributes.emplace_back("direction", std::string("bidirectional"));

  std::string x = layout.batch_first ? transposed(call, call.in(0), {1, 0, 2}) : call.in(0);
  std::vector<std::vector<std::string>> after(before.size());  // the state after each layer
  for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
    std::vector<std::string> inputs = {x};
    for (const std::string& each : weights_of(call, layout, layer, kind)) inputs.push_back(each);
    inputs.emplace_back();  // all sequences have the same length
    for (const std::string& each : before) inputs.push_back(state_of(call, each, layout, layer));
    const auto made = call.add_all(kind.op, inputs, kind.attributes, 1 + before.size());
    // [time, directions, batch, hidden] -> [time, batch, directions * hidden]
    x = call.add("Reshape", {transposed(call, made[0], {0, 2, 1, 3}),
                             call.integers_of({0, 0, layout.directions * layout.hidden})});
    for (std::size_t i = 0; i < after.size(); ++i) after[i].push_back(made[i + 1]);
  }
  call.give(layout.batch_first ? transposed(call, x, {1, 0, 2}) : x);
  for (std::size_t i = 0; i < after.size(); ++i)
    call.give(after[i].size() == 1 ? after[i].front() : call.add("Concat", after[i], {{"axis", std::int64_t{0}}}),
              i + 1);
}

}  // namespace lockstep::nn::onnx
