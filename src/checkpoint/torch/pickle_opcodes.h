// SPDX-License-Identifier: Apache-2.0
// The opcodes of Python's pickle that are read or written here, and the names of opcodes for error messages.
// Source: CPython, Lib/pickle.py.
#pragma once

#include <string>

namespace lockstep::checkpoint {

enum class PickleOpcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kBinPersId = 'Q',
  kReduce = 'R',
  kAppend = 'a',
  kAppends = 'e',
  kBuild = 'b',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8A,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kSetItem = 's',
  kSetItems = 'u',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kFrame = 0x95,
};

/// Returns "GLOBAL", or "opcode 0x69" for one without a name here.
[[nodiscard]] std::string pickle_opcode_name(PickleOpcode opcode);

}  // namespace lockstep::checkpoint
