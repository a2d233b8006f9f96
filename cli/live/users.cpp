#include "cli/live/users.h"

#include <pwd.h>

#include <cerrno>
#include <map>
#include <vector>

namespace cubfc::live {

std::string listed_name(uid_t user) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = getpwuid_r(user, &entry, room.data(), room.size(), &found)) == ERANGE &&
         room.size() < kMost) {
    room.resize(room.size() * 2);
  }
  return error == 0 && found != nullptr && found->pw_name != nullptr ? found->pw_name : "";
}

const std::string& user_name(uid_t user) {
  static std::map<uid_t, std::string> known;
  std::string& name = known[user];
  if (name.empty()) {
    name = listed_name(user);
    name = name.empty() ? std::to_string(user) : name;
  }
  return name;
}

}  // namespace cubfc::live
