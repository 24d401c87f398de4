// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/pickle_opcodes.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace lockstep::checkpoint {
namespace {

struct OpcodeName {
  unsigned char opcode;
  std::string_view name;
};

// The names of the opcodes that are read here, and of other opcodes for error messages.
constexpr std::array<OpcodeName, 53> kOpcodeNames{{
    {'(', "MARK"},
    {'.', "STOP"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'a', "APPEND"},
    {'e', "APPENDS"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {0x93, "STACK_GLOBAL"},
    {'N', "NONE"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'M', "BININT2"},
    {0x8A, "LONG1"},
    {'G', "BINFLOAT"},
    {'X', "BINUNICODE"},
    {0x8C, "SHORT_BINUNICODE"},
    {0x8D, "BINUNICODE8"},
    {'}', "EMPTY_DICT"},
    {']', "EMPTY_LIST"},
    {')', "EMPTY_TUPLE"},
    {'t', "TUPLE"},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {'s', "SETITEM"},
    {'u', "SETITEMS"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {0x94, "MEMOIZE"},
    {'h', "BINGET"},
    {'j', "LONG_BINGET"},
    {0x80, "PROTO"},
    {0x95, "FRAME"},
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {0x8B, "LONG4"},
    {0x8F, "EMPTY_SET"},
    {'0', "POP"},
    {'2', "DUP"},
    {'p', "PUT"},
}};

}  // namespace

std::string pickle_opcode_name(PickleOpcode opcode) {
  for (const OpcodeName& row : kOpcodeNames) {
    if (row.opcode == static_cast<unsigned char>(opcode)) return std::string(row.name);
  }
  return fmt::format("opcode 0x{:02x}", static_cast<unsigned>(opcode));
}

}  // namespace lockstep::checkpoint
