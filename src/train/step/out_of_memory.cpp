// SPDX-License-Identifier: Apache-2.0
#include "train/step/out_of_memory.h"

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/zero.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kNamed = 5;

std::string bytes_text(std::int64_t bytes) { return text::bytes(static_cast<std::uint64_t>(bytes)); }

void add(std::vector<Holder>& found, const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_sparse()) found.push_back({name, static_cast<std::int64_t>(tensor.nbytes())});
}

void add_state(std::vector<Holder>& found, const Optimizer& optimizer) {
  const auto* sharded = dynamic_cast<const ZeroRedundancyOptimizer*>(&optimizer);
  const StateDict state = sharded == nullptr ? optimizer.state_dict() : sharded->local().state_dict();
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) add(found, name + " (optimizer)", *tensor);
  }
}

void largest_first(std::vector<Holder>& found) {
  std::stable_sort(found.begin(), found.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
}

/// Returns the advice for the message.
std::string advice(const OutOfMemory& facts) {
  if (facts.setting_up) {
    return "no batch has been computed yet, so a smaller one would not help: `lockstep inspect gpu` and `free -h` show "
           "which programs hold memory; optimizer.zero=true on several processes, ema.decay=0 or a smaller model uses "
           "less";
  }
  if (facts.batch_size <= 1) return "use amp=bf16, optimizer.zero=true on several processes, or a smaller model";
  // Rounds up, so that the step does not lose a sample.
  const std::int64_t half = (facts.batch_size + 1) / 2;
  return fmt::format("{} {}: the same number of samples per step, in smaller parts",
                     setting_words(fmt::format("batch_size={}", half)),
                     setting_words(fmt::format("accumulate_steps={}", facts.accumulate_steps * 2)));
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  // The CPU allocator has no error type of its own, and neither do CUDA, cuBLAS and cuDNN for their allocations.
  static constexpr std::array<std::string_view, 4> kWords = {"can't allocate memory", "CUDA error: out of memory",
                                                             "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"};
  const std::string_view message = error.what();
  return dynamic_cast<const c10::Error*>(&error) != nullptr &&
         std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view words) { return message.find(words) != message.npos; });
}

std::vector<Holder> holders(const torch::nn::Module& net, const Optimizer& optimizer) {
  std::vector<Holder> found;
  for (const auto& item : net.named_parameters()) {
    add(found, item.key() + " (weight)", item.value());
    add(found, item.key() + " (gradient)", item.value().grad());
  }
  for (const auto& item : net.named_buffers()) add(found, item.key() + " (buffer)", item.value());
  add_state(found, optimizer);
  largest_first(found);
  return found;
}

MemoryUse most_memory_used(const Job& job) {
  const MemoryUse own = memory_use(job.device());
  const at::Tensor most = at::tensor({own.peak, own.reserved.value_or(0)}, at::kLong);
  job.group().all_reduce(most, {.op = ReduceOp::kMax}).wait();
  MemoryUse use{.peak = most[0].item<std::int64_t>()};
  if (own.reserved) use.reserved = most[1].item<std::int64_t>();
  return use;
}

ResourceError out_of_memory_error(OutOfMemory facts) {
  largest_first(facts.largest);
  std::vector<std::string> named;
  std::int64_t sum = 0;
  for (const Holder& holder : facts.largest) {
    if (named.size() < kNamed) named.push_back(fmt::format("{} {}", holder.name, bytes_text(holder.bytes)));
    sum += holder.bytes;
  }
  const std::string batch = facts.batch_size > 0 ? fmt::format(" (batch_size {})", facts.batch_size) : "";
  std::string message = fmt::format("out of memory in {}{}: {}\n  peak      {}", facts.when, batch,
                                    text::first_line(facts.cause), bytes_text(facts.use.peak));
  if (facts.use.reserved) message += fmt::format(" in tensors, {} reserved", bytes_text(*facts.use.reserved));
  if (!named.empty()) message += fmt::format("\n  largest   {}\n  together  {}", text::join(named), bytes_text(sum));
  return ResourceError(message, advice(facts));
}

}  // namespace lockstep::train
