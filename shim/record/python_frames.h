// The Python functions that the calling thread is in. Reads the thread's own frames while the
// thread is in a call that Python has made, so that none of them can change. Takes no lock of
// Python's (another thread may have the GIL by then), touches no reference count, and calls nothing
// that makes objects. Everything is read by system calls, which survive an address where no memory
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/loader/exported_symbols.h"
#include "shim/record/own_memory.h"
#include "shim/record/python_layout.h"

namespace cubfc {

// The frames that a thread is in, copied: Python may change or free its own objects afterwards.
struct PythonFrames {
  struct Piece {
    std::size_t start = 0;  // in `bytes`
    std::size_t length = 0;
    std::uint8_t character_bytes = 1;
    bool is_latin_1 = false;  // one byte for each character, but not ASCII
  };
  struct Frame {
    Piece file;
    Piece function;
    Piece lines;                   // the table that gives the lines of instructions
    std::int32_t first_line = 0;   // of the function
    std::int64_t instruction = 0;  // place in the code, in bytes
    std::uint64_t identity = 0;    // a hash of all of this
  };
  std::vector<Frame> all;  // the innermost first
  std::vector<char> bytes;

  enum class Problem : std::uint8_t {
    kNone,
    kForbidden,  // the system does not let this process read its memory so
    kNoPython,   // what was read is not what a Python of this version has
  };
  Problem problem = Problem::kNone;
};

// An interpreter that is loaded in this process. Thread-safe.
class Python {
 public:
  // Nothing if none is loaded. The interpreter that is found may be half loaded, or about to be
  // unloaded: none of its functions is called before a thread that is in it calls begin(). Waits
  // for no lock that the dynamic linker holds while constructors run.
  static std::optional<Python> seen() noexcept;
  // Where the interpreter lies. A thread is in it if a function of the thread's stack lies there.
  const ObjectRange& range() const { return range_; }

  // The rest is for a thread that is in the interpreter, which therefore is whole and stays.

  // False if its frames cannot be read: `why` says why. Throws std::bad_alloc.
  bool begin(std::string& why);

  // After begin(): the calling thread's frames, at most so many. None if Python does not know the
  // thread. Throws std::bad_alloc.
  PythonFrames read(std::size_t most) const;

  struct Text {
    std::string file;  // UTF-8
    std::string function;
    std::uint32_t line = 0;  // 0: not known
  };
  // Throws std::bad_alloc.
  Text text_of(const PythonFrames& frames, const PythonFrames::Frame& frame) const;

  const std::string& version() const { return version_; }  // "3.12.1"
  // Somewhere in its code.
  std::uintptr_t code_address() const { return reinterpret_cast<std::uintptr_t>(thread_state_); }

 private:
  struct Place {  // where a frame is
    std::uintptr_t code;
    std::int64_t instruction;  // an address, for PythonLayout::Instruction::kPointer
  };
  std::optional<std::vector<Place>> places_of_thread(std::size_t most, OwnMemory& memory) const;
  bool read_codes(std::span<const Place> places, OwnMemory& memory, std::vector<char>& codes,
                  PythonFrames& frames) const;
  bool read_text(const std::vector<char>& codes, OwnMemory& memory, PythonFrames& frames) const;

  ObjectRange range_;
  PythonLayout layout_;
  std::string version_;
  const char* (*get_version_)() = nullptr;  // Py_GetVersion
  std::uintptr_t runtime_ = 0;              // _PyRuntime
  void* (*thread_state_)() = nullptr;       // PyGILState_GetThisThreadState
  int (*is_finalizing_)() = nullptr;        // _Py_IsFinalizing
  std::uintptr_t code_type_ = 0;
  std::uintptr_t string_type_ = 0;
  std::uintptr_t bytes_type_ = 0;
};

}  // namespace cubfc
