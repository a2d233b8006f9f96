// Text as JSON, for what cubfc writes for scripts. All of it throws std::bad_alloc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/tell/format.h"

namespace cubfc::json {

// A string in quotation marks. Each byte that is no UTF-8 becomes a question mark.
std::string quoted(std::string_view text);

// An object's fields, one after the other.
class Object {
 public:
  Object& number(const char* name, std::uint64_t value) { return raw(name, std::to_string(value)); }
  Object& text(const char* name, std::string_view value) { return raw(name, quoted(value)); }
  Object& raw(const char* name, const std::string& json) {
    fields_ += format("{}\"{}\": {}", fields_.empty() ? "" : ", ", name, json);
    return *this;
  }
  std::string whole() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

// An array.
std::string list_of(const std::vector<std::string>& entries);

}  // namespace cubfc::json
