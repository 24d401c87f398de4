// SPDX-License-Identifier: Apache-2.0
// Writes a tree of values as a .pth file: the pickle first, then a member for each storage.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "checkpoint/formats/torch_types.h"
#include "checkpoint/torch/pickle_write.h"
#include "checkpoint/torch/zip_write.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// Identifies a tensor under any of its names: data, type, sizes, strides, and whether it conjugates or negates them.
using PlaceKey =
    std::tuple<const void*, at::ScalarType, std::vector<std::int64_t>, std::vector<std::int64_t>, bool, bool>;

/// Writes the pickle, and records the storages that it names, in order.
class TorchPickler {
 public:
  void add(const TorchValue& value, const std::string& path);
  [[nodiscard]] std::string finish() { return pickle_.finish(); }
  [[nodiscard]] const std::vector<at::Tensor>& storages() const { return storages_; }

 private:
  void add_tensor(const at::Tensor& tensor, const std::string& path);
  std::size_t place_of(const at::Tensor& tensor);

  PickleWriter pickle_;
  std::vector<at::Tensor> storages_;
  std::map<PlaceKey, std::size_t> places_;
};

ElementType savable_type(const at::Tensor& tensor, const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return UsageError(fmt::format("cannot save '{}': {}", path, why));
  };
  if (!tensor.defined()) throw refuse("the tensor is undefined");
  if (tensor.layout() != at::kStrided) throw refuse("the tensor is not dense");
  if (tensor.is_meta()) throw refuse("the tensor has no data (device meta)");
  const auto type = element_type_of(tensor.scalar_type());
  if (!type) throw refuse(fmt::format("torch files cannot hold {}", c10::toString(tensor.scalar_type())));
  return *type;
}

/// Returns the index of the tensor's storage. A tensor with two names has one storage, so tied weights stay tied.
std::size_t TorchPickler::place_of(const at::Tensor& tensor) {
  PlaceKey key{tensor.data_ptr(),      tensor.scalar_type(), tensor.sizes().vec(),
               tensor.strides().vec(), tensor.is_conj(),     tensor.is_neg()};
  const auto [entry, is_new] = places_.emplace(std::move(key), storages_.size());
  if (is_new) storages_.push_back(tensor);
  return entry->second;
}

void TorchPickler::add_tensor(const at::Tensor& tensor, const std::string& path) {
  const ElementType type = savable_type(tensor, path);
  const std::size_t place = place_of(tensor);
  std::vector<std::int64_t> strides(tensor.sizes().size(), 1);
  for (std::size_t d = strides.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<std::int64_t>(tensor.sizes()[d], 1);
  }
  pickle_.add_tensor({place, type, 0, tensor.sizes().vec(), strides}, static_cast<std::uint64_t>(tensor.numel()));
}

void TorchPickler::add(const TorchValue& value, const std::string& path) {
  if (std::holds_alternative<std::monostate>(value.value)) return pickle_.add_none();
  if (const auto* flag = std::get_if<bool>(&value.value)) return pickle_.add_bool(*flag);
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return pickle_.add_integer(*integer);
  if (const auto* real = std::get_if<double>(&value.value)) return pickle_.add_real(*real);
  if (const auto* text = std::get_if<std::string>(&value.value)) return pickle_.add_text(*text);
  if (const auto* tensor = std::get_if<at::Tensor>(&value.value)) return add_tensor(*tensor, path);
  if (const auto* list = std::get_if<TorchList>(&value.value)) {
    pickle_.begin_list();
    for (std::size_t i = 0; i < list->size(); ++i) add((*list)[i], fmt::format("{}[{}]", path, i));
    return pickle_.end_list();
  }
  pickle_.begin_dict();
  for (const auto& [key, entry] : *value.dict()) {
    const auto* name = std::get_if<std::string>(&key);
    const std::string word = name != nullptr ? *name : fmt::format("{}", std::get<std::int64_t>(key));
    name != nullptr ? pickle_.add_text(word) : pickle_.add_integer(std::get<std::int64_t>(key));
    add(entry, path.empty() ? word : path + "." + word);
  }
  pickle_.end_dict();
}

}  // namespace

void write_torch_file(FileSystem& files, const std::filesystem::path& path, const TorchValue& value) {
  TorchPickler pickler;
  pickler.add(value, "");
  ZipWriter zip(files.create(path));
  const std::string root = "archive/";  // torch.save uses this name if it does not write to a path
  zip.add(root + "data.pkl", pickler.finish());
  zip.add(root + "byteorder", "little");
  for (std::size_t i = 0; i < pickler.storages().size(); ++i) {
    const at::Tensor& stored = pickler.storages()[i];
    const at::Tensor tensor = stored.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
    zip.add(fmt::format("{}data/{}", root, i),
            {static_cast<const char*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())});
  }
  zip.add(root + "version", "3\n");
  zip.finish();
}

TorchValue to_torch_value(const StateDict& state) {
  TorchDict dict;
  for (const auto& [name, value] : state) {
    dict.emplace_back(name, std::visit([](const auto& entry) { return TorchValue{entry}; }, value));
  }
  return {std::move(dict)};
}

}  // namespace lockstep
