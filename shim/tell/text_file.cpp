#include "shim/tell/text_file.h"

#include <array>
#include <cstdio>
#include <memory>

namespace cubfc {

std::string text_of_file(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "re"));
  std::string text;
  std::array<char, 4096> part{};
  while (file != nullptr) {
    const std::size_t bytes = std::fread(part.data(), 1, part.size(), file.get());
    if (bytes == 0) {
      break;
    }
    text.append(part.data(), bytes);
  }
  return text;
}

}  // namespace cubfc
