#include "cli/recordings/pickle/opcodes.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/recordings/pickle/escapes.h"
#include "cli/recordings/pickle/input.h"
#include "cli/recordings/pickle/machine.h"
#include "cli/recordings/pickle/numbers.h"

namespace cubfc::recordings {
namespace {

struct OpcodeName {
  unsigned char opcode;
  const char* name;
};
// Opcodes that would call, import or look up something, by their names in Python's pickletools.
constexpr std::array kForbidden{
    OpcodeName{'c', "GLOBAL"},        OpcodeName{'i', "INST"},
    OpcodeName{'o', "OBJ"},           OpcodeName{'b', "BUILD"},
    OpcodeName{'R', "REDUCE"},        OpcodeName{'P', "PERSID"},
    OpcodeName{'Q', "BINPERSID"},     OpcodeName{0x81, "NEWOBJ"},
    OpcodeName{0x82, "EXT1"},         OpcodeName{0x83, "EXT2"},
    OpcodeName{0x84, "EXT4"},         OpcodeName{0x92, "NEWOBJ_EX"},
    OpcodeName{0x93, "STACK_GLOBAL"}, OpcodeName{0x97, "NEXT_BUFFER"},
};

class Opcodes {
 public:
  Opcodes(Input& input, Pickle& pickle) : input_(input), machine_(input_, pickle) {}

  void obey_all() {
    while (obey(input_.take_opcode())) {
    }
  }

 private:
  // False at the end of the pickle.
  bool obey(unsigned char opcode) {
    switch (opcode) {
      case '.':
        machine_.end();
        return false;
      case 0x80:  // PROTO
        if (const auto protocol = input_.take_number<std::uint8_t>(); protocol > 5) {
          input_.fail("protocol " + std::to_string(protocol) + " of pickles is not known");
        }
        return true;
      case 0x95:  // FRAME: the number of bytes that follow is not needed here
        input_.take_number<std::uint64_t>();
        return true;
      case 0x98:  // READONLY_BUFFER: marks the value on top, which stays as it is here
        return true;
      default:
        if (!obey_stack(opcode) && !obey_number(opcode) && !obey_text(opcode) &&
            !obey_memo(opcode) && !obey_collection(opcode)) {
          refuse(opcode);
        }
        return true;
    }
  }

  [[noreturn]] void refuse(unsigned char opcode) const {
    for (const OpcodeName& forbidden : kForbidden) {
      if (forbidden.opcode == opcode) {
        input_.fail("the opcode " + std::string(forbidden.name) +
                    " asks for more than plain data, and is not obeyed");
      }
    }
    std::array<char, 8> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), opcode, 16).ptr;
    input_.fail("0x" + std::string(digits.data(), end) + " is no opcode of a pickle");
  }

  // The functions from here to obey_collection() return false for an opcode of another kind.
  bool obey_stack(unsigned char opcode) {
    switch (opcode) {
      case '(':
        machine_.mark();
        return true;
      case '0':
        machine_.pop_one_or_mark();
        return true;
      case '1':
        machine_.drop_to_mark();
        return true;
      case '2':
        machine_.push_top_again();
        return true;
      default:
        return false;
    }
  }

  bool obey_number(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return push(Pickle::Value());
      case 0x88:
      case 0x89:
        return push(bool_value(opcode == 0x88));
      case 'K':
        return push(integer_value(input_.take_number<std::uint8_t>()));
      case 'M':
        return push(integer_value(input_.take_number<std::uint16_t>()));
      case 'J':
        return push(integer_value(input_.take_number<std::int32_t>()));
      case 'I':
        return push(read_decimal_or_bool(input_.take_line()));
      case 'L': {
        std::string_view line = input_.take_line();
        line.remove_suffix(line.ends_with('L') ? 1 : 0);
        return push(read_decimal(line));
      }
      case 0x8a:
        return push_long(input_.take_number<std::uint8_t>());
      case 0x8b:
        return push_long(input_.take_number<std::uint32_t>());
      case 'F':
        return push(read_float(input_.take_line()));
      case 'G':
        return push(float_value(
            std::bit_cast<double>(__builtin_bswap64(input_.take_number<std::uint64_t>()))));
      default:
        return false;
    }
  }

  bool obey_text(unsigned char opcode) {
    switch (opcode) {
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(input_.take_number<std::uint8_t>());
      case 'T':  // BINSTRING
      case 'X':  // BINUNICODE
      case 'B':  // BINBYTES
        return push_text(input_.take_number<std::uint32_t>());
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_text(input_.take_number<std::uint64_t>());
      case 'S':
        return push(unquoted(input_.take_line()));
      case 'V':
        return push(unescaped_unicode(input_.take_line()));
      default:
        return false;
    }
  }

  bool obey_memo(unsigned char opcode) {
    switch (opcode) {
      case 0x94:
        machine_.remember_next();
        return true;
      case 'q':
        machine_.remember(input_.take_number<std::uint8_t>());
        return true;
      case 'r':
        machine_.remember(input_.take_number<std::uint32_t>());
        return true;
      case 'p':
        machine_.remember(take_memo_number());
        return true;
      case 'h':
        machine_.recall(input_.take_number<std::uint8_t>());
        return true;
      case 'j':
        machine_.recall(input_.take_number<std::uint32_t>());
        return true;
      case 'g':
        machine_.recall(take_memo_number());
        return true;
      default:
        return false;
    }
  }

  bool obey_collection(unsigned char opcode) {
    switch (opcode) {
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        machine_.push_list(0);
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        machine_.push_list(opcode - std::size_t{0x84});
        return true;
      case 'l':
      case 't':
      case 0x91:  // FROZENSET
        machine_.push_list_from_mark();
        return true;
      case '}':
        machine_.push_empty_dict();
        return true;
      case 'd':
        machine_.push_dict_from_mark();
        return true;
      case 'a':
        machine_.append_one();
        return true;
      case 'e':
      case 0x90:  // ADDITEMS
        machine_.append_from_mark();
        return true;
      case 's':
        machine_.set_one_item();
        return true;
      case 'u':
        machine_.set_items_from_mark();
        return true;
      default:
        return false;
    }
  }

  bool push(const Pickle::Value& value) {
    machine_.push(value);
    return true;
  }
  bool push(const ReadNumber& read) {
    if (read.fault != nullptr) {
      input_.fail(read.fault);
    }
    return push(read.value);
  }
  bool push(const std::optional<std::string>& text) {
    if (!text) {
      input_.fail("the string's escapes cannot be read");
    }
    machine_.push_text(*text);
    return true;
  }
  bool push_text(std::uint64_t bytes) {
    machine_.push_text(input_.take(bytes, "a string"));
    return true;
  }
  bool push_long(std::uint32_t bytes) {
    if (bytes > 9) {
      input_.fail("an integer of " + std::to_string(bytes) + " bytes does not fit 64 bits");
    }
    return push(read_little_endian(input_.take(bytes, "an integer")));
  }

  std::uint64_t take_memo_number() {
    const auto number = read_memo_number(input_.take_line());
    if (!number) {
      input_.fail("the number of a memo is none");
    }
    return *number;
  }

  PickleInput input_;
  PickleMachine machine_;
};

}  // namespace

void obey_opcodes(Input& input, Pickle& pickle) {
  Opcodes(input, pickle).obey_all();
}

}  // namespace cubfc::recordings
