#include "cli/recordings/pytorch_snapshot/fields.h"

namespace cubfc::recordings {

void SnapshotFields::fail(const std::string& text) const {
  throw BadRecording(input_.name() + ": " + text);
}

const Pickle::Value* SnapshotFields::find(const Value& dict, std::string_view name) const {
  constexpr std::size_t kMostNames = 64;  // in a dictionary of a snapshot
  if (pickle_.entries(dict).size() > kMostNames) {
    fail("a dictionary has more than 64 entries where ['" + std::string(name) + "'] is expected");
  }
  return pickle_.find(dict, name);
}

std::string_view SnapshotFields::text_or_nothing(const Value& dict, std::string_view name) const {
  const Value* const value = find(dict, name);
  return value == nullptr ? std::string_view() : pickle_.text(*value);
}

std::uint64_t SnapshotFields::number_or(const Value& dict, std::string_view name,
                                        std::uint64_t otherwise) const {
  const Value* const value = find(dict, name);
  return value == nullptr ? otherwise : natural(*value).value_or(otherwise);
}

bool SnapshotFields::is_true(const Value& dict, std::string_view name) const {
  const Value* const value = find(dict, name);
  return value != nullptr && value->type == Pickle::Type::kBool && value->bits != 0;
}

}  // namespace cubfc::recordings
