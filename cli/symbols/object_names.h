// What functions a program or library has at an offset in its file, by its symbols and its debug
// information: of elfutils' libdw. Knows nothing of recordings.
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
  // `build_id`: in hexadecimal, of the file that was loaded; empty where nobody knows. Where the
  // file cannot be read, or is another one by now, `problem` says so, and nothing has a name.
  // Nothing is fetched from anywhere.
  ObjectNames(const std::string& path, const std::string& build_id, std::string& problem);
  ~ObjectNames();
  ObjectNames(const ObjectNames&) = delete;
  ObjectNames& operator=(const ObjectNames&) = delete;

  // What a call returns to at this offset in the file: the function, behind those that were inlined
  // into it, the innermost first. Empty where nothing is known.
  std::vector<Function> at(std::uint64_t return_offset) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace cubfc::symbols
