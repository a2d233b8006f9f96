#include "shim/loader/mapped_file.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace cubfc {

std::optional<MappedFile> mapped_file_at(std::uintptr_t address) {
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Line {
    char* text = nullptr;
    std::size_t bytes = 0;
    Line() = default;
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    ~Line() { std::free(text); }
  };
  const std::unique_ptr<std::FILE, Closer> maps(std::fopen("/proc/self/maps", "re"));
  Line line;
  ssize_t length = 0;
  while (maps != nullptr && (length = getline(&line.text, &line.bytes, maps.get())) > 0) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    int path_at = 0;
    if (std::sscanf(line.text, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &start, &end,
                    &path_at) < 2 ||
        address - start >= end - start) {
      continue;
    }
    if (line.text[length - 1] == '\n') {
      --length;
    }
    return MappedFile{start, end,
                      path_at > 0 && path_at < length
                          ? std::string(line.text + path_at, line.text + length)
                          : std::string()};
  }
  return std::nullopt;
}

}  // namespace cubfc
