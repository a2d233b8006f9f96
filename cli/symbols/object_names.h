// The functions at an offset in a program's or library's file, by its symbols and its debug
// information, which elfutils' libdw reads. Knows nothing of recordings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cubfc::symbols {

struct Function {
  std::string name;  // demangled; empty: not known
  std::string file;  // of the source; empty: not known
  std::uint32_t line = 0;
};

// One file. Not thread-safe.
class ObjectNames {
 public:
  // `build_id`: of the file when it was loaded, in hexadecimal; empty where that is not known.
  // Where the file cannot be read, or is another one by now, `problem` says so, and at() finds
  // nothing. Downloads nothing: unsets DEBUGINFOD_URLS in this process.
  ObjectNames(const std::string& path, const std::string& build_id, std::string& problem);
  ~ObjectNames();
  ObjectNames(const ObjectNames&) = delete;
  ObjectNames& operator=(const ObjectNames&) = delete;

  // The functions that contain the call which returns to this offset in the file. The innermost
  // inlined function comes first, and the function into which all others were inlined comes last.
  // Empty where nothing is known.
  std::vector<Function> at(std::uint64_t return_offset) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace cubfc::symbols
