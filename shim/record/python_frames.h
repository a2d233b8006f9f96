// The Python functions that the calling thread is in. Reads what the thread's own frames say, while
// it is in a call that Python made, so that none of them can change: takes no lock of Python's (the
// GIL may be another thread's by then), touches no reference count, calls nothing that makes
// objects. All is read by system calls that survive an address that is none.
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

// Copies of what tells where a thread is, so that nothing of Python's is needed any more.
struct PythonFrames {
  struct Piece {
    std::size_t start = 0;  // in `bytes`
    std::size_t length = 0;
    std::uint8_t character_bytes = 1;
    bool is_latin_1 = false;  // of one byte each, but not ASCII
  };
  struct Frame {
    Piece file;
    Piece function;
    Piece lines;                   // the table that tells the lines of instructions
    std::int32_t first_line = 0;   // of the function
    std::int64_t instruction = 0;  // its place in the code, in bytes
    std::uint64_t identity = 0;    // a hash of all of this
  };
  std::vector<Frame> all;  // the innermost first
  std::vector<char> bytes;

  enum class Problem : std::uint8_t {
    kNone,
    kForbidden,  // the system does not let this process read so
    kNoPython,   // what was read is not what a Python of this version has
  };
  Problem problem = Problem::kNone;
};

// An interpreter that is loaded in this process. Thread-safe.
class Python {
 public:
  // Nothing where none is loaded. It may be half loaded, or about to be unloaded: nothing of it is
  // called before a thread that is in it calls begin(). Waits for no lock that the dynamic linker
  // holds while constructors run.
  static std::optional<Python> seen() noexcept;
  // Where it lies. A thread is in it when a function of its stack lies there.
  const ObjectRange& range() const { return range_; }

  // All that follows is for a thread that is in it, which so is whole and stays.

  // False where its frames cannot be read: `why` says so. Throws std::bad_alloc.
  bool begin(std::string& why);

  // After begin(): of the calling thread, at most so many. None where Python does not know it.
  // Throws std::bad_alloc.
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
  struct Place {  // of a frame
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
