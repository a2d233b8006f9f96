#include "shim/meet/shared_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "shim/meet/descriptor.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

// How the folder's name begins in a place where the folders of all users are; the user's number
// follows.
constexpr std::string_view kShared = "cubfc-";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool is_ours_alone(int descriptor, mode_t type) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && (status.st_mode & S_IFMT) == type &&
         status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

Descriptor open_shared_folder(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder && is_ours_alone(folder.get(), S_IFDIR) ? std::move(folder) : Descriptor();
}

// A runtime folder belongs to one user, so no other user can make a folder of the name there first.
// In the other two places anybody can.
std::vector<std::string> shared_folders(Where where) {
  std::vector<std::string> found;
  const auto add_runtime_folder = [&](const std::string& runtime) {
    const std::string folder = runtime + "/cubfc";
    if (runtime.starts_with('/') && open_shared_folder(runtime) &&
        std::find(found.begin(), found.end(), folder) == found.end()) {
      found.push_back(folder);
    }
  };
  const char* const variable = where == Where::kFixed ? nullptr : secure_getenv("XDG_RUNTIME_DIR");
  add_runtime_folder(variable == nullptr ? "" : variable);
  add_runtime_folder(format("/run/user/{}", geteuid()));
  for (const char* place : {"/dev/shm", "/tmp"}) {
    found.push_back(format("{}/{}{}", place, kShared, geteuid()));
  }
  return found;
}

std::vector<std::string> names_in_folder(const std::string& path) {
  std::vector<std::string> names;
  const auto close = [](DIR* listing) { closedir(listing); };
  const std::unique_ptr<DIR, decltype(close)> listing(opendir(path.c_str()), close);
  while (const dirent* const entry = listing == nullptr ? nullptr : readdir(listing.get())) {
    if (entry->d_name[0] != '.') {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

std::vector<std::string> shared_folders_of_all() {
  std::vector<std::string> found = shared_folders();
  const auto add = [&](const std::string& folder) {
    if (std::find(found.begin(), found.end(), folder) == found.end()) {
      found.push_back(folder);
    }
  };
  for (const std::string& user : names_in_folder("/run/user")) {
    add("/run/user/" + user + "/cubfc");
  }
  for (const std::string place : {"/dev/shm", "/tmp"}) {
    for (const std::string& name : names_in_folder(place)) {
      if (name.starts_with(kShared) && is_number(name.substr(kShared.size()))) {
        add(place + '/' + name);
      }
    }
  }
  return found;
}

Descriptor make_shared_folder(const std::string& path) {
  struct stat status {};
  if (mkdir(path.c_str(), S_IRWXU) == 0 ||
      (lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
       (status.st_mode & S_IRWXU) != S_IRWXU)) {
    chmod(path.c_str(), S_IRWXU);
  }
  return open_shared_folder(path);
}

std::string why_no_shared_file(int error, Where where) {
  std::string text;
  for (const std::string& path : shared_folders(where)) {
    struct stat status {};
    const int not_made = mkdir(path.c_str(), S_IRWXU) == 0 ? 0 : errno;
    text += (text.empty() ? "" : ", ") + path + ' ';
    if (lstat(path.c_str(), &status) != 0) {
      text += std::string("cannot be made (") + std::strerror(not_made) + ')';
    } else if (!S_ISDIR(status.st_mode)) {
      text += "is no folder";
    } else if (status.st_uid != geteuid()) {
      text += format("belongs to user {}", status.st_uid);
    } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      text += "is open to other users (chmod 700 would do)";
    } else {
      text += std::string("takes no file (") + std::strerror(error) + ')';
    }
  }
  return text;
}

}  // namespace cubfc
