#include "cli/run/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "cli/run/elf_file.h"
#include "config/values.h"
#include "shim/meet/descriptor.h"

namespace cubfc::cli {
namespace {

// 0 where the file can be executed, else an error number that says why not; EISDIR for a folder.
int why_not(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return errno;
  }
  if (S_ISDIR(status.st_mode)) {
    return EISDIR;
  }
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : EACCES;
}

// The words of a script's first line behind "#!"; empty where it is none.
std::vector<std::string> interpreter_of(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> start{};  // the kernel reads no more
  const ssize_t got = file ? pread(file.get(), start.data(), start.size(), 0) : -1;
  std::string_view line(start.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  line = line.substr(0, line.find('\n'));
  std::vector<std::string> words;
  if (!line.starts_with("#!")) {
    return words;
  }
  line.remove_prefix(2);
  while (!line.empty()) {
    const std::size_t length = std::min(line.find_first_of(" \t"), line.size());
    if (length > 0) {
      words.emplace_back(line.substr(0, length));
    }
    line.remove_prefix(std::min(line.size(), length + 1));
  }
  return words;
}

// The file that is executed in the end: the interpreter of a script, or the program that env looks
// for.
std::string executed_by(std::string path, const std::string& search) {
  constexpr int kMostScripts = 5;  // the kernel's limit
  for (int depth = 0; depth < kMostScripts; ++depth) {
    const std::vector<std::string> words = interpreter_of(path);
    if (words.empty()) {
      break;
    }
    std::string next = words[0];
    if (next.substr(next.rfind('/') + 1) == "env") {
      const auto name = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
        return !word.starts_with('-') && word.find('=') == std::string::npos;
      });
      next = name == words.end() ? next : find_program(*name, search).path;
    }
    if (next.empty()) {
      break;
    }
    path = next;
  }
  return path;
}

// How a program gains rights by being executed, in words; empty where it gains none. The dynamic
// linker ignores LD_PRELOAD in a program that does.
std::string rights_gained_by(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return {};
  }
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) {
    return "is setuid";
  }
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
      status.st_gid != getegid()) {
    return "is setgid";
  }
  return geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0
             ? "has file capabilities"
             : "";
}

bool is_sanitizers(const std::string& library) {
  return library.starts_with("libasan.so") || library.starts_with("libtsan.so") ||
         library.starts_with("libclang_rt.asan") || library.starts_with("libclang_rt.tsan");
}

}  // namespace

FoundProgram find_program(const std::string& name, const std::string& search) {
  if (name.find('/') != std::string::npos) {
    const int error = why_not(name);
    return error == 0 ? FoundProgram{name, 0} : FoundProgram{"", error};
  }
  FoundProgram found{"", ENOENT};
  std::string_view rest = search;
  while (!name.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    const std::string path = (folder.empty() ? "." : std::string(folder)) + '/' + name;
    const int error = why_not(path);
    if (error == 0) {
      return {path, 0};
    }
    // As in a shell: a folder that cannot be searched counts as one without the file.
    found.error = error == EACCES && access(path.c_str(), F_OK) == 0 ? EACCES : found.error;
    if (folder.size() == rest.size()) {
      break;
    }
    rest.remove_prefix(folder.size() + 1);
  }
  return found;
}

std::string why_not_found(const std::string& name, const FoundProgram& found) {
  const bool is_in_path = name.find('/') == std::string::npos;
  return config::shown(name, 200) + ": " +
         (found.error == ENOENT && is_in_path ? "there is no such program in PATH"
                                              : std::strerror(found.error));
}

std::vector<std::string> obstacles_to_preload(const std::string& path, const std::string& library,
                                              const std::string& preloaded,
                                              const std::string& search) {
  const std::string executed = executed_by(path, search);
  const auto elf = read_elf_file(executed);
  const auto ours = read_elf_file(library);
  if (!elf || !ours) {
    return {};  // starting it will tell what is wrong
  }
  const std::string name =
      config::shown(executed, 200) +
      (executed == path ? "" : ", which executes " + config::shown(path, 200) + ",");
  std::vector<std::string> found;
  if (!elf->is_64_bit) {
    found.push_back(name + " is a 32-bit program, and there is no cubfc for those");
  } else if (elf->machine != ours->machine) {
    found.push_back(name + " is for another kind of processor than " + config::shown(library, 200));
  } else if (elf->interpreter.empty()) {
    found.push_back(name +
                    " is linked statically: nothing can be preloaded into it, only into what it "
                    "starts. Link its C library dynamically (the CUDA runtime may stay static)");
  } else if (elf->interpreter.find("ld-musl") != std::string::npos) {
    found.push_back(name +
                    " uses the C library musl, and libcubfc.so needs glibc: use an image, or "
                    "a build of it, with glibc");
  }
  if (const std::string rights = rights_gained_by(executed); !rights.empty()) {
    found.push_back(name + " " + rights +
                    ": the dynamic linker ignores LD_PRELOAD in it. Run a copy without that");
  }
  if (const auto sanitizer = std::find_if(elf->needed.begin(), elf->needed.end(), is_sanitizers);
      sanitizer != elf->needed.end() && preloaded.find(*sanitizer) == std::string::npos) {
    found.push_back(name +
                    " is built with a sanitizer, whose runtime must come first: "
                    "LD_PRELOAD=/path/of/" +
                    *sanitizer + " cubfc run ...");
  }
  return found;
}

}  // namespace cubfc::cli
