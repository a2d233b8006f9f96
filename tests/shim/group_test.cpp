// One budget for several processes: without a driver, memory is a number.
#include "shim/meet/group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "group_members.h"
#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"
#include "shim/tell/log.h"

using namespace cubfc::test;
using cubfc::Group;
using cubfc::GroupTable;

namespace {

std::string why_not(std::uint64_t limit = kMi, const cubfc::DeviceId& device = kDevice) {
  std::string why;
  CHECK(Group::join("job", device, limit, why) == nullptr);
  return why;
}

// All that the limit allows can be had in one piece, and no byte more.
void check_all_can_be_had(std::uint64_t limit) {
  const auto group = join(limit);
  CHECK_FALSE(group->take(limit + 1));
  CHECK(group->take(limit));
  CHECK_FALSE(group->take(1));
  group->give(limit);
  CHECK(group->used() == 0);
}

int seconds_of_test() {
  const char* const text = std::getenv("CUBFC_TEST_SECONDS");
  return text == nullptr ? 5 : std::atoi(text);
}

}  // namespace

TEST_CASE("group: all claims together stay within the limit") {
  const Folder folder;
  const auto a = join(10 * kMi);
  const auto b = join(10 * kMi);
  CHECK(a->take(6 * kMi));
  CHECK_FALSE(b->take(5 * kMi));
  CHECK(b->take(4 * kMi));
  CHECK(a->used() == 10 * kMi);
  CHECK_FALSE(a->take(1));
  a->give(6 * kMi);
  CHECK(b->take(6 * kMi));
  CHECK_FALSE(a->take(~0ULL));
  CHECK_FALSE(a->take(GroupTable::kMostBytes + 1));
  b->give(10 * kMi);
  a->force(12 * kMi);  // taken already, within the limit or not
  CHECK_FALSE(b->take(1));
  a->give(12 * kMi);
  CHECK(b->take(10 * kMi));
}

TEST_CASE("group: another name, another device and another user's folder are another budget") {
  const Folder folder;
  const auto a = join(kMi);
  CHECK(a->take(kMi));
  CHECK(join(kMi, "another")->take(kMi));
  std::string why;
  const cubfc::DeviceId other{'o', 't', 'h', 'e', 'r'};
  const auto elsewhere = Group::join("job", other, kMi, why);
  REQUIRE(elsewhere != nullptr);
  CHECK(elsewhere->take(kMi));
  const Folder of_others;
  CHECK(join(kMi)->take(kMi));
}

TEST_CASE("group: what a killed member held can be claimed at once") {
  const Folder folder;
  const auto group = join(10 * kMi);
  for (const bool with_forked_child : {false, true}) {
    std::array<int, 2> child_lives{};
    REQUIRE(pipe(child_lives.data()) == 0);
    Child member = member_that_holds(9 * kMi, 10 * kMi, with_forked_child ? &child_lives : nullptr);
    CHECK_FALSE(group->take(2 * kMi));
    CHECK_FALSE(group->has_just_lost_member());
    member.kill_it();
    CHECK(group->take(10 * kMi));
    CHECK(group->has_just_lost_member());
    group->give(10 * kMi);
    check_all_can_be_had(10 * kMi);
    close(child_lives[0]);
    close(child_lives[1]);
    std::ofstream(folder.file(), std::ios::in | std::ios::binary)
        .seekp(8)
        .write("\0\0\0\0\0\0\0", 8);
  }
}

TEST_CASE("group: who joins where a member was killed finds all of the budget") {
  const Folder folder;
  member_that_holds(10 * kMi, 10 * kMi).kill_it();
  check_all_can_be_had(10 * kMi);
}

TEST_CASE("group: members that name different limits are each held to their own, and told") {
  const Folder folder;
  const auto a = join(10 * kMi);
  CHECK_FALSE(a->member_that_disagrees().has_value());
  const auto b = join(4 * kMi);
  REQUIRE(b->member_that_disagrees().has_value());
  CHECK(*b->member_that_disagrees() == std::pair(getpid(), 10 * kMi));
  CHECK(a->take(3 * kMi));
  CHECK(b->take(kMi));
  CHECK_FALSE(b->take(1));
  CHECK(a->take(6 * kMi));
}

TEST_CASE("group: a file that is none of a group's is refused by name, and left as it is") {
  const Folder folder;
  std::filesystem::create_directory(folder.folder());
  std::filesystem::permissions(folder.folder(), std::filesystem::perms::owner_all);
  std::size_t size = 0;
  {
    const auto group = join(kMi);
    size = std::filesystem::file_size(folder.file());
  }
  const auto content =
      GENERATE_COPY(std::string("short"), std::string(size, '\xff'), std::string(size - 1, '\0'),
                    std::string(size + 1, '\0'), std::string(size, '7'));
  std::filesystem::remove(folder.file());
  std::ofstream(folder.file(), std::ios::binary) << content;
  std::filesystem::permissions(
      folder.file(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string why = why_not();
  CHECK(why.find(folder.file()) != std::string::npos);
  CHECK(why.find("remove it when no process of the group runs") != std::string::npos);
  std::ifstream file(folder.file(), std::ios::binary);
  CHECK((std::string(std::istreambuf_iterator<char>(file), {}) == content));
}

TEST_CASE("group: whatever stands in a file with the right beginning, claims are answered") {
  const Folder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    {
      const auto group = join(kMi);
      CHECK_FALSE(group->take(2 * kMi));
    }
    {
      std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
      const auto size = std::filesystem::file_size(folder.file());
      for (std::uint64_t at = 8; at + 8 <= size; at += 8) {
        const std::uint64_t noise = round % 3 == 0 ? ~0ULL : random();
        file.seekp(static_cast<std::streamoff>(at));
        file.write(reinterpret_cast<const char*>(&noise), sizeof(noise));
      }
    }
    const auto group = join(kMi);
    CHECK_FALSE(group->take(2 * kMi));
    if (group->take(kMi)) {
      group->give(kMi);
    }
    std::filesystem::remove(folder.file());
  }
}

TEST_CASE(
    "group: files of groups that nobody is in go, but not those that have just lost a member") {
  const Folder folder;
  const auto file_of = [&](const std::string& name) {
    return folder.folder() + "/group-" + name + "-64657669636500000000000000000000";
  };
  { const auto over = join(kMi, "over"); }
  const auto lives = join(kMi, "lives");
  member_that_holds(kMi, kMi).kill_it();
  const std::string version_3{"cubfcgr\3 and so on", 18};
  std::ofstream(file_of("newer")) << version_3;
  std::ofstream(file_of("note")) << "what is no group's file stays";
  for (const char* name : {"newer", "note"}) {
    std::filesystem::permissions(file_of(name), std::filesystem::perms(0600));
  }
  const auto newcomer = join(kMi, "newcomer");
  CHECK_FALSE(std::filesystem::exists(file_of("over")));
  CHECK_FALSE(std::filesystem::exists(file_of("newer")));
  CHECK(std::filesystem::exists(file_of("note")));
  CHECK(std::filesystem::exists(file_of("lives")));
  CHECK(std::filesystem::exists(folder.file()));
  const auto heir = join(kMi);
  CHECK(heir->has_just_lost_member());
  CHECK(heir->take(kMi));
}

TEST_CASE("group: a file of another version is refused as long as somebody has it") {
  const Folder folder;
  const auto member = join(kMi);
  const auto set_version = [&](char version) {
    std::ofstream(folder.file(), std::ios::in | std::ios::binary).seekp(7).put(version);
  };
  set_version(3);
  CHECK(why_not().find(folder.file()) != std::string::npos);
  set_version(2);
  CHECK(join(kMi)->take(kMi));
}

TEST_CASE("group: a file or a folder that others could write to is refused") {
  const Folder folder;
  { const auto group = join(kMi); }
  std::filesystem::permissions(folder.file(), std::filesystem::perms::all);
  CHECK(why_not().find(folder.file()) != std::string::npos);
  std::filesystem::remove(folder.file());
  std::filesystem::create_directory(folder.file());
  CHECK(why_not().find(folder.file()) != std::string::npos);
  std::filesystem::remove(folder.file());
  std::filesystem::create_symlink("/etc/passwd", folder.file());
  CHECK(why_not().find(folder.file()) != std::string::npos);
}

TEST_CASE("group: a device without an identity has no group") {
  const Folder folder;
  CHECK(why_not(kMi, cubfc::DeviceId{}).find("UUID") != std::string::npos);
}

TEST_CASE("group: there is room for 512 members, and who comes then is told") {
  const Folder folder;
  std::vector<std::unique_ptr<Group>> members;
  for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
    members.push_back(join(kMi));
    REQUIRE(members.back()->take(1));
  }
  CHECK(why_not().find("512 members") != std::string::npos);
  CHECK(members.front()->used() == GroupTable::kMembers);
  members.erase(members.begin() + 17);
  CHECK(join(kMi)->take(kMi - GroupTable::kMembers + 1));
}

TEST_CASE("group: members whose file is removed meet again in a new one, with what they hold") {
  const Folder folder;
  const auto a = join(10 * kMi);
  const auto b = join(10 * kMi);
  CHECK(a->take(4 * kMi));
  CHECK(b->take(4 * kMi));
  std::filesystem::remove_all(folder.folder());
  const auto newcomer = join(10 * kMi);
  for (Group* const member : {a.get(), b.get()}) {
    member->meet_again();
    member->meet_again();
  }
  CHECK(newcomer->used() == 8 * kMi);
  CHECK_FALSE(newcomer->take(3 * kMi));
  a->give(4 * kMi);
  CHECK(newcomer->take(6 * kMi));
}

TEST_CASE("group: threads of one member claim as one") {
  const Folder folder;
  const auto group = join(8 * kMi);
  std::vector<std::thread> threads;
  std::atomic<bool> exceeded{false};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(static_cast<unsigned>(i));
      for (int round = 0; round < 20000; ++round) {
        const std::uint64_t bytes = random() % (4 * kMi);
        if (group->take(bytes)) {
          exceeded = exceeded || group->used() > 8 * kMi;
          group->give(bytes);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK_FALSE(exceeded);
  CHECK(group->used() == 0);
}

// How often this thread has given up the processor to sleep.
long naps() {
  struct rusage usage {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// It might be stopped.
TEST_CASE("group: whoever clears the dead without end is waited for once") {
  const Folder folder;
  const auto group = join(100);
  REQUIRE(group->take(100));
  const int clears = open(folder.file().c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(cubfc::lock_byte(clears, GroupTable::kMembers, F_WRLCK));
  CHECK_FALSE(group->take(1));
  CHECK(naps() > cubfc::patience::kMostNapsForClearing / 2);
  const long before = naps();
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(group->take(1));
    group->clear_the_dead();
  }
  CHECK(naps() < before + cubfc::patience::kMostNapsForClearing / 4);
  close(clears);
  {
    const Child member = member_that_holds(0, 100);
    CHECK(group->members() == 2);
  }
  CHECK_FALSE(group->take(1));
  CHECK(group->members() == 1);  // it looks again, and nobody is at it any more
}

// All that a child says by cubfc's log.
std::string said_by(const std::function<void()>& run) {
  std::FILE* const file = std::tmpfile();
  Child child([&] {
    dup2(fileno(file), STDERR_FILENO);
    cubfc::log::at_load();
    cubfc::log::start(cubfc::log::Level::kWarn, "");
    run();
  });
  CHECK(child.wait() == 0);
  std::string text(64 * 1024, '\0');
  text.resize(static_cast<std::size_t>(
      std::max<ssize_t>(pread(fileno(file), text.data(), text.size(), 0), 0)));
  std::fclose(file);
  return text;
}

TEST_CASE("group: in another root folder a member stays within the limit, and says so once") {
  const Folder folder;
  const auto other = join(100);
  REQUIRE(other->take(30));
  auto* const may = shared<std::atomic<bool>>();
  const std::string said = said_by([&] {
    std::string why;
    const auto group = Group::join("job", kDevice, 100, why);
    const std::string empty = folder.folder() + "/empty";
    if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) {
      _exit(0);
    }
    if (group == nullptr || mkdir(empty.c_str(), 0700) != 0) {
      _exit(1);
    }
    if (chroot(empty.c_str()) != 0 || chdir("/") != 0) {
      _exit(0);
    }
    *may = true;
    bool is_right = group->take(50);
    for (int i = 0; i < 3; ++i) {
      group->meet_again();
    }
    is_right = is_right && !group->take(30) && group->take(20) && group->used() == 100;
    _exit(is_right ? 0 : 2);
  });
  if (!*may) {
    WARN("this user may not have another root folder");
    return;
  }
  INFO(said);
  CHECK(said.find("is no longer there") != std::string::npos);
  CHECK(said.find("is no longer there") == said.rfind("is no longer there"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(other->take(70));  // it is dead
}

#if !CUBFC_TEST_SANITIZED
// What a killed process leaves is what stands in the memory at that moment: the child is stopped
// after each instruction of claims and of giving back, and the check is made with a copy.
TEST_CASE("group: a member killed at any instruction leaves exactly what can be given back") {
  auto* const table = shared<GroupTable>();
  auto* const left = shared<GroupTable>();
  const bool another_comes_before = GENERATE(false, true);
  table->force(0, 3);
  Child child([&] {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    const bool taken = table->take(1, 100, 1000);
    table->give(1, taken ? 40 : 0);
    _exit(table->take(1, 1000, 1000) ? 1 : 0);
  });
  int status = 0;
  waitpid(child.pid(), &status, 0);
  REQUIRE(WIFSTOPPED(status));
  std::array<int, 101> seen{};
  for (int instructions = 0; WIFSTOPPED(status); ++instructions) {
    std::memcpy(static_cast<void*>(left), table, sizeof(*table));
    if (another_comes_before) {
      REQUIRE(left->take(2, 7, 1000));
    }
    left->recover(1);
    const std::uint64_t held = left->held_by(1);
    INFO(instructions << " instructions, " << held << " held");
    REQUIRE((held == 0 || held == 100 || held == 60));
    ++seen[held];
    REQUIRE(left->used() == held + (another_comes_before ? 10 : 3));
    left->give(1, held);
    REQUIRE(left->held_by(1) == 0);
    REQUIRE(left->used() == (another_comes_before ? 10 : 3));
    if (ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr) != 0) {
      WARN("no process can be stepped through here");
      return;
    }
    waitpid(child.pid(), &status, 0);
  }
  CHECK(WEXITSTATUS(status) == 0);
  for (const std::size_t held : {0U, 100U, 60U}) {
    CHECK(seen[held] > 10);
  }
  munmap(table, sizeof(*table));
  munmap(left, sizeof(*left));
}
#endif

// Others are killed meanwhile; what is claimed is never above the limit, and at the end all of it
// can be had.
TEST_CASE("group: 64 members that claim at random and are killed never exceed the limit") {
  constexpr std::uint64_t kLimit = 1000 * kMi + 1;
  constexpr std::size_t kProcesses = 64;
  const Folder folder;
  struct Watched {
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> most{0};
    std::atomic<std::uint64_t> looks{0};
    std::atomic<std::uint64_t> claims{0};
    std::atomic<bool> stop{false};
  };
  auto* const watched = shared<Watched>();
  const auto work = [&] {
    std::string why;
    const auto group = Group::join("job", kDevice, kLimit, why);
    std::mt19937_64 random(static_cast<std::uint64_t>(getpid()));
    std::vector<std::uint64_t> pieces;
    while (!watched->stop) {
      if (pieces.size() < 8 && random() % 3 != 0) {
        const std::uint64_t bytes = random() % (kLimit >> random() % 20) + 1;
        if (group->take(bytes)) {
          pieces.push_back(bytes);
          ++watched->claims;
        }
      } else if (!pieces.empty()) {
        std::swap(pieces[random() % pieces.size()], pieces.back());
        group->give(pieces.back());
        pieces.pop_back();
      }
    }
  };
  Child watcher([&] {
    std::string why;
    const auto group = Group::join("job", kDevice, kLimit, why);
    while (!watched->stop) {
      const std::uint64_t used = group->used();
      watched->most = std::max(watched->most.load(), used);
      watched->over = watched->over || used > kLimit;
      ++watched->looks;
    }
  });
  std::vector<Child> members;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    members.emplace_back(work);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_of_test());
  std::mt19937_64 random(7);
  int killed = 0;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Child& victim = members[random() % kProcesses];
    victim.kill_it();
    victim = Child(work);
    ++killed;
  }
  std::uint64_t retries = 0;
  std::uint64_t most_retries = 0;
  std::uint64_t changes = 0;
  {
    const auto group = join(kLimit);
    for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
      const GroupTable::Contention contention = group->table().contention_of(i);
      changes += contention.changes;
      retries += contention.retries;
      most_retries = std::max(most_retries, contention.most_retries);
    }
  }
  watched->stop = true;
  watcher.wait();
  members.clear();
  CHECK_FALSE(watched->over);
  CHECK(watched->most > kLimit / 2);
  CHECK(watched->claims > 1000);
  CHECK(most_retries < 1000);
  WARN(killed << " killed, " << watched->claims << " claims, " << changes << " changes, " << retries
              << " retries, " << most_retries << " of one, " << watched->looks << " looks");
  check_all_can_be_had(kLimit);
  munmap(watched, sizeof(*watched));
}
