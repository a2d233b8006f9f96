#include "cli/recordings/pickle.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

namespace cubfc::recordings {
namespace {

// Of text in a line of its own (protocols 0 and 1).
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::uint64_t kMostObjects = std::numeric_limits<std::uint32_t>::max();

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// The number that `digits` hexadecimal digits at the beginning are.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t digits) {
  std::uint32_t value = 0;
  const char* const end = text.data() + digits;
  if (text.size() < digits) {
    return std::nullopt;
  }
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Python's "raw-unicode-escape": Latin-1, and \uXXXX and \UXXXXXXXX.
std::optional<std::string> unescaped_unicode(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t digits = line.starts_with("\\u") ? 4 : line.starts_with("\\U") ? 8 : 0;
    if (digits == 0) {
      append_utf8(text, static_cast<unsigned char>(line[0]));
      line.remove_prefix(1);
      continue;
    }
    const auto code = hexadecimal(line.substr(2), digits);
    if (!code || *code > 0x10ffff) {
      return std::nullopt;
    }
    append_utf8(text, *code);
    line.remove_prefix(2 + digits);
  }
  return text;
}

// A string as Python 2 writes it in its source, with its quotes.
std::optional<std::string> unquoted(std::string_view line) {
  if (line.size() < 2 || (line[0] != '\'' && line[0] != '"') || line.back() != line[0]) {
    return std::nullopt;
  }
  line = line.substr(1, line.size() - 2);
  std::string text;
  while (!line.empty()) {
    const char first = line[0];
    line.remove_prefix(1);
    if (first != '\\') {
      text += first;
      continue;
    }
    constexpr std::string_view kLetters = "\\'\"ntrabfv";
    constexpr std::string_view kMeanings = "\\'\"\n\t\r\a\b\f\v";
    const std::size_t letter = line.empty() ? kLetters.npos : kLetters.find(line[0]);
    if (letter != kLetters.npos) {
      text += kMeanings[letter];
      line.remove_prefix(1);
    } else if (const auto code = hexadecimal(line.substr(line.empty() ? 0 : 1), 2);
               code && line[0] == 'x') {
      text += static_cast<char>(*code);
      line.remove_prefix(3);
    } else {
      return std::nullopt;
    }
  }
  return text;
}

struct OpcodeName {
  unsigned char opcode;
  const char* name;
};
// What would call, import or look up something; pickletools' names.
constexpr std::array kForbidden{
    OpcodeName{'c', "GLOBAL"},        OpcodeName{'i', "INST"},
    OpcodeName{'o', "OBJ"},           OpcodeName{'b', "BUILD"},
    OpcodeName{'R', "REDUCE"},        OpcodeName{'P', "PERSID"},
    OpcodeName{'Q', "BINPERSID"},     OpcodeName{0x81, "NEWOBJ"},
    OpcodeName{0x82, "EXT1"},         OpcodeName{0x83, "EXT2"},
    OpcodeName{0x84, "EXT4"},         OpcodeName{0x92, "NEWOBJ_EX"},
    OpcodeName{0x93, "STACK_GLOBAL"}, OpcodeName{0x97, "NEXT_BUFFER"},
};

}  // namespace

class PickleReader {
 public:
  using Type = Pickle::Type;
  using Value = Pickle::Value;

  PickleReader(Input& input, Pickle& pickle) : input_(input), pickle_(pickle) {
    pickle_.lists_.emplace_back();
    pickle_.dicts_.emplace_back();
  }

  void read() {
    do {
      byte_ = input_.offset();
    } while (obey(static_cast<unsigned char>(take(1, "its next opcode")[0])));
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { input_.fail(byte_, text); }

  // The next bytes of the file; valid until more are taken.
  std::string_view take(std::uint64_t bytes, const char* what) {
    const std::string_view here = input_.ahead(static_cast<std::size_t>(bytes));
    if (here.size() < bytes) {
      fail("the pickle ends within " + std::string(what));
    }
    input_.skip(bytes);
    return here.substr(0, static_cast<std::size_t>(bytes));
  }

  std::string_view take_line() {
    std::string_view line;
    if (!input_.line(line, kLongestLine)) {
      fail("the pickle ends within a line");
    }
    return line;
  }

  template <typename Number>
  Number take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof(number), "a number").data(), sizeof(number));
    return number;
  }

  // False at the end of the pickle.
  bool obey(unsigned char opcode) {
    switch (opcode) {
      case '.':
        pickle_.root_ = pop();
        return false;
      case 0x80:  // PROTO
        if (const auto protocol = take_number<std::uint8_t>(); protocol > 5) {
          fail("protocol " + std::to_string(protocol) + " of pickles is not known");
        }
        return true;
      case 0x95:  // FRAME: how much comes next is of no interest here
        take_number<std::uint64_t>();
        return true;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop_one_or_mark();
        return true;
      case '1':
        drop_to_mark();
        return true;
      case '2':
        return push(top());
      default:
        if (!obey_number(opcode) && !obey_text(opcode) && !obey_memo(opcode) &&
            !obey_collection(opcode)) {
          refuse(opcode);
        }
        return true;
    }
  }

  [[noreturn]] void refuse(unsigned char opcode) const {
    for (const OpcodeName& forbidden : kForbidden) {
      if (forbidden.opcode == opcode) {
        fail("the opcode " + std::string(forbidden.name) +
             " asks for more than plain data, and is not obeyed");
      }
    }
    std::array<char, 8> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), opcode, 16).ptr;
    fail("0x" + std::string(digits.data(), end) + " is no opcode of a pickle");
  }

  bool obey_number(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return push(Value());
      case 0x88:
      case 0x89:
        return push_bool(opcode == 0x88);
      case 'K':
        return push_integer(take_number<std::uint8_t>());
      case 'M':
        return push_integer(take_number<std::uint16_t>());
      case 'J':
        return push_integer(take_number<std::int32_t>());
      case 'I':
        return push_decimal(take_line(), true);
      case 'L': {
        std::string_view line = take_line();
        line.remove_suffix(line.ends_with('L') ? 1 : 0);
        return push_decimal(line, false);
      }
      case 0x8a:
        return push_long(take_number<std::uint8_t>());
      case 0x8b:
        return push_long(take_number<std::uint32_t>());
      case 'F':
        return push_float_text(take_line());
      case 'G':
        return push_float(std::bit_cast<double>(__builtin_bswap64(take_number<std::uint64_t>())));
      default:
        return false;
    }
  }

  bool obey_text(unsigned char opcode) {
    switch (opcode) {
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(take(take_number<std::uint8_t>(), "a string"));
      case 'T':  // BINSTRING
      case 'X':  // BINUNICODE
      case 'B':  // BINBYTES
        return push_text(take(take_number<std::uint32_t>(), "a string"));
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_text(take(take_number<std::uint64_t>(), "a string"));
      case 'S':
        return push_text_or_fail(unquoted(take_line()));
      case 'V':
        return push_text_or_fail(unescaped_unicode(take_line()));
      default:
        return false;
    }
  }

  bool obey_memo(unsigned char opcode) {
    switch (opcode) {
      case 0x94:
        return remember(memo_.size());
      case 'q':
        return remember(take_number<std::uint8_t>());
      case 'r':
        return remember(take_number<std::uint32_t>());
      case 'p':
        return remember(take_decimal());
      case 'h':
        return recall(take_number<std::uint8_t>());
      case 'j':
        return recall(take_number<std::uint32_t>());
      case 'g':
        return recall(take_decimal());
      default:
        return false;
    }
  }

  bool obey_collection(unsigned char opcode) {
    switch (opcode) {
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        return push_list(0);
      case 0x85:
      case 0x86:
      case 0x87:
        return push_list(opcode - std::size_t{0x84});
      case 'l':
      case 't':
      case 0x91:  // FROZENSET
        return push_list(stack_.size() - pop_mark());
      case '}':
        return push_dict(stack_.size());
      case 'd':
        return push_dict(pop_mark());
      case 'a':
        return append(stack_.size() - 1);
      case 'e':
      case 0x90:  // ADDITEMS
        return append(pop_mark());
      case 's':
        return set_items(stack_.size() - 2);
      case 'u':
        return set_items(pop_mark());
      case 0x98:  // READONLY_BUFFER: of what is on the stack
        return true;
      default:
        return false;
    }
  }

  // What lies above the last mark is all that may be popped.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Value& top() {
    if (stack_.size() <= floor()) {
      fail("the pickle's stack is empty here");
    }
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  // As Python has it: POP takes away a mark where one is on top.
  void pop_one_or_mark() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }
  void drop_to_mark() { stack_.resize(pop_mark()); }
  std::size_t pop_mark() {
    if (marks_.empty()) {
      fail("the pickle has no mark here");
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  bool push(const Value& value) {
    stack_.push_back(value);
    return true;
  }
  bool push_bool(bool value) { return push(Value(Type::kBool, 0, value ? 1 : 0)); }
  bool push_integer(std::int64_t integer) {
    return push(Value(Type::kInteger, 0, static_cast<std::uint64_t>(integer)));
  }
  bool push_natural(std::uint64_t natural) {
    const bool is_signed =
        natural <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return push(Value(is_signed ? Type::kInteger : Type::kUnsigned, 0, natural));
  }
  bool push_float(double real) {
    return push(Value(Type::kFloat, 0, std::bit_cast<std::uint64_t>(real)));
  }
  bool push_float_text(std::string_view text) {
    double real = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, real);
    if (error != std::errc() || stop != end) {
      fail("this is no floating-point number");
    }
    return push_float(real);
  }

  // Protocol 1 has "00" and "01" for False and True.
  bool push_decimal(std::string_view text, bool may_be_bool) {
    if (may_be_bool && (text == "00" || text == "01")) {
      return push_bool(text == "01");
    }
    const char* const end = text.data() + text.size();
    std::int64_t integer = 0;
    if (const auto [stop, error] = std::from_chars(text.data(), end, integer);
        error == std::errc() && stop == end) {
      return push_integer(integer);
    }
    std::uint64_t natural = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, natural);
    if (error == std::errc() && stop == end) {
      return push_natural(natural);
    }
    const std::size_t digits = text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0);
    fail(text.empty() || text == "-" || digits != text.npos ? "this is no integer"
                                                            : "the integer does not fit 64 bits");
  }

  // Little-endian, two's complement.
  bool push_long(std::uint32_t bytes) {
    if (bytes > 9) {
      fail("an integer of " + std::to_string(bytes) + " bytes does not fit 64 bits");
    }
    const std::string_view digits = take(bytes, "an integer");
    const bool negative = !digits.empty() && static_cast<signed char>(digits.back()) < 0;
    if (bytes == 9 && digits[8] != 0) {
      fail("the integer does not fit 64 bits");
    }
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), std::min<std::size_t>(bytes, 8));
    return bytes == 9 ? push_natural(value) : push_integer(static_cast<std::int64_t>(value));
  }

  std::uint64_t take_decimal() {
    const std::string_view line = take_line();
    std::uint64_t number = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data(), end, number);
    if (error != std::errc() || stop != end) {
      fail("the number of a memo is none");
    }
    return number;
  }

  template <typename Object>
  Value made(Type type, std::vector<Object>& objects) {
    if (objects.size() == kMostObjects) {
      fail("there are more objects than can be counted");
    }
    return Value(type, static_cast<std::uint32_t>(objects.size()));
  }

  bool push_text(std::string_view text) {
    const Value value = made(Type::kText, pickle_.texts_);
    pickle_.texts_.emplace_back(text);
    return push(value);
  }
  bool push_text_or_fail(const std::optional<std::string>& text) {
    if (!text) {
      fail("the string's escapes cannot be read");
    }
    return push_text(*text);
  }

  // Of the so many values on top.
  bool push_list(std::size_t count) {
    if (stack_.size() < floor() + count) {
      fail("the pickle's stack is empty here");
    }
    const Value value = made(Type::kList, pickle_.lists_);
    pickle_.lists_.emplace_back(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return push(value);
  }
  // Of what lies on the stack from there on.
  bool push_dict(std::size_t from) {
    Value value = made(Type::kDict, pickle_.dicts_);
    pickle_.dicts_.emplace_back();
    stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(from), value);
    return stack_.size() == from + 1 || set_items(from + 1);
  }

  // To what lies below.
  Value& below(std::size_t from, Type type, const char* what) {
    if (from > stack_.size() || from <= floor() || stack_[from - 1].type != type) {
      fail("there is no " + std::string(what) + " here to add to");
    }
    return stack_[from - 1];
  }
  bool append(std::size_t from) {
    const Value& list = below(from, Type::kList, "list");
    auto& items = pickle_.lists_[list.index];
    items.insert(items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return true;
  }
  bool set_items(std::size_t from) {
    const Value& dict = below(from, Type::kDict, "dictionary");
    if ((stack_.size() - from) % 2 != 0) {
      fail("a key of a dictionary has no value");
    }
    auto& entries = pickle_.dicts_[dict.index];
    for (std::size_t i = from; i < stack_.size(); i += 2) {
      entries.emplace_back(stack_[i], stack_[i + 1]);
    }
    stack_.resize(from);
    return true;
  }

  // Numbers follow each other, hardly with a gap.
  bool remember(std::uint64_t number) {
    constexpr std::uint64_t kGap = 16;
    if (number > memo_.size() + kGap) {
      fail("the memo " + std::to_string(number) + " is far beyond those before");
    }
    if (number >= memo_.size()) {
      memo_.resize(static_cast<std::size_t>(number) + 1);
    }
    memo_[static_cast<std::size_t>(number)] = top();
    return true;
  }
  bool recall(std::uint64_t number) {
    if (number >= memo_.size() || !memo_[static_cast<std::size_t>(number)]) {
      fail("nothing is in the memo " + std::to_string(number));
    }
    return push(*memo_[static_cast<std::size_t>(number)]);
  }

  Input& input_;
  Pickle& pickle_;
  std::uint64_t byte_ = 0;  // of the opcode that is being obeyed
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // how high the stack was there
  std::vector<std::optional<Value>> memo_;
};

Pickle::Pickle(Input& input) {
  PickleReader(input, *this).read();
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
