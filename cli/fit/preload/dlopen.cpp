// Which file a program of `cubfc fit` opens as a library. Called by dlopen.S, in any thread.
//
// What takes the place of NVIDIA's libraries is preloaded, so dlopen of one by its name finds it.
// With a whole path, as Python packages name the libraries that they bring, dlopen would open
// NVIDIA's. Such a path is replaced here.
#include <dlfcn.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>
#include <string_view>

extern "C" {
__attribute__((visibility("hidden"))) void* (*cubfc_fit_real_dlopen)(const char*, int) = nullptr;
__attribute__((visibility("hidden"))) const char* cubfc_fit_file_to_open(const char* file);
}

namespace {

// The folder of this library, with a slash at its end.
std::string own_folder() {
  Dl_info found{};
  static const char in_this_object = 0;
  if (dladdr(&in_this_object, &found) == 0 || found.dli_fname == nullptr) {
    return {};
  }
  const std::string path = found.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

// The text of a path, kept for ever: a library that is opened may open others before dlopen is done
// with its name.
const char* kept(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string> paths;
  const std::scoped_lock lock(mutex);
  return paths.insert(path).first->c_str();
}

}  // namespace

const char* cubfc_fit_file_to_open(const char* file) {
  static const auto real =
      reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  cubfc_fit_real_dlopen = real;
  const std::string_view path = file == nullptr ? "" : file;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return file;
  }
  const std::string_view name = path.substr(slash + 1);
  // CUPTI, NVIDIA's profiler, is not replaced: it is used with the software driver as with any
  // other.
  const bool is_replaced = (name.starts_with("libcu") && !name.starts_with("libcupti.") &&
                            !name.starts_with("libcubfc")) ||
                           name.starts_with("libnvidia-ml.");
  if (!is_replaced) {
    return file;
  }
  static const std::string folder = own_folder();
  for (const char* const within : {"", "libraries/"}) {
    const std::string ours = folder + within + std::string(name);
    if (access(ours.c_str(), R_OK) == 0) {
      return kept(ours);
    }
  }
  return file;
}
