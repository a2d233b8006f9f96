// The answers that are more than one number, as JSON text.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace probe {

/// An object whose members are numbers.
class JsonObject {
 public:
  JsonObject& add(const char* name, std::int64_t value) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
    return *this;
  }
  JsonObject& add(const char* name, CUresult result) {
    return add(name, static_cast<std::int64_t>(result));
  }
  [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

inline std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return "[" + text + "]";
}

}  // namespace probe
