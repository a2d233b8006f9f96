// A group's limit, changed while its members run: what they may claim before, between and after.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "group_members.h"
#include "shim/meet/group_control.h"

using namespace cubfc::test;
using cubfc::Group;
using cubfc::GroupControl;
using cubfc::GroupTable;
using cubfc::Where;
using Changed = GroupControl::Changed;

namespace {

GroupControl control(const std::string& name = "job") {
  std::vector<std::string> unusable;
  std::vector<GroupControl> found = GroupControl::all_of(name, unusable);
  REQUIRE(found.size() == 1);
  REQUIRE(unusable.empty());
  return std::move(found.front());
}

void change(std::uint64_t limit) {
  CHECK(control().change_limit(limit) == Changed::kYes);
}

std::unique_ptr<Group> join_enforced(std::uint64_t limit) {
  std::string why_not;
  return Group::join("job", kDevice, limit, why_not, {.limit_is_enforced = true});
}

// The most that it can claim more; claims nothing.
std::uint64_t could_take(Group& group) {
  const std::uint64_t left = group.left();
  CHECK_FALSE(group.take(left + 1));
  if (left > 0) {
    CHECK(group.take(left));
    group.give(left);
  }
  return left;
}

}  // namespace

TEST_CASE("group limit: raised and lowered, it holds from the next claim on") {
  const Folder folder;
  const auto a = join(10 * kMi);
  const auto b = join(10 * kMi);
  CHECK_FALSE(a->goes_by_changed_limit());
  CHECK(a->take(10 * kMi));
  change(20 * kMi);
  CHECK(a->goes_by_changed_limit());
  CHECK(b->limit() == 20 * kMi);
  CHECK(could_take(*a) == 10 * kMi);
  CHECK(b->take(10 * kMi));
  CHECK_FALSE(a->take(1));
  b->give(10 * kMi);
  change(12 * kMi);
  CHECK(could_take(*b) == 2 * kMi);
  CHECK_FALSE(b->take(13 * kMi));
  CHECK(a->most() == 12 * kMi);
  change(GroupTable::kMostBytes + 1);
  CHECK(a->limit() == GroupTable::kMostBytes);
  CHECK_FALSE(a->take(GroupTable::kMostBytes + 1));
  CHECK(could_take(*a) == GroupTable::kMostBytes - 10 * kMi);
}

TEST_CASE("group limit: lowered below what members have, they keep that, and nobody gets more") {
  const Folder folder;
  const auto a = join(20 * kMi);
  const auto b = join(20 * kMi);
  CHECK(a->take(12 * kMi));
  CHECK(b->take(3 * kMi));
  change(5 * kMi);
  const auto late = join(20 * kMi);
  CHECK(late->limit() == 5 * kMi);
  for (Group* const each : {a.get(), b.get(), late.get()}) {
    CHECK(could_take(*each) == 0);
  }
  CHECK(a->most() == 12 * kMi);
  CHECK(late->most() == 5 * kMi);
  a->give(10 * kMi);  // 2 and 3: as much as the limit
  CHECK(could_take(*late) == 0);
  CHECK(could_take(*b) == 0);  // it has all that it had
  CHECK(could_take(*a) == 10 * kMi);
  b->give(3 * kMi);
  CHECK(could_take(*late) == 3 * kMi);
  CHECK(late->take(3 * kMi));
  CHECK(could_take(*b) == 3 * kMi);  // all that was taken before, and no more: 15
  CHECK(b->take(3 * kMi));
  CHECK(could_take(*a) == 7 * kMi);
  CHECK(a->take(7 * kMi));
  CHECK(could_take(*late) == 0);
  CHECK(a->used() == 15 * kMi);
  SECTION("what they have given back because they did not use it is not kept") {
    a->give(9 * kMi);
    a->has_given_back(9 * kMi);  // because another asked for it
    CHECK(a->most() == 12 * kMi);
    control().ask_for_unused([&] { a->has_given_back(9 * kMi); });
    CHECK(a->most() == 5 * kMi);
    CHECK(could_take(*a) == 0);
    b->give(3 * kMi);
    CHECK(could_take(*a) == 3 * kMi);  // of the 12 that it had
    CHECK(could_take(*b) == 3 * kMi);
    control().ask_for_unused([&] { a->has_given_back(100 * kMi); });  // more than it had
    late->give(3 * kMi);
    CHECK(could_take(*b) == 5 * kMi);
  }
  SECTION("told the same once more, or raised to less, they keep what they had") {
    a->give(9 * kMi);
    for (const std::uint64_t limit : {5 * kMi, 6 * kMi, 14 * kMi}) {
      change(limit);
      CHECK(could_take(*a) == 9 * kMi);
    }
    CHECK(could_take(*late) == 8 * kMi);
  }
  SECTION("raised to what they had, nothing is kept") {
    change(15 * kMi);
    CHECK(a->most() == 15 * kMi);
    a->give(9 * kMi);
    CHECK(late->take(9 * kMi));
    CHECK(could_take(*a) == 0);
  }
  SECTION("lowered once more, they keep what they have then") {
    a->give(9 * kMi);
    change(4 * kMi);
    CHECK(could_take(*a) == 0);
    b->give(3 * kMi);
    CHECK(could_take(*a) == kMi);
    CHECK(could_take(*b) == 3 * kMi);
  }
  SECTION("what is taken whatever the limit says") {
    late->force(10 * kMi);
    CHECK(could_take(*a) == 0);
    a->give(9 * kMi);
    CHECK(could_take(*a) == 0);
    late->give(10 * kMi);
    CHECK(could_take(*a) == 9 * kMi);
  }
}

TEST_CASE("group limit: what a member kept goes with it") {
  const Folder folder;
  const auto a = join(20 * kMi);
  CHECK(a->take(2 * kMi));
  Child member = member_that_holds(10 * kMi, 20 * kMi);
  change(5 * kMi);
  member.kill_it();
  a->clear_the_dead();
  CHECK(could_take(*a) == 3 * kMi);
  CHECK(a->take(3 * kMi));
  CHECK_FALSE(a->take(1));
  CHECK(a->most() == 5 * kMi);
}

TEST_CASE("group limit: who has joined with a lower limit keeps to it, and others follow") {
  const Folder folder;
  const auto a = join(10 * kMi);
  const auto lower = join(4 * kMi);
  const auto check = [&](std::uint64_t limit, const std::vector<Group*>& follow) {
    change(limit);
    for (Group* const each : follow) {
      CHECK(each->limit() == limit);
    }
  };
  check(20 * kMi, {a.get()});
  CHECK(lower->limit() == 4 * kMi);
  CHECK_FALSE(lower->goes_by_changed_limit());
  CHECK_FALSE(lower->take(5 * kMi));
  const auto again = join(10 * kMi);   // as one that is started again
  const auto higher = join(40 * kMi);  // what the others are held to holds for it, too
  const auto later = join(9 * kMi);
  CHECK(again->limit() == 20 * kMi);
  CHECK(higher->limit() == 20 * kMi);
  CHECK(later->limit() == 9 * kMi);
  check(6 * kMi, {a.get(), again.get(), higher.get(), later.get()});
  CHECK(lower->limit() == 4 * kMi);
  check(2 * kMi, {a.get(), lower.get(), later.get()});
  check(30 * kMi, {a.get(), again.get(), higher.get()});
  CHECK(later->limit() == 9 * kMi);
  CHECK(lower->limit() == 4 * kMi);
  CHECK(a->highest() == cubfc::arena::Budget::kUnlimited);
}

TEST_CASE("group limit: what is enforced can be lowered and raised again, and never beyond") {
  const Folder folder;
  const auto a = join_enforced(10 * kMi);
  REQUIRE(a != nullptr);
  CHECK(a->highest() == 10 * kMi);
  CHECK(control().change_limit(11 * kMi) == Changed::kIsSealed);
  CHECK(a->limit() == 10 * kMi);
  CHECK_FALSE(a->goes_by_changed_limit());
  change(4 * kMi);
  CHECK(a->limit() == 4 * kMi);
  CHECK(control().change_limit(11 * kMi) == Changed::kIsSealed);
  CHECK(a->limit() == 4 * kMi);
  change(10 * kMi);
  CHECK(could_take(*a) == 10 * kMi);
  const auto more = join(20 * kMi);
  CHECK(more->limit() == 10 * kMi);
  std::vector<GroupControl::Member> members;
  CHECK(control().look(members));
  CHECK(std::ranges::count_if(members, [](const auto& each) { return each.is_sealed; }) == 1);
}

TEST_CASE("group limit: beside one that is enforced, a higher one can be lowered") {
  const Folder folder;
  const auto a = join(30 * kMi);
  const auto enforced = join_enforced(10 * kMi);
  for (const std::uint64_t limit : {20 * kMi, 5 * kMi, 31 * kMi}) {
    change(limit);
    CHECK(a->limit() == limit);
  }
  CHECK(enforced->limit() == 10 * kMi);
}

TEST_CASE("group limit: it is the members', and goes with the last of them") {
  const Folder folder;
  {
    const auto a = join(10 * kMi);
    change(4 * kMi);
    CHECK(join(10 * kMi)->limit() == 4 * kMi);
    CHECK(GroupControl::see("job", kDevice, Where::kAsSet)->changed_limit == 4 * kMi);
  }
  CHECK_FALSE(GroupControl::see("job", kDevice, Where::kAsSet)->changed_limit.has_value());
  CHECK(join(10 * kMi)->limit() == 10 * kMi);
  Child member = member_that_holds(kMi, 10 * kMi);
  change(4 * kMi);
  member.kill_it();
  const auto next = join(10 * kMi);
  CHECK(next->limit() == 10 * kMi);
  CHECK(next->take(10 * kMi));
}

// Each of some that join at once where the last has just been killed: one of them forgets the
// limit.
TEST_CASE("group limit: it is forgotten also by several that join at once") {
  constexpr int kMembers = 4;
  struct Start {
    std::atomic<int> ready;
    std::atomic<bool> go;
    std::array<std::atomic<std::uint64_t>, kMembers> limits;
  };
  for (int round = 0; round < 100; ++round) {
    const Folder folder;
    auto* const start = shared<Start>();
    {
      Child member = member_that_holds(kMi, 10 * kMi);
      change(4 * kMi);
      member.kill_it();
    }
    std::vector<Child> members;
    for (int i = 0; i < kMembers; ++i) {
      members.emplace_back([=] {
        std::string why;
        ++start->ready;
        while (!start->go) {
        }
        const auto own = Group::join("job", kDevice, 10 * kMi, why);
        ++start->ready;
        while (start->ready < 2 * kMembers) {
          std::this_thread::yield();
        }
        start->limits[static_cast<std::size_t>(i)] = own->limit();
      });
    }
    while (start->ready < kMembers) {
      std::this_thread::yield();
    }
    start->go = true;
    for (Child& member : members) {
      CHECK(member.wait() == 0);
    }
    for (const auto& limit : start->limits) {
      CHECK(limit == 10 * kMi);
    }
    munmap(start, sizeof(*start));
  }
}

TEST_CASE("group limit: in a new file it is what it was") {
  const Folder folder;
  const auto a = join(20 * kMi);
  const auto b = join(20 * kMi);
  CHECK(a->take(10 * kMi));
  change(4 * kMi);
  std::filesystem::remove_all(folder.folder());
  const auto newcomer = join(20 * kMi);
  for (Group* const member : {a.get(), b.get()}) {
    member->meet_again();
  }
  CHECK(newcomer->limit() == 4 * kMi);
  CHECK(b->limit() == 4 * kMi);
  CHECK(newcomer->used() == 10 * kMi);
  a->give(10 * kMi);
  CHECK(could_take(*newcomer) == 4 * kMi);
  CHECK(could_take(*a) == 10 * kMi);
  change(5 * kMi);
  CHECK(could_take(*a) == 10 * kMi);  // as it had
  change(3 * kMi);
  CHECK(could_take(*a) == 3 * kMi);
}

TEST_CASE("group limit: whoever looks on sees the living members of that name and no other") {
  const Folder folder;
  std::vector<std::string> unusable;
  CHECK(GroupControl::all_of("job", unusable).empty());
  CHECK_FALSE(GroupControl::see("job", kDevice, Where::kAsSet).has_value());
  const auto a = join(10 * kMi);
  const auto b = join(8 * kMi);
  const auto other = join(kMi, "job-64657669636500000000000000000000");
  CHECK(a->take(3 * kMi));
  CHECK(b->take(kMi));
  { member_that_holds(2 * kMi, 10 * kMi).kill_it(); }
  GroupControl job = control();
  CHECK(job.device() == kDevice);
  CHECK(job.limit() == 10 * kMi);
  std::vector<GroupControl::Member> members;
  CHECK(job.look(members));
  REQUIRE(members.size() == 2);
  CHECK(members[0].held_bytes == 3 * kMi);
  CHECK(members[1].own_limit_bytes == 8 * kMi);
  CHECK(members[1].pid == getpid());
  CHECK(job.used() == 4 * kMi);  // the dead has been cleared
  CHECK(GroupControl::see("job", kDevice, Where::kAsSet)->used == 4 * kMi);
  std::filesystem::remove(folder.file());
  CHECK(job.change_limit(kMi) == Changed::kNot);
  CHECK(errno == ENOENT);
}

TEST_CASE("group limit: a file that is none of a group's is named") {
  const Folder folder;
  { const auto group = join(kMi); }
  const auto size = std::filesystem::file_size(folder.file());
  const auto content =
      GENERATE_COPY(std::string("short"), std::string(size, '\xff'), std::string(size + 1, '\0'));
  std::filesystem::remove(folder.file());
  std::ofstream(folder.file(), std::ios::binary) << content;
  std::filesystem::permissions(folder.file(), std::filesystem::perms(0600));
  std::vector<std::string> unusable;
  CHECK(GroupControl::all_of("job", unusable).empty());
  REQUIRE(unusable.size() == 1);
  CHECK(unusable.front().starts_with(folder.file() + " is not a group's file"));
}

TEST_CASE("group limit: whatever stands in a group's file, it is looked at and changed") {
  const Folder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const auto group = join(kMi);
    std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(folder.file());
    for (std::uint64_t at = 8; at + 8 <= size; at += 8) {
      const std::uint64_t noise = round % 3 == 0 ? ~0ULL : random();
      file.seekp(static_cast<std::streamoff>(at));
      file.write(reinterpret_cast<const char*>(&noise), sizeof(noise));
    }
    file.close();
    GroupControl job = control();
    std::vector<GroupControl::Member> members;
    CHECK(job.look(members));
    job.change_limit(2 * kMi);
    group->take(kMi);
    group->left();
    std::filesystem::remove(folder.file());
  }
}

// At any moment: no more than the highest limit; and once nothing more is changed, exactly what the
// last one allows, whoever was killed in whatever he was doing.
TEST_CASE("group limit: changed at random, by processes that are killed, while members claim") {
  constexpr std::uint64_t kHighest = 64 * kMi;
  constexpr int kMembers = 6;
  const Folder folder;
  const auto group = join(kHighest);
  auto* const stop = shared<std::atomic<bool>>();
  const auto make_member = [&](unsigned seed) {
    return Child([=] {
      std::string why;
      std::mt19937_64 random(seed);
      const auto own = Group::join("job", kDevice, kHighest, why);
      std::uint64_t held = 0;
      while (!*stop) {
        const std::uint64_t bytes = random() % (8 * kMi) + 1;
        if (held >= bytes && random() % 2 == 0) {
          own->give(bytes);
          held -= bytes;
        } else if (own->take(bytes)) {
          held += bytes;
        }
      }
    });
  };
  const auto make_changer = [&](unsigned seed) {
    return Child([=] {
      std::mt19937_64 random(seed);
      std::vector<std::string> unusable;
      while (!*stop) {
        for (GroupControl& job : GroupControl::all_of("job", unusable)) {
          job.change_limit(random() % kHighest + 1);
        }
      }
    });
  };
  std::vector<Child> members;
  for (unsigned i = 0; i < kMembers; ++i) {
    members.push_back(make_member(i));
  }
  Child changer = make_changer(100);
  std::mt19937_64 random(7);
  std::uint64_t most = 0;
  for (unsigned round = 0; round < 60; ++round) {
    for (int look = 0; look < 2000; ++look) {
      most = std::max(most, group->used());
    }
    if (round % 3 == 0) {
      changer = make_changer(101 + round);
    } else {
      members[random() % kMembers] = make_member(1000 + round);
    }
  }
  CHECK(most <= kHighest);
  CHECK(most > 0);
  change(kMi);
  *stop = true;
  for (Child& member : members) {
    CHECK(member.wait() == 0);
  }
  changer.kill_it();
  change(5 * kMi);
  CHECK(could_take(*group) == 5 * kMi);
  CHECK(group->most() == 5 * kMi);
  CHECK(group->members() == 1);
}
