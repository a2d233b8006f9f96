// Reads Python's pickles of plain data: None, booleans, integers of 64 bits, floats, text, bytes,
// lists, tuples, sets and dictionaries, protocols 0 to 5. Knows nothing of what the data mean. A
// pickle is a program for a stack machine; an opcode that would call or import something is
// refused. The host memory taken is at most a constant times the file's size, because an object
// that is referred to twice is kept once.
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

  // Reads one pickle; `input` is then at the byte after the pickle's end. Throws BadRecording,
  // which names the byte of the opcode.
  explicit Pickle(Input& input);

  const Value& root() const { return root_; }
  // What a value of kText, kList or kDict holds; empty for a value of another type.
  std::string_view text(const Value& value) const {
    return value.type == Type::kText ? std::string_view(texts_[value.index]) : std::string_view();
  }
  const std::vector<Value>& items(const Value& value) const {
    return value.type == Type::kList ? lists_[value.index] : lists_[0];
  }
  const std::vector<Entry>& entries(const Value& value) const {
    return value.type == Type::kDict ? dicts_[value.index] : dicts_[0];
  }
  // The value that a dictionary has under a name: the last one, if the name is there more than
  // once; NULL if it is not there.
  const Value* find(const Value& dict, std::string_view name) const;

 private:
  friend class PickleMachine;  // fills it

  Value root_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Value>> lists_;  // the first one is empty
  std::vector<std::vector<Entry>> dicts_;  // likewise
};

// The value, if it is an integer that is not negative.
std::optional<std::uint64_t> natural(const Pickle::Value& value);

}  // namespace cubfc::recordings
