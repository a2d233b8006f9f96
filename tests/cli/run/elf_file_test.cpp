// The reader of ELF heads, on this very program and on what is broken in every place.
#include "cli/run/elf_file.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "catch.h"

namespace cubfc::cli {
namespace {

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TemporaryFile {
 public:
  TemporaryFile() { close(mkstemp(path_.data())); }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::optional<ElfFile> read(const std::string& contents) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << contents;
    return read_elf_file(path_);
  }

 private:
  std::string path_ = "/tmp/cubfc-elf-XXXXXX";
};

}  // namespace

TEST_CASE("a program says how it is started", "[run]") {
  const auto self = read_elf_file("/proc/self/exe");
  REQUIRE(self);
  CHECK(self->is_64_bit);
  CHECK(self->interpreter.find("ld-linux") != std::string::npos);
  CHECK(std::find(self->needed.begin(), self->needed.end(), "libc.so.6") != self->needed.end());
}

TEST_CASE("what is no program", "[run]") {
  CHECK(!read_elf_file("/no/such/file"));
  CHECK(!read_elf_file("/tmp"));
  CHECK(!read_elf_file("/dev/null"));
  const TemporaryFile file;
  CHECK(!file.read(""));
  CHECK(!file.read("#!/bin/sh\n"));
  CHECK(!file.read("\177ELF"));
}

TEST_CASE("a program that ends anywhere", "[run]") {
  const std::string whole = contents_of("/bin/true");
  REQUIRE(whole.size() > 4096);
  const TemporaryFile file;
  for (std::size_t length = 0; length < 2048; length += 7) {
    const auto read = file.read(whole.substr(0, length));
    CHECK((length >= sizeof(Elf64_Ehdr) || !read));
    CHECK((!read || read->needed.empty()));  // the names are far behind
  }
}

TEST_CASE("a program with anything in its head", "[run]") {
  const std::string whole = contents_of("/bin/true");
  Elf64_Ehdr head{};
  std::memcpy(&head, whole.data(), sizeof head);
  const std::size_t headers = head.e_phoff + std::size_t{head.e_phnum} * head.e_phentsize;
  std::mt19937 random(1);
  const TemporaryFile file;
  for (int i = 0; i < 3000; ++i) {
    std::string broken = whole.substr(0, 16384);
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = SELFMAG + random() % (headers - SELFMAG);
      broken[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    const auto read = file.read(broken);
    if (read) {
      CHECK(read->needed.size() <= 4096);
      CHECK(read->interpreter.size() < 4096);
    }
  }
}

}  // namespace cubfc::cli
