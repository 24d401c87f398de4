// SPDX-License-Identifier: Apache-2.0
#include "nn/onnx/model.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"

namespace lockstep::nn {

namespace {

using Writer = protozero::pbf_writer;

// The fields of the messages, with their names in onnx.proto.
namespace model_field {
enum : protozero::pbf_tag_type {
  kIrVersion = 1,
  kProducer = 2,
  kProducerVersion = 3,
  kGraph = 7,
  kOpset = 8,
  kTexts = 14
};
}
namespace graph_field {
enum : protozero::pbf_tag_type { kNode = 1, kName = 2, kStored = 5, kInput = 11, kOutput = 12 };
}
namespace node_field {
enum : protozero::pbf_tag_type { kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5 };
}
namespace attribute_field {
enum : protozero::pbf_tag_type {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kText = 4,
  kTensor = 5,
  kInts = 8,
  kTexts = 9,
  kKind = 20
};
}
namespace tensor_field {
enum : protozero::pbf_tag_type { kSizes = 1, kType = 2, kName = 8, kBytes = 9, kOutside = 13, kPlace = 14 };
}
enum AttributeKind : std::int32_t {
  kFloatKind = 1,
  kIntKind = 2,
  kTextKind = 3,
  kTensorKind = 4,
  kIntsKind = 7,
  kTextsKind = 8
};

constexpr std::int64_t kIrVersion = 8;  // for opsets 15 to 18
constexpr std::size_t kSmall = 1024;    // maximum bytes of a tensor that stays in the model

void add_pair(Writer& writer, protozero::pbf_tag_type field, const std::string& key, const std::string& value) {
  Writer pair(writer, field);
  pair.add_string(1, key);
  pair.add_string(2, value);
}

void add_port(Writer& graph, protozero::pbf_tag_type field, const OnnxPort& port) {
  Writer info(graph, field);
  info.add_string(1, port.name);
  Writer type(info, 2);
  Writer tensor(type, 1);
  tensor.add_int32(1, onnx_type(port.example.scalar_type()));
  Writer shape(tensor, 2);
  for (std::int64_t dim = 0; dim < port.example.dim(); ++dim) {
    Writer size(shape, 1);
    if (dim == 0) {
      size.add_string(2, "N");
    } else {
      size.add_int64(1, port.example.size(dim));
    }
  }
}

std::string raw(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.cpu().contiguous();
  return {static_cast<const char*>(plain.data_ptr()), plain.nbytes()};
}

}  // namespace

bool is_worth_halving(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.nbytes() >= kSmall;
}

std::int32_t onnx_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kChar:
      return 3;
    case at::kInt:
      return 6;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kHalf:
      return 10;
    case at::kDouble:
      return 11;
    case at::kBFloat16:
      return 16;
    default:
      throw UsageError(fmt::format("ONNX does not support tensors of {}", c10::toString(type)));
  }
}

/// Serializes a model.
class OnnxWriter {
 public:
  OnnxWriter(const OnnxModel& model, const OnnxModel::Head& head) : model_(model), head_(head) {
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : model.stored_) bytes += static_cast<std::int64_t>(tensor.nbytes());
    is_outside_ = bytes >= head.most_bytes;
  }

  OnnxBytes write() {
    OnnxBytes bytes;
    Writer writer(bytes.model);
    writer.add_int64(model_field::kIrVersion, kIrVersion);
    writer.add_string(model_field::kProducer, "Lockstep");
    writer.add_string(model_field::kProducerVersion, kVersion);
    {
      Writer graph(writer, model_field::kGraph);
      write_graph(graph);
    }
    {
      Writer opset(writer, model_field::kOpset);
      opset.add_string(1, "");
      opset.add_int64(2, head_.opset);
    }
    for (const auto& [key, value] : head_.texts) add_pair(writer, model_field::kTexts, key, value);
    bytes.tensors = std::move(outside_);
    return bytes;
  }

 private:
  void write_graph(Writer& graph) {
    for (const auto& [name, tensor] : model_.stored_) {
      if (is_halved(tensor))
        add_node(graph, {"Cast", {name + ".half"}, {name}, {{"to", std::int64_t{onnx_type(at::kFloat)}}}});
    }
    for (const OnnxModel::Node& node : model_.nodes_) add_node(graph, node);
    graph.add_string(graph_field::kName, "network");
    for (const auto& [name, tensor] : model_.stored_) {
      Writer stored(graph, graph_field::kStored);
      const bool half = is_halved(tensor);
      add_tensor(stored, half ? tensor.to(at::kHalf) : tensor, half ? name + ".half" : name);
    }
    for (const OnnxPort& port : head_.inputs) add_port(graph, graph_field::kInput, port);
    for (const OnnxPort& port : head_.outputs) add_port(graph, graph_field::kOutput, port);
  }

  /// False for a tensor that 16 bits would change, such as a table that the network computed in 32 bits: only its
  /// parameters and buffers were rounded before the results were compared.
  [[nodiscard]] bool is_halved(const at::Tensor& tensor) const {
    return head_.half && is_worth_halving(tensor) && tensor.to(at::kHalf).to(at::kFloat).equal(tensor);
  }

  void add_node(Writer& graph, const OnnxModel::Node& node) {
    Writer writer(graph, graph_field::kNode);
    for (const std::string& name : node.inputs) writer.add_string(node_field::kInput, name);
    for (const std::string& name : node.results) writer.add_string(node_field::kOutput, name);
    writer.add_string(node_field::kName, node.op + "_" + node.results.front());
    writer.add_string(node_field::kOp, node.op);
    for (const auto& [name, value] : node.attributes) {
      Writer attribute(writer, node_field::kAttribute);
      attribute.add_string(attribute_field::kName, name);
      add_value(attribute, value);
    }
  }

  void add_value(Writer& attribute, const OnnxAttribute& value) {
    std::int32_t kind = kFloatKind;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      kind = kIntKind;
      attribute.add_int64(attribute_field::kInt, *number);
    } else if (const auto* real = std::get_if<double>(&value)) {
      attribute.add_float(attribute_field::kFloat, static_cast<float>(*real));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      kind = kTextKind;
      attribute.add_string(attribute_field::kText, *text);
    } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
      kind = kIntsKind;
      for (const std::int64_t each : *numbers) attribute.add_int64(attribute_field::kInts, each);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      kind = kTextsKind;
      for (const std::string& each : *texts) attribute.add_string(attribute_field::kTexts, each);
    } else {
      kind = kTensorKind;
      Writer tensor(attribute, attribute_field::kTensor);
      add_tensor(tensor, std::get<at::Tensor>(value), "");
    }
    attribute.add_int32(attribute_field::kKind, kind);
  }

  void add_tensor(Writer& writer, const at::Tensor& tensor, const std::string& name) {
    for (const std::int64_t size : tensor.sizes()) writer.add_int64(tensor_field::kSizes, size);
    writer.add_int32(tensor_field::kType, onnx_type(tensor.scalar_type()));
    if (!name.empty()) writer.add_string(tensor_field::kName, name);
    const std::string bytes = raw(tensor);
    if (!is_outside_ || bytes.size() < kSmall) return writer.add_bytes(tensor_field::kBytes, bytes);
    add_pair(writer, tensor_field::kOutside, "location", head_.beside);
    add_pair(writer, tensor_field::kOutside, "offset", std::to_string(outside_.size()));
    add_pair(writer, tensor_field::kOutside, "length", std::to_string(bytes.size()));
    writer.add_int32(tensor_field::kPlace, 1);
    outside_ += bytes;
  }

  const OnnxModel& model_;
  const OnnxModel::Head& head_;
  bool is_outside_ = false;
  std::string outside_;
};

std::vector<std::string> OnnxModel::add(const std::string& op, const std::vector<std::string>& inputs,
                                        const OnnxAttributes& attributes, int results) {
  std::vector<std::string> names;
  for (int i = 0; i < results; ++i) names.push_back(fmt::format("v{}", names_++));
  nodes_.push_back({op, inputs, names, attributes});
  return names;
}

void OnnxModel::add_named(const std::string& op, const std::string& input, const std::string& result) {
  nodes_.push_back({op, {input}, {result}, {}});
}

std::string OnnxModel::store(const at::Tensor& tensor, const std::string& name) {
  stored_.emplace_back(name.empty() ? fmt::format("v{}", names_++) : name, tensor);
  return stored_.back().first;
}

std::string OnnxModel::store_integers(const std::vector<std::int64_t>& numbers) {
  const auto [known, is_new] = integers_.try_emplace(numbers);
  if (is_new) known->second = store(at::tensor(at::IntArrayRef(numbers), at::kLong));
  return known->second;
}

OnnxBytes OnnxModel::bytes(const Head& head) const { return OnnxWriter(*this, head).write(); }

}  // namespace lockstep::nn
