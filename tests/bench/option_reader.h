// Walks over a command line, option by option. Knows words, not what they mean.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace cubfc::bench {

// Takes "--name VALUE" and "--name=VALUE"; a word that is no option is a name, too.
class OptionReader {
 public:
  OptionReader(int count, const char* const* values) : count_(count), values_(values) {}

  bool next() {
    if (++at_ >= count_) {
      return false;
    }
    name_ = values_[at_];
    inline_value_.reset();
    const std::size_t equals = name_.find('=');
    if (name_.starts_with("--") && equals != std::string_view::npos) {
      inline_value_ = name_.substr(equals + 1);
      name_ = name_.substr(0, equals);
    }
    return true;
  }
  std::string_view name() const { return name_; }
  bool has_inline_value() const { return inline_value_.has_value(); }
  std::optional<std::string_view> value() {
    if (inline_value_) {
      return inline_value_;
    }
    return at_ + 1 < count_ ? std::optional<std::string_view>(values_[++at_]) : std::nullopt;
  }

 private:
  int count_;
  const char* const* values_;
  int at_ = 0;
  std::string_view name_;
  std::optional<std::string_view> inline_value_;
};

}  // namespace cubfc::bench
