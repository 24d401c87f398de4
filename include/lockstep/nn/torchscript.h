// SPDX-License-Identifier: Apache-2.0
// Exports a trained network to TorchScript: an archive that Python's torch.jit.load() and C++'s torch::jit::load() run
// without this library.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace torch::nn {
class Module;  // torch/nn/module.h takes 6 s to compile; code that has a network includes it already
}

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Computes results from arguments: a network, or a runtime that has loaded it.
using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& arguments)>;

/// A network as a function of tensors, for programs that know neither its class nor this library.
struct NetworkFunction {
  /// Names of the arguments. The first dimension of each is the batch; the sizes of the others are fixed.
  std::vector<std::string> inputs;
  /// Names of the results. The exported function returns a single result as a tensor, several results as a tuple.
  std::vector<std::string> outputs;
  /// Creates arguments for a batch of this size, with values that are typical for the network.
  std::function<std::vector<at::Tensor>(std::int64_t batch)> example;
  /// Computes the results. A tracer records the operators that it runs, so everything it computes other than tensors
  /// must be the same for all arguments, except for the size of the batch.
  TensorFunction run;
  /// The meanings of the numbers in a result, such as classes by label; may be empty.
  std::vector<std::string> names = {};
  /// True if the order of the rows along the results' second dimension has no meaning, but row i of every result
  /// belongs to the same item, such as a detector's query.
  bool is_set = false;
  /// JSON that says how a web page turns an image into the first argument, and what kind of output the results are
  /// (docs/design/export.md, "In a browser"); empty: a page cannot show the network.
  std::string page = {};
};

/// Traces the function and returns a TorchScript archive.
///
/// The archive's module has one method, forward(). It takes batches of any size. The parameters and buffers of `model`
/// that the function uses become the module's parameters and buffers, under the same names; tensors that are neither,
/// such as tables of positions, are buffers called constant_0 and so on. So state_dict(), to() and half() include all
/// of them; parameters do not require gradients. `texts` are files in the archive, by name (`_extra_files` of
/// torch.jit.load), and so is network.json: {"inputs": [{"name": "images", "shape": [null, 3, 320, 320], "dtype":
/// "float32"}], "outputs": ..., "names": [...]}, with null for the size of the batch.
///
/// Before returning, it loads the archive and compares it with the function, on other arguments and batch sizes.
/// `model` must be in evaluation mode.
/// Throws: UsageError if the function depends on the batch in a way that cannot be recorded, or if the results differ.
[[nodiscard]] std::string to_torchscript(torch::nn::Module& model, const NetworkFunction& function,
                                         const std::map<std::string, std::string>& texts = {});

}  // namespace lockstep::nn

#pragma GCC visibility pop
