#include "cli/recordings/pickle.h"

#include "cli/recordings/pickle/opcodes.h"

namespace cubfc::recordings {

Pickle::Pickle(Input& input) {
  obey_opcodes(input, *this);
}

const Pickle::Value* Pickle::find(const Value& dict, std::string_view name) const {
  const std::vector<Entry>& all = entries(dict);
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    if (entry->first.type == Type::kText && texts_[entry->first.index] == name) {
      return &entry->second;
    }
  }
  return nullptr;
}

std::optional<std::uint64_t> natural(const Pickle::Value& value) {
  if (value.type == Pickle::Type::kUnsigned ||
      (value.type == Pickle::Type::kInteger && static_cast<std::int64_t>(value.bits) >= 0)) {
    return value.bits;
  }
  return std::nullopt;
}

}  // namespace cubfc::recordings
