#include "cli/run/library.h"

#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

namespace fs = std::filesystem;

// The places where pip may have put the library when it put this command into bin/: the folder's
// name has Python's version in it.
std::vector<fs::path> places_of_python(const fs::path& lib, std::string_view name) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(lib, ignored)) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path path = entry.path() / packages / "cubfc/lib" / name;
      if (entry.path().filename().string().starts_with("python") && fs::exists(path, ignored)) {
        found.push_back(path);
      }
    }
  }
  return found;
}

std::vector<fs::path> places(std::string_view name) {
  const fs::path here = fs::path(this_command()).parent_path();
  std::vector<fs::path> all = places_of_python(here / "../lib", name);
  for (const char* folder :
       {"../shim", "../" CUBFC_LIBRARY_FOLDER, "../lib", "../cubfc/lib"}) {  // last: pip --target
    all.push_back(here / folder / name);
  }
  return all;
}

std::string checked(const fs::path& path) {
  const std::string text = path.lexically_normal().string();
  // ld.so(8), LD_PRELOAD: spaces and colons separate entries, a dollar begins a token.
  if (text.find_first_of(" :$") != std::string::npos) {
    throw Failure{config::quoted(text, 200) +
                      " cannot be preloaded: LD_PRELOAD takes no space, colon or dollar in a path; "
                      "--library may name a symbolic link to it from another folder",
                  kUsage};
  }
  return text;
}

}  // namespace

std::string this_command() {
  std::error_code failed;
  const fs::path path = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    return path.string();
  }
  // In a chroot or a container without /proc: the path that execve() was given.
  const auto given =
      reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT(performance-no-int-to-ptr)
  return given != nullptr ? fs::weakly_canonical(given, failed).string() : "";
}

std::string find_library(const std::optional<std::string>& given, std::string_view name) {
  std::error_code ignored;
  if (given) {
    if (!fs::is_regular_file(*given, ignored)) {
      throw Failure{"--library: there is no file " + config::quoted(*given, 200), kUsage};
    }
    return checked(fs::absolute(*given));
  }
  for (const fs::path& place : places(name)) {
    if (fs::is_regular_file(place, ignored)) {
      return checked(place);
    }
  }
  std::string looked_for;
  for (const fs::path& place : places(name)) {
    looked_for += (looked_for.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Failure{"there is no " + std::string(name) + " beside this command (" + looked_for +
                    "); --library names it",
                kUsage};
}

std::string others_preloaded(const std::string& before) {
  std::string others;
  std::string_view rest = before;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find_first_of(" :"));
    const std::string_view name = entry.substr(entry.rfind('/') + 1);
    if (!name.empty() && name != kLibraryName && name != kSleepLibraryName) {
      others.append(others.empty() ? "" : ":").append(entry);
    }
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return others;
}

std::string preload_with(const std::string& before, const std::string& library) {
  const std::string others = others_preloaded(before);
  return others.empty() ? library : others + ":" + library;
}

}  // namespace cubfc::cli
