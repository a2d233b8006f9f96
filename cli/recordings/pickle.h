// Reads Python's pickles of plain data: None, booleans, integers of 64 bits, floats, text, bytes,
// lists, tuples, sets and dictionaries, protocols 0 to 5. Knows nothing of what they mean. A pickle
// is a program for a stack machine; nothing that would call or import anything is obeyed here. Host
// memory is bounded by a multiple of the file's size: what is referred to twice is there once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/recordings/input.h"

namespace cubfc::recordings {

class Pickle {
 public:
  enum class Type : std::uint8_t {
    kNothing,  // None
    kBool,
    kInteger,   // that an int64 holds
    kUnsigned,  // larger ones that an uint64 holds
    kFloat,
    kText,  // and bytes
    kList,  // and tuples and sets
    kDict,
  };
  struct Value {
    explicit Value(Type its_type = Type::kNothing, std::uint32_t its_index = 0,
                   std::uint64_t its_bits = 0)
        : type(its_type), index(its_index), bits(its_bits) {}

    Type type;
    std::uint32_t index;  // kText, kList, kDict: which one
    std::uint64_t bits;   // kBool, kInteger, kUnsigned, kFloat
  };
  using Entry = std::pair<Value, Value>;

  // A whole pickle; throws BadRecording, with the byte of the opcode. What follows it is not read.
  explicit Pickle(Input& input);

  const Value& root() const { return root_; }
  // Of a value of that type; empty for any other.
  std::string_view text(const Value& value) const {
    return value.type == Type::kText ? std::string_view(texts_[value.index]) : std::string_view();
  }
  const std::vector<Value>& items(const Value& value) const {
    return value.type == Type::kList ? lists_[value.index] : lists_[0];
  }
  const std::vector<Entry>& entries(const Value& value) const {
    return value.type == Type::kDict ? dicts_[value.index] : dicts_[0];
  }
  // What a dictionary has under a name; the last one, if it is there more than once.
  const Value* find(const Value& dict, std::string_view name) const;

 private:
  friend class PickleMachine;  // fills it

  Value root_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Value>> lists_;  // the first one is empty
  std::vector<std::vector<Entry>> dicts_;  // likewise
};

// One that is not negative.
std::optional<std::uint64_t> natural(const Pickle::Value& value);

}  // namespace cubfc::recordings
