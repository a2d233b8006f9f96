// Reads fields of the dictionaries in a snapshot's pickle, and checks them. A message names the
// path of a field, as Python would write it: "['segments'][3]['size'] is not there". Does not know
// which fields there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/input.h"
#include "cli/recordings/pickle.h"

namespace cubfc::recordings {

// Whatever is wrong throws BadRecording. `path`, where a function takes it, is a function that
// returns the path of the value: a path is put together only when something is wrong.
class SnapshotFields {
 public:
  using Value = Pickle::Value;

  // `pickle` was read from `input`, up to the pickle's end. Both must outlive the object.
  SnapshotFields(const Input& input, const Pickle& pickle) : input_(input), pickle_(pickle) {}

  [[noreturn]] void fail(const std::string& text) const;
  static std::string at(const std::string& path, std::size_t index) {
    return path + "[" + std::to_string(index) + "]";
  }

  // The field of that name; NULL when there is none.
  const Value* find(const Value& dict, std::string_view name) const;
  // Empty for a field that is no text or not there.
  std::string_view text_or_nothing(const Value& dict, std::string_view name) const;
  // `otherwise` for a field that is no natural number or not there.
  std::uint64_t number_or(const Value& dict, std::string_view name, std::uint64_t otherwise) const;
  bool is_true(const Value& dict, std::string_view name) const;
  // The items of a list; none for a value that is no list.
  const std::vector<Value>& items(const Value& value) const { return pickle_.items(value); }

  // From here on, a value that is of another type, or not there, throws BadRecording.
  template <typename Path>
  const std::vector<Value>& list(const Value* value, Path path) const {
    if (value == nullptr || value->type != Pickle::Type::kList) {
      fail(path() + " is no list");
    }
    return pickle_.items(*value);
  }
  // Must be called for each block and each event. Lists may refer to one dictionary many times, so
  // a small file could mean very many blocks: no more than the file has bytes are accepted.
  template <typename Path>
  void check_dict(const Value& value, Path path) {
    if (value.type != Pickle::Type::kDict) {
      fail(path() + " is no dictionary");
    }
    if (++dicts_ > input_.offset()) {
      fail(path() + ": there are more blocks and events than a file of this size can say");
    }
  }
  template <typename Path>
  std::string_view text(const Value& dict, const char* name, Path path) const {
    const Value* const value = find(dict, name);
    if (value == nullptr || value->type != Pickle::Type::kText) {
      fail(path() + "['" + name + "'] is no text");
    }
    return pickle_.text(*value);
  }
  template <typename Path>
  std::uint64_t number(const Value& dict, const char* name, Path path) const {
    const Value* const value = find(dict, name);
    const auto read = value == nullptr ? std::nullopt : natural(*value);
    if (!read) {
      fail(path() + "['" + name + "'] is " +
           (value == nullptr ? "not there" : "no number of 64 bits"));
    }
    return *read;
  }
  // The size of something at `address`, which must not go beyond the last address.
  template <typename Path>
  std::uint64_t size(const Value& dict, const char* name, std::uint64_t address, Path path) const {
    const std::uint64_t bytes = number(dict, name, path);
    if (bytes > ~std::uint64_t{0} - address) {
      fail(path() + "['" + name + "'] goes beyond the last address");
    }
    return bytes;
  }

 private:
  const Input& input_;
  const Pickle& pickle_;
  std::uint64_t dicts_ = 0;  // how many were checked
};

}  // namespace cubfc::recordings
