// SPDX-License-Identifier: Apache-2.0
// Pickle's stack machine, without the opcodes that call what they like. Its end is a check of the whole value.
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

/// Each step returns false to stop; problem() then says why.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  bool read() {
    while (!done_) {
      opcode_at_ = at_;
      opcode_ = static_cast<PickleOpcode>(take_number(1));
      if (cut_) return stop("the pickle is cut short");
      if (!step()) return false;
      if (cut_) return stop("the pickle is cut short");
      const std::size_t most = std::max({pickle_.nodes.size(), stack_.size(), marks_.size(), memo_.size()});
      if (most > kPickleMostValues) return stop(fmt::format("more than {} values", kPickleMostValues));
    }
    if (at_ != bytes_.size()) return stop("bytes follow the end");
    return true;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Pickle take() { return std::move(pickle_); }

 private:
  bool stop(const std::string& why) {
    problem_ = fmt::format("{} at byte {}: {}", pickle_opcode_name(opcode_), opcode_at_, why);
    return false;
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      cut_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t take_number(std::size_t count) {
    const std::string_view taken = take(count);
    return cut_ ? 0 : from_little_endian(taken, count);
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    const std::string_view line = take(end == bytes_.npos ? bytes_.size() - at_ + 1 : end - at_ + 1);
    return line.substr(0, line.empty() ? 0 : line.size() - 1);
  }

  bool push(PickleNode node) {
    pickle_.nodes.push_back(std::move(node));
    stack_.push_back(static_cast<PickleId>(pickle_.nodes.size() - 1));
    return true;
  }
  bool push_integer(PickleKind kind, std::int64_t value) { return push({kind, value, 0, {}, {}}); }
  bool push_text(std::uint64_t size) { return push({PickleKind::kText, 0, 0, std::string(take(size)), {}}); }
  /// What stands above the last mark; below it nothing is reached.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  [[nodiscard]] bool has(std::size_t count) const { return stack_.size() - floor() >= count; }
  PickleNode& top(std::size_t below = 0) { return pickle_.nodes[stack_[stack_.size() - 1 - below]]; }

  bool step();
  bool step_container();
  bool step_memo();
  bool step_call();
  bool step_other();
  bool collect(PickleKind kind, std::size_t count);
  bool collect_to_mark(PickleKind kind);
  bool append(std::size_t count);
  bool set_items(std::size_t count);
  bool above_mark(bool (PickleReader::*add)(std::size_t));
  bool put(std::uint64_t index);
  bool get(std::uint64_t index);
  bool name(const std::string& full_name);
  bool stack_name();
  bool reduce();
  bool build();
  bool persistent();
  bool long_integer(std::uint64_t size);
  bool finish();
  bool take_result(std::size_t consumed, const Result<PickleId>& result);

  std::string_view bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t opcode_at_ = 0;
  PickleOpcode opcode_ = PickleOpcode::kStop;
  bool cut_ = false;
  bool done_ = false;
  std::string problem_;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleId> memo_;
};

bool PickleReader::step() {
  switch (opcode_) {
    case PickleOpcode::kNone:
      return push({});
    case PickleOpcode::kNewTrue:
      return push_integer(PickleKind::kBool, 1);
    case PickleOpcode::kNewFalse:
      return push_integer(PickleKind::kBool, 0);
    case PickleOpcode::kBinInt:
      return push_integer(PickleKind::kInt, static_cast<std::int32_t>(take_number(4)));
    case PickleOpcode::kBinInt1:
      return push_integer(PickleKind::kInt, static_cast<std::int64_t>(take_number(1)));
    case PickleOpcode::kBinInt2:
      return push_integer(PickleKind::kInt, static_cast<std::int64_t>(take_number(2)));
    case PickleOpcode::kLong1:
      return long_integer(take_number(1));
    case PickleOpcode::kBinFloat:  // the only big-endian number
      return push({PickleKind::kReal, 0, std::bit_cast<double>(__builtin_bswap64(take_number(8))), {}, {}});
    case PickleOpcode::kBinUnicode:
      return push_text(take_number(4));
    case PickleOpcode::kShortBinUnicode:
      return push_text(take_number(1));
    case PickleOpcode::kBinUnicode8:
      return push_text(take_number(8));
    default:
      return step_container();
  }
}

bool PickleReader::step_container() {
  switch (opcode_) {
    case PickleOpcode::kEmptyDict:
      return push({PickleKind::kDict, 0, 0, {}, {}});
    case PickleOpcode::kEmptyList:
      return push({PickleKind::kList, 0, 0, {}, {}});
    case PickleOpcode::kEmptyTuple:
      return push({PickleKind::kTuple, 0, 0, {}, {}});
    case PickleOpcode::kMark:
      marks_.push_back(stack_.size());
      return true;
    case PickleOpcode::kTuple:
      return collect_to_mark(PickleKind::kTuple);
    case PickleOpcode::kTuple1:
      return collect(PickleKind::kTuple, 1);
    case PickleOpcode::kTuple2:
      return collect(PickleKind::kTuple, 2);
    case PickleOpcode::kTuple3:
      return collect(PickleKind::kTuple, 3);
    case PickleOpcode::kAppend:
      return append(1);
    case PickleOpcode::kAppends:
      return above_mark(&PickleReader::append);
    case PickleOpcode::kSetItem:
      return set_items(2);
    case PickleOpcode::kSetItems:
      return above_mark(&PickleReader::set_items);
    default:
      return step_memo();
  }
}

bool PickleReader::step_memo() {
  switch (opcode_) {
    case PickleOpcode::kBinPut:
      return put(take_number(1));
    case PickleOpcode::kLongBinPut:
      return put(take_number(4));
    case PickleOpcode::kMemoize:
      return put(memo_.size());
    case PickleOpcode::kBinGet:
      return get(take_number(1));
    case PickleOpcode::kLongBinGet:
      return get(take_number(4));
    default:
      return step_call();
  }
}

bool PickleReader::step_call() {
  switch (opcode_) {
    case PickleOpcode::kGlobal: {
      const std::string module(take_line());
      return name(module + "." + std::string(take_line()));
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
      const std::uint64_t version = take_number(1);
      if (version >= 2 && version <= 5) return true;
      return cut_ || stop(fmt::format("protocol {}; 2 to 5 are read", version));
    }
    case PickleOpcode::kFrame:
      (void)take_number(8);
      return true;  // a hint for streams: how many bytes to read ahead
    case PickleOpcode::kStop:
      return finish();
    default:
      return stop("not among the opcodes that tensors and plain values need");
  }
}

bool PickleReader::collect(PickleKind kind, std::size_t count) {
  if (!has(count)) return stop("the stack is empty");
  PickleNode node{kind, 0, 0, {}, {stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end()}};
  stack_.resize(stack_.size() - count);
  return push(std::move(node));
}

bool PickleReader::collect_to_mark(PickleKind kind) {
  if (marks_.empty()) return stop("there is no mark");
  const std::size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return collect(kind, count);
}

bool PickleReader::above_mark(bool (PickleReader::*add)(std::size_t)) {
  if (marks_.empty()) return stop("there is no mark");
  const std::size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return (this->*add)(count);
}

bool PickleReader::append(std::size_t count) {
  if (!has(count + 1) || top(count).kind != PickleKind::kList) return stop("it would change what is no list");
  PickleNode& list = top(count);
  list.items.insert(list.items.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return true;
}

bool PickleReader::set_items(std::size_t count) {
  if (count % 2 != 0) return stop("a key without a value");
  if (!has(count + 1) || top(count).kind != PickleKind::kDict) return stop("it would change what is no dict");
  PickleNode& dict = top(count);
  dict.items.insert(dict.items.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return true;
}

bool PickleReader::put(std::uint64_t index) {
  if (!has(1)) return stop("the stack is empty");
  memo_[index] = stack_.back();
  return true;
}

bool PickleReader::get(std::uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) return cut_ || stop(fmt::format("nothing was stored under {}", index));
  stack_.push_back(found->second);
  return true;
}

bool PickleReader::name(const std::string& full_name) {
  const auto known = find_pickle_name(full_name);
  if (!known) {
    return cut_ || stop(fmt::format("the name {} is none that tensors and plain values need; what bears it could run "
                                    "any code",
                                    text::json_quote(full_name)));
  }
  const bool is_dtype = known->name == PickleName::kDType;  // stands for itself
  return push({is_dtype ? PickleKind::kText : PickleKind::kName, 0, 0, full_name, {}});
}

bool PickleReader::stack_name() {
  if (!has(2) || top().kind != PickleKind::kText || top(1).kind != PickleKind::kText) return stop("no name");
  const std::string full_name = top(1).text + "." + top().text;
  stack_.resize(stack_.size() - 2);
  return name(full_name);
}

bool PickleReader::take_result(std::size_t consumed, const Result<PickleId>& result) {
  if (!result) return stop(result.error());
  stack_.resize(stack_.size() - consumed);
  stack_.push_back(*result);
  return true;
}

bool PickleReader::reduce() {
  if (!has(2) || top(1).kind != PickleKind::kName || top().kind != PickleKind::kTuple) {
    return stop("a call of what is no name, or without arguments");
  }
  const auto known = find_pickle_name(top(1).text);
  const PickleNode arguments = top();  // a copy: the call adds nodes
  const auto result = call_pickle_name(pickle_, *known, arguments);
  if (!result) return stop(fmt::format("{}: {}", top(1).text, result.error()));
  return take_result(2, result);
}

/// Only what state_dict() does: attributes of an OrderedDict ("_metadata": versions of modules), which are left out.
bool PickleReader::build() {
  const bool is_ordered = has(2) && top(1).kind == PickleKind::kDict && top(1).integer == kPickleOrdered;
  if (!is_ordered || top().kind != PickleKind::kDict) {
    return stop("it would call __setstate__ or set attributes of what is no OrderedDict");
  }
  stack_.pop_back();
  return true;
}

bool PickleReader::persistent() {
  if (!has(1)) return stop("the stack is empty");
  const PickleNode id = top();
  return take_result(1, load_pickle_storage(pickle_, id));
}

bool PickleReader::long_integer(std::uint64_t size) {
  if (size > 8) return cut_ || stop(fmt::format("an integer of {} bytes; 8 are taken", size));
  const std::string_view digits = take(size);
  if (cut_ || size == 0) return push_integer(PickleKind::kInt, 0);
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
  const std::uint64_t value = from_little_endian(digits, size) << unused;
  return push_integer(PickleKind::kInt, static_cast<std::int64_t>(value) >> unused);
}

bool PickleReader::finish() {
  if (stack_.size() != 1 || !marks_.empty()) return stop("the stack does not hold exactly one value");
  pickle_.root = stack_.front();
  done_ = true;
  return true;
}

}  // namespace

Result<Pickle> parse_pickle(std::string_view bytes) {
  if (bytes.size() > kPickleMostBytes) return Failure{fmt::format("a pickle of {} bytes", bytes.size())};
  PickleReader reader(bytes);
  if (!reader.read()) return Failure{reader.problem()};
  Pickle pickle = reader.take();
  if (const std::string problem = check_pickle_tree(pickle); !problem.empty()) return Failure{problem};
  return pickle;
}

}  // namespace lockstep::checkpoint
