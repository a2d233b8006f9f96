#include "cli/top/users.h"

#include <pwd.h>

#include <array>
#include <map>

namespace cubfc::cli::top {
namespace {

std::string look_up(uid_t user) {
  std::array<char, 16384> room{};
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(user, &entry, room.data(), room.size(), &found);
  return found == nullptr || found->pw_name == nullptr || *found->pw_name == '\0'
             ? std::to_string(user)
             : found->pw_name;
}

}  // namespace

const std::string& user_name(uid_t user) {
  static std::map<uid_t, std::string> known;
  const auto found = known.find(user);
  return found != known.end() ? found->second : known.emplace(user, look_up(user)).first->second;
}

}  // namespace cubfc::cli::top
