// SPDX-License-Identifier: Apache-2.0
// Runs pickle's stack machine, without the opcodes that call arbitrary code, and finally checks the whole value.
#include "checkpoint/torch/pickle_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "checkpoint/formats/little_endian.h"
#include "checkpoint/torch/pickle_names.h"
#include "checkpoint/torch/pickle_opcodes.h"
#include "checkpoint/torch/pickle_tree.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

/// The bytes of the pickle that have not been read.
class PickleBytes {
 public:
  explicit PickleBytes(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] bool is_at_end() const { return at_ == bytes_.size(); }
  /// Returns true if more bytes were requested than exist; their values are then undefined.
  [[nodiscard]] bool is_cut() const { return cut_; }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      cut_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t number(std::size_t count) {
    const std::string_view taken = take(count);
    return cut_ ? 0 : from_little_endian(taken, count);
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    const std::string_view taken = take(end == bytes_.npos ? bytes_.size() - at_ + 1 : end - at_ + 1);
    return taken.substr(0, taken.empty() ? 0 : taken.size() - 1);
  }

 private:
  std::string_view bytes_;
  std::uint64_t at_ = 0;
  bool cut_ = false;
};

/// The machine's stack, marks and memo, and the tree that it builds. Functions that can fail return the reason, or "".
class PickleStack {
 public:
  void push(PickleNode node) {
    pickle_.nodes.push_back(std::move(node));
    stack_.push_back(static_cast<PickleId>(pickle_.nodes.size() - 1));
  }
  /// Replaces the `count` topmost values with a node of the tree.
  void replace(std::size_t count, PickleId id) {
    stack_.resize(stack_.size() - count);
    stack_.push_back(id);
  }
  void pop(std::size_t count) { stack_.resize(stack_.size() - count); }
  /// Returns true if at least `count` values are above the last mark; values below it are not accessible.
  [[nodiscard]] bool has(std::size_t count) const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back()) >= count;
  }
  [[nodiscard]] PickleNode& top(std::size_t below = 0) { return pickle_.nodes[stack_[stack_.size() - 1 - below]]; }
  [[nodiscard]] Pickle& tree() { return pickle_; }
  [[nodiscard]] std::size_t largest() const {
    return std::max({pickle_.nodes.size(), stack_.size(), marks_.size(), memo_.size()});
  }

  void mark() { marks_.push_back(stack_.size()); }
  /// Removes the last mark and returns the number of values above it; none without a mark.
  [[nodiscard]] std::optional<std::size_t> take_mark() {
    if (marks_.empty()) return std::nullopt;
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }
  /// Turns the `count` topmost values into one node.
  [[nodiscard]] std::string collect(PickleKind kind, std::size_t count) {
    if (!has(count)) return "the stack is empty";
    PickleNode node{kind, 0, 0, {}, {stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end()}};
    pop(count);
    push(std::move(node));
    return "";
  }
  /// Moves the `count` topmost values into the list or dict below them.
  [[nodiscard]] std::string add(PickleKind kind, std::size_t count) {
    const bool is_dict = kind == PickleKind::kDict;
    if (is_dict && count % 2 != 0) return "a key without a value";
    if (!has(count + 1) || top(count).kind != kind) {
      return is_dict ? "it would change something other than a dict" : "it would change something other than a list";
    }
    PickleNode& container = top(count);
    container.items.insert(container.items.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    pop(count);
    return "";
  }

  [[nodiscard]] std::size_t memo_size() const { return memo_.size(); }
  [[nodiscard]] std::string put(std::uint64_t index) {
    if (!has(1)) return "the stack is empty";
    memo_[index] = stack_.back();
    return "";
  }
  [[nodiscard]] std::string get(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return fmt::format("nothing was stored under {}", index);
    stack_.push_back(found->second);
    return "";
  }
  [[nodiscard]] std::string finish() {
    if (stack_.size() != 1 || !marks_.empty()) return "the stack does not hold exactly one value";
    pickle_.root = stack_.front();
    return "";
  }

 private:
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleId> memo_;
};

/// Reads the opcodes. Each function returns false to stop; problem_ then has the reason.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickle> read() {
    while (!done_) {
      opcode_at_ = bytes_.at();
      opcode_ = static_cast<PickleOpcode>(bytes_.number(1));
      if (!bytes_.is_cut() && !step()) return Failure{problem_};
      if (bytes_.is_cut()) (void)stop("the pickle is cut short");
      if (stack_.largest() > kPickleMostValues) (void)stop(fmt::format("more than {} values", kPickleMostValues));
      if (!problem_.empty()) return Failure{problem_};
    }
    if (!bytes_.is_at_end() && !stop("bytes follow the end")) return Failure{problem_};
    return std::move(stack_.tree());
  }

 private:
  bool stop(const std::string& why) {
    if (problem_.empty()) problem_ = fmt::format("{} at byte {}: {}", pickle_opcode_name(opcode_), opcode_at_, why);
    return false;
  }
  /// Stops with the reason `why` unless it is "". Errors caused by missing bytes are not reported separately.
  bool check(const std::string& why) { return why.empty() || bytes_.is_cut() || stop(why); }
  bool push(PickleNode node) {
    stack_.push(std::move(node));
    return true;
  }

  bool step();
  bool step_container();
  bool step_memo();
  bool step_call();
  bool step_other();
  bool name(const std::string& full_name);
  bool stack_name();
  bool reduce();
  bool build();
  bool persistent();
  bool long_integer(std::uint64_t size);

  PickleBytes bytes_;
  PickleStack stack_;
  std::uint64_t opcode_at_ = 0;
  PickleOpcode opcode_ = PickleOpcode::kStop;
  bool done_ = false;
  std::string problem_;
};

bool PickleReader::step() {
  switch (opcode_) {
    case PickleOpcode::kNone:
      return push({});
    case PickleOpcode::kNewTrue:
      return push({PickleKind::kBool, 1, 0, {}, {}});
    case PickleOpcode::kNewFalse:
      return push({PickleKind::kBool, 0, 0, {}, {}});
    case PickleOpcode::kBinInt:
      return push({PickleKind::kInt, static_cast<std::int32_t>(bytes_.number(4)), 0, {}, {}});
    case PickleOpcode::kBinInt1:
      return push({PickleKind::kInt, static_cast<std::int64_t>(bytes_.number(1)), 0, {}, {}});
    case PickleOpcode::kBinInt2:
      return push({PickleKind::kInt, static_cast<std::int64_t>(bytes_.number(2)), 0, {}, {}});
    case PickleOpcode::kLong1:
      return long_integer(bytes_.number(1));
    case PickleOpcode::kBinFloat:  // the only big-endian number
      return push({PickleKind::kReal, 0, std::bit_cast<double>(__builtin_bswap64(bytes_.number(8))), {}, {}});
    case PickleOpcode::kBinUnicode:
      return push({PickleKind::kText, 0, 0, std::string(bytes_.take(bytes_.number(4))), {}});
    case PickleOpcode::kShortBinUnicode:
      return push({PickleKind::kText, 0, 0, std::string(bytes_.take(bytes_.number(1))), {}});
    case PickleOpcode::kBinUnicode8:
      return push({PickleKind::kText, 0, 0, std::string(bytes_.take(bytes_.number(8))), {}});
    default:
      return step_container();
  }
}

bool PickleReader::step_container() {
  const auto with_mark = [this](auto&& use) {
    const std::optional<std::size_t> count = stack_.take_mark();
    return count ? check(use(*count)) : stop("there is no mark");
  };
  switch (opcode_) {
    case PickleOpcode::kEmptyDict:
      return push({PickleKind::kDict, 0, 0, {}, {}});
    case PickleOpcode::kEmptyList:
      return push({PickleKind::kList, 0, 0, {}, {}});
    case PickleOpcode::kEmptyTuple:
      return push({PickleKind::kTuple, 0, 0, {}, {}});
    case PickleOpcode::kMark:
      stack_.mark();
      return true;
    case PickleOpcode::kTuple:
      return with_mark([this](std::size_t count) { return stack_.collect(PickleKind::kTuple, count); });
    case PickleOpcode::kTuple1:
      return check(stack_.collect(PickleKind::kTuple, 1));
    case PickleOpcode::kTuple2:
      return check(stack_.collect(PickleKind::kTuple, 2));
    case PickleOpcode::kTuple3:
      return check(stack_.collect(PickleKind::kTuple, 3));
    case PickleOpcode::kAppend:
      return check(stack_.add(PickleKind::kList, 1));
    case PickleOpcode::kAppends:
      return with_mark([this](std::size_t count) { return stack_.add(PickleKind::kList, count); });
    case PickleOpcode::kSetItem:
      return check(stack_.add(PickleKind::kDict, 2));
    case PickleOpcode::kSetItems:
      return with_mark([this](std::size_t count) { return stack_.add(PickleKind::kDict, count); });
    default:
      return step_memo();
  }
}

bool PickleReader::step_memo() {
  switch (opcode_) {
    case PickleOpcode::kBinPut:
      return check(stack_.put(bytes_.number(1)));
    case PickleOpcode::kLongBinPut:
      return check(stack_.put(bytes_.number(4)));
    case PickleOpcode::kMemoize:
      return check(stack_.put(stack_.memo_size()));
    case PickleOpcode::kBinGet:
      return check(stack_.get(bytes_.number(1)));
    case PickleOpcode::kLongBinGet:
      return check(stack_.get(bytes_.number(4)));
    default:
      return step_call();
  }
}

bool PickleReader::step_call() {
  switch (opcode_) {
    case PickleOpcode::kGlobal: {
      const std::string module(bytes_.line());
      return name(module + "." + std::string(bytes_.line()));
    }
    case PickleOpcode::kStackGlobal:
      return stack_name();
    case PickleOpcode::kReduce:
      return reduce();
    case PickleOpcode::kBuild:
      return build();
    case PickleOpcode::kBinPersId:
      return persistent();
    default:
      return step_other();
  }
}

bool PickleReader::step_other() {
  switch (opcode_) {
    case PickleOpcode::kProto: {
      const std::uint64_t version = bytes_.number(1);
      if (version >= 2 && version <= 5) return true;
      return bytes_.is_cut() || stop(fmt::format("protocol {}; only 2 to 5 are supported", version));
    }
    case PickleOpcode::kFrame:
      (void)bytes_.number(8);
      return true;  // a hint for streams: the number of bytes to read ahead
    case PickleOpcode::kStop:
      done_ = true;
      return check(stack_.finish());
    default:
      return stop("not among the opcodes that tensors and plain values need");
  }
}

bool PickleReader::name(const std::string& full_name) {
  const auto known = find_pickle_name(full_name);
  if (!known) {
    return bytes_.is_cut() ||
           stop(fmt::format(
               "tensors and plain values do not need the name {}; an object of that name could run any code",
               text::json_quote(full_name)));
  }
  const bool is_dtype = known->name == PickleName::kDType;  // a dtype is pushed as its name
  return push({is_dtype ? PickleKind::kText : PickleKind::kName, 0, 0, full_name, {}});
}

bool PickleReader::stack_name() {
  if (!stack_.has(2) || stack_.top().kind != PickleKind::kText || stack_.top(1).kind != PickleKind::kText)
    return stop("no name");
  const std::string full_name = stack_.top(1).text + "." + stack_.top().text;
  stack_.pop(2);
  return name(full_name);
}

bool PickleReader::reduce() {
  if (!stack_.has(2) || stack_.top(1).kind != PickleKind::kName || stack_.top().kind != PickleKind::kTuple) {
    return stop("a call of something other than a name, or without arguments");
  }
  const auto known = find_pickle_name(stack_.top(1).text);
  const PickleNode arguments = stack_.top();  // a copy, because the call adds nodes
  const auto result = call_pickle_name(stack_.tree(), *known, arguments);
  if (!result) return stop(fmt::format("{}: {}", stack_.top(1).text, result.error()));
  stack_.replace(2, *result);
  return true;
}

/// Reads BUILD. In a state_dict() it sets attributes of an OrderedDict ("_metadata", the versions of modules). The
/// attributes are dropped.
bool PickleReader::build() {
  const bool is_ordered =
      stack_.has(2) && stack_.top(1).kind == PickleKind::kDict && stack_.top(1).integer == kPickleOrdered;
  if (!is_ordered || stack_.top().kind != PickleKind::kDict) {
    return stop("it would call __setstate__ or set attributes of something other than an OrderedDict");
  }
  stack_.pop(1);
  return true;
}

bool PickleReader::persistent() {
  if (!stack_.has(1)) return stop("the stack is empty");
  const PickleNode id = stack_.top();
  const auto storage = load_pickle_storage(stack_.tree(), id);
  if (!storage) return stop(storage.error());
  stack_.replace(1, *storage);
  return true;
}

bool PickleReader::long_integer(std::uint64_t size) {
  if (size > 8) return bytes_.is_cut() || stop(fmt::format("an integer of {} bytes; the limit is 8", size));
  const std::string_view digits = bytes_.take(size);
  if (bytes_.is_cut() || size == 0) return push({PickleKind::kInt, 0, 0, {}, {}});
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
  const std::uint64_t value = from_little_endian(digits, size) << unused;
  return push({PickleKind::kInt, static_cast<std::int64_t>(value) >> unused, 0, {}, {}});
}

}  // namespace

Result<Pickle> parse_pickle(std::string_view bytes) {
  if (bytes.size() > kPickleMostBytes) return Failure{fmt::format("a pickle of {} bytes", bytes.size())};
  Result<Pickle> pickle = PickleReader(bytes).read();
  if (!pickle) return pickle;
  if (const std::string problem = check_pickle_tree(*pickle); !problem.empty()) return Failure{problem};
  return pickle;
}

}  // namespace lockstep::checkpoint
