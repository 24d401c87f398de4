// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/pickle_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "checkpoint/formats/scalar_json.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

/// The size of the tree below a value, including the value.
struct TreeSize {
  std::uint64_t values = 1;
  std::uint64_t text_bytes = 0;
  int height = 1;
  bool known = false;
  bool open = false;  ///< being measured; if it is reached again, there is a cycle
};

class TreeMeter {
 public:
  explicit TreeMeter(const Pickle& pickle) : pickle_(pickle), sizes_(pickle.nodes.size()) {}

  bool measure(PickleId id, int depth);
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  bool stop(std::string why) {
    problem_ = std::move(why);
    return false;
  }
  bool check_keys(const PickleNode& dict);

  const Pickle& pickle_;
  std::vector<TreeSize> sizes_;
  std::string problem_;
};

bool TreeMeter::check_keys(const PickleNode& dict) {
  std::set<std::string_view> texts;
  std::set<std::int64_t> numbers;
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleNode& key = pickle_.nodes[dict.items[i]];
    if (key.kind == PickleKind::kText) {
      if (!quote_json(key.text)) return stop(fmt::format("key {} is not UTF-8", text::json_quote(key.text)));
      if (!texts.insert(key.text).second) return stop(fmt::format("key {} occurs twice", text::json_quote(key.text)));
    } else if (key.kind == PickleKind::kInt) {
      if (!numbers.insert(key.integer).second) return stop(fmt::format("key {} occurs twice", key.integer));
    } else {
      return stop("a dict has a key that is neither a string nor an integer");
    }
  }
  return true;
}

bool TreeMeter::measure(PickleId id, int depth) {
  const PickleNode& node = pickle_.nodes[id];
  TreeSize& size = sizes_[id];
  if (size.known) return true;
  if (size.open) return stop("a value that contains itself");
  if (depth > kPickleMostDepth) return stop(fmt::format("values nested more than {} deep", kPickleMostDepth));
  if (node.kind == PickleKind::kStorage) return stop("a storage that is not a tensor");
  if (node.kind == PickleKind::kName) return stop(fmt::format("{} as a value", node.text));
  size.open = true;
  size.text_bytes = node.text.size();
  for (const PickleId item : node.items) {
    if (!measure(item, depth + 1)) return false;
    size.values += sizes_[item].values;
    size.text_bytes += sizes_[item].text_bytes;
    size.height = std::max(size.height, 1 + sizes_[item].height);
    if (size.values > kPickleMostValues) return stop(fmt::format("more than {} values", kPickleMostValues));
    if (size.text_bytes > kPickleMostTextBytes) return stop(fmt::format("strings of {} bytes", size.text_bytes));
    if (size.height > kPickleMostDepth) return stop(fmt::format("values nested more than {} deep", kPickleMostDepth));
  }
  size.open = false;
  size.known = true;
  return node.kind != PickleKind::kDict || check_keys(node);
}

}  // namespace

std::string check_pickle_tree(const Pickle& pickle) {
  TreeMeter meter(pickle);
  return meter.measure(pickle.root, 1) ? "" : meter.problem();
}

}  // namespace lockstep::checkpoint
