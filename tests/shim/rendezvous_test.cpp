// Processes that ask each other for memory: without a driver, memory is a number.
#include "shim/meet/rendezvous.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "runtime_folder.h"
#include "shim/meet/shared_files.h"
#include "shim/patience.h"

using cubfc::Rendezvous;

namespace {

constexpr bool kSanitized = CUBFC_TEST_SANITIZED;

constexpr cubfc::DeviceId kDevice{'d', 'e', 'v', 'i', 'c', 'e'};
constexpr cubfc::DeviceId kAnother{'a', 'n', 'o', 't', 'h', 'e', 'r'};

// Nobody else's.
std::string name() {
  return "test-" + std::to_string(getpid());
}
const std::string kName = name();

const cubfc::test::RuntimeFolder kRuntime;

std::string path() {
  return kRuntime.path + "/cubfc/" + kName;
}

// The file where it is made when there is no runtime folder.
std::string path_elsewhere(const char* place) {
  return std::string(place) + "/cubfc-" + std::to_string(geteuid()) + "/" + kName;
}

// False when it has been closed.
bool is_rung(Rendezvous& rendezvous) {
  for (;;) {
    switch (rendezvous.wait_for_ring(std::chrono::seconds(1))) {
      case Rendezvous::Woken::kByRing:
        return true;
      case Rendezvous::Woken::kByInterrupt:
        return false;
      case Rendezvous::Woken::kByTime:
        rendezvous.meet_again();
        break;
    }
  }
}

// A clock by which no time passes but what a test says.
using Clock = cubfc::Asking::Clock;
std::atomic<Clock::rep> time_passed{0};
std::atomic<int> looks_at_time{0};
std::atomic<bool> is_looked_at{false};  // by somebody who has patience
Clock::time_point made_up_now() {
  const Clock::time_point now{Clock::duration(time_passed.load())};
  ++looks_at_time;
  return now;
}
// So much time passes, and whoever has that clock sees it.
void let_time_pass(Clock::duration time) {
  time_passed += time.count();
  const int before = looks_at_time;
  while (is_looked_at && looks_at_time <= before + 1) {
    std::this_thread::yield();
  }
}

// By a clock that each look lets go on.
Clock::time_point hurried_now() {
  time_passed += std::chrono::nanoseconds(std::chrono::milliseconds(300)).count();
  return made_up_now();
}

// A process that has so many bytes to give, and answers.
class Giver {
 public:
  explicit Giver(std::uint64_t bytes, const cubfc::DeviceId& device = kDevice) : left_(bytes) {
    REQUIRE(rendezvous_.offer(device) == 0);
    thread_ = std::thread([this] {
      while (is_rung(rendezvous_)) {
        rendezvous_.answer(
            [this](std::size_t /*number*/, std::uint64_t wanted) {
              const std::uint64_t given =
                  std::min<std::uint64_t>({wanted, left_.load(), most_.load()});
              left_ -= given;
              let_time_pass(pause_);
              return given;
            },
            [this](std::size_t /*number*/) {
              ++answers_;
              return Rendezvous::Left{left_, is_taking_, lasts_};
            });
      }
    });
  }
  ~Giver() {
    rendezvous_.close();
    thread_.join();
    rendezvous_.leave();
  }
  Giver(const Giver&) = delete;
  Giver& operator=(const Giver&) = delete;

  void has(std::uint64_t bytes) { left_ = bytes; }
  // It gives so much at a time, and takes so long for it (by made_up_now).
  void give_slowly(std::uint64_t most, std::chrono::milliseconds pause) {
    most_ = most;
    pause_ = pause;
  }
  // It is about to have more, or no longer.
  void takes(bool is_taking) { is_taking_ = is_taking; }
  // Whether it says that what it answers lasts.
  void lasts(bool it_lasts) { lasts_ = it_lasts; }
  int answers() const { return answers_; }
  std::uint64_t left() const { return left_; }
  Rendezvous& rendezvous() { return rendezvous_; }

 private:
  std::atomic<std::uint64_t> left_;
  std::atomic<std::uint64_t> most_{~0ULL};
  std::atomic<bool> is_taking_{false};
  std::atomic<bool> lasts_{true};
  std::atomic<int> answers_{0};
  std::atomic<Clock::duration> pause_{};
  Rendezvous rendezvous_{kName, made_up_now};
  std::thread thread_;
};

class Child {
 public:
  explicit Child(const std::function<void()>& run) {
    pid_ = fork();
    if (pid_ == 0) {
      run();
      _exit(0);
    }
  }
  // It gives so many bytes until it is killed. Returns when it does. To be called while this
  // process has one thread, or the child could have none (ThreadSanitizer).
  static Child that_gives(std::uint64_t bytes) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    Child child([&] {
      const Giver giver(bytes);
      const char go = 1;
      if (write(ready[1], &go, 1) == 1) {
        pause();
      }
    });
    close(ready[1]);
    char go = 0;
    REQUIRE(read(ready[0], &go, 1) == 1);
    close(ready[0]);
    return child;
  }
  ~Child() {
    if (pid_ > 0) {
      send(SIGKILL);
      wait();
    }
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  void stop() const {
    send(SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

// In a file that children see, too.
template <typename T>
T& shared() {
  void* const at =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  return *new (at) T();
}

}  // namespace

TEST_CASE("where nobody offers anything there is nothing to be had, and no file") {
  Rendezvous alone(kName);
  CHECK(alone.offered(kDevice) == 0);
  CHECK(alone.ask(kDevice, 100) == 0);
  CHECK(alone.changes() == 0);
  CHECK_FALSE(std::filesystem::exists(path()));
  alone.leave();
}

TEST_CASE("who asks gets what others have of that device, and no more") {
  Rendezvous asking(kName);
  {
    Giver first(100);
    const Giver second(1000);
    const Giver of_another(7, kAnother);
    CHECK(asking.offered(kDevice) == 1100);
    CHECK(asking.offered(kAnother) == 7);
    CHECK(asking.offered({}) == 0);
    CHECK(asking.ask(kDevice, 30) == 30);  // of one that has enough
    CHECK(first.left() == 100);
    CHECK(second.left() == 970);
    CHECK(asking.ask(kDevice, 1000) == 1000);
    CHECK(first.left() == 70);
    CHECK(second.left() == 0);
    CHECK(first.rendezvous().offered(kDevice) == 0);  // its own does not count
    CHECK(asking.ask(kDevice, 1000) == 70);
    CHECK(asking.ask(kDevice, 1000) == 0);
    CHECK(of_another.left() == 7);
  }
  CHECK(asking.offered(kDevice) == 0);
  CHECK(std::filesystem::exists(path()));  // it is still mapped here
  asking.leave();
  CHECK_FALSE(std::filesystem::exists(path()));
  CHECK(asking.offered(kDevice) == 0);
}

TEST_CASE("each that is there, or one of them, is asked for all that it has") {
  Rendezvous asking(kName);
  CHECK(asking.ask_for_all(std::nullopt, {}).empty());
  {
    const Child child = Child::that_gives(50);
    Giver first(100);
    const Giver of_another(7, kAnother);
    CHECK(asking.ask_for_all(1 << 30, {}).empty());
    auto answers = asking.ask_for_all(getpid(), {});
    REQUIRE(answers.size() == 2);
    std::sort(answers.begin(), answers.end(),
              [](const auto& a, const auto& b) { return a.given < b.given; });
    CHECK(answers[0].device == kAnother);
    CHECK(answers[0].given == 7);
    CHECK(answers[1].device == kDevice);
    CHECK(answers[1].given == 100);
    CHECK((answers[1].is_answered && answers[1].pid == getpid()));
    CHECK(first.left() == 0);
    CHECK(asking.offered(kDevice) == 50);
    child.stop();
    first.has(10);
    std::uint64_t given = 0;
    std::size_t silent = 0;
    for (const Rendezvous::Answer& answer : asking.ask_for_all(std::nullopt, {})) {
      given += answer.given;
      silent += answer.is_answered ? 0 : 1;
    }
    CHECK(given == 10);
    CHECK(silent == 1);
  }
  CHECK(asking.ask_for_all(std::nullopt, {}).empty());  // the dead are not there
  asking.leave();
}

TEST_CASE("one that has asked can offer, too; one process has several devices") {
  const Giver other(5);
  Rendezvous both(kName);
  CHECK(both.offered(kDevice) == 5);
  REQUIRE(both.offer(kDevice) == 0);
  REQUIRE(both.offer(kAnother) == 1);
  std::thread thread([&] {
    while (is_rung(both)) {
      both.answer([](std::size_t /*number*/, std::uint64_t /*wanted*/) { return 0U; },
                  [](std::size_t number) { return number == 0 ? 10U : 20U; });
    }
  });
  Rendezvous asking(kName);
  CHECK(asking.offered(kDevice) == 15);
  CHECK(asking.offered(kAnother) == 20);
  both.close();
  CHECK(asking.offered(kDevice) == 5);
  thread.join();
  both.leave();
  asking.leave();
}

TEST_CASE("a process that is stopped keeps nobody waiting for ever, and is asked again later") {
  Child child = Child::that_gives(50);
  Rendezvous asking(kName);
  CHECK(asking.offered(kDevice) == 50);
  child.stop();
  for (int i = 0; i < 100; ++i) {
    CHECK(asking.ask(kDevice, 10) == 0);
  }
  CHECK(asking.offered(kDevice) == 0);
  child.send(SIGCONT);
  std::uint64_t offered = 0;
  while ((offered = asking.offered(kDevice)) == 0) {
    usleep(1000);
  }
  CHECK(offered <= 50);
  asking.leave();
}

// Which may be stopped.
TEST_CASE("whoever is about to give all back is waited for in vain once") {
  Giver one(10);
  Giver two(20);
  Rendezvous asking(kName);
  CHECK_FALSE(asking.is_any_closing(kDevice));
  one.rendezvous().begin_to_close();
  CHECK(asking.is_any_closing(kDevice));
  asking.give_up_on_closing(kAnother);
  CHECK(asking.is_any_closing(kDevice));
  asking.give_up_on_closing(kDevice);
  CHECK_FALSE(asking.is_any_closing(kDevice));
  two.rendezvous().begin_to_close();
  CHECK(asking.is_any_closing(kDevice));
  Rendezvous another(kName);
  CHECK(another.is_any_closing(kDevice));
  asking.leave();
  another.leave();
}

TEST_CASE("a process that is stopped is waited for once, for all of its devices together") {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  Child child([&] {
    Rendezvous rendezvous(kName);
    rendezvous.offer(kDevice);
    rendezvous.offer(kAnother);
    const char go = 1;
    if (write(ready[1], &go, 1) == 1) {
      pause();
    }
  });
  char go = 0;
  REQUIRE(read(ready[0], &go, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  Rendezvous asking(kName, hurried_now);
  const int before = looks_at_time;
  CHECK(asking.offered(kDevice) == 0);
  CHECK(looks_at_time > before + 2);  // it was waited for
  CHECK(asking.offered_lately(kDevice).bytes == 0);
  for (const auto& device : {kDevice, kAnother, kDevice, kAnother}) {
    const int at = looks_at_time;
    CHECK(asking.offered(device) == 0);
    CHECK(asking.ask(device, 10) == 0);
    CHECK(looks_at_time <= at + 3);  // when it begins to ask, each time
  }
  asking.leave();
}

TEST_CASE("one that gives slowly is waited for as long as it gives") {
  Giver giver(60);
  giver.give_slowly(20, std::chrono::milliseconds(600));
  Rendezvous asking(kName, made_up_now);
  is_looked_at = true;
  CHECK(asking.ask(kDevice, 50) == 50);
  is_looked_at = false;
  asking.leave();
}

TEST_CASE("what is offered is what there is now") {
  Giver giver(10);
  Rendezvous asking(kName);
  for (std::uint64_t bytes = 1; bytes < 100; ++bytes) {
    giver.has(bytes);
    CHECK(asking.offered(kDevice) == bytes);
  }
  asking.leave();
}

TEST_CASE("who looks wakes nobody whose last answer lasts, nor anybody twice in a short time") {
  Giver giver(10);
  Giver other(100, kAnother);
  Rendezvous looking(kName, made_up_now);
  const auto look = [&] { return looking.offered_lately(kDevice).bytes; };
  const auto answers = [&] { return giver.answers(); };
  CHECK(look() == 10);
  CHECK(answers() == 1);
  giver.has(20);  // and says nothing of it
  for (int i = 0; i < 100; ++i) {
    time_passed += std::chrono::nanoseconds(cubfc::patience::kOldestLastingAnswer).count() / 100;
    CHECK(look() == 10);
  }
  CHECK(answers() == 1);
  giver.rendezvous().changed(0);
  CHECK(look() == 20);
  CHECK(answers() == 2);
  giver.lasts(false);
  giver.rendezvous().changed(0);
  CHECK(look() == 20);  // it has just answered
  CHECK(answers() == 2);
  time_passed += std::chrono::nanoseconds(cubfc::patience::kOldestAnswer).count();
  CHECK(look() == 20);
  CHECK(answers() == 2);
  giver.has(30);
  ++time_passed;
  CHECK(look() == 30);
  CHECK(answers() == 3);
  time_passed += std::chrono::nanoseconds(cubfc::patience::kOldestAnswer).count() + 1;
  CHECK(look() == 30);  // who does not know for how long it is so is asked again
  CHECK(answers() == 4);
  giver.lasts(true);
  time_passed += std::chrono::nanoseconds(std::chrono::seconds(1)).count();
  CHECK(look() == 30);
  CHECK(answers() == 5);
  CHECK(looking.ask(kDevice, 7) == 7);
  CHECK(look() == 23);  // what it gave is no longer there
  CHECK(looking.offered(kDevice) == 23);
  CHECK(looking.offered_lately(kAnother).bytes == 100);
  CHECK(look() == 23);
  const int before = answers();
  giver.has(50);
  CHECK(look() == 23);
  giver.rendezvous().resized(0);  // what the device has is another, too
  CHECK(look() == 50);
  CHECK(answers() == before + 1);
  time_passed += std::chrono::nanoseconds(cubfc::patience::kOldestLastingAnswer).count() + 1;
  CHECK(look() == 50);
  CHECK(answers() == before + 2);  // in case that it does not know of everything
  looking.leave();
}

TEST_CASE("the word of a process that was stopped after it counts until it is asked in vain") {
  Child child = Child::that_gives(50);
  Rendezvous looking(kName);
  CHECK(looking.offered_lately(kDevice).bytes == 50);
  child.stop();
  CHECK(looking.ask(kDevice, 10) == 0);
  for (int i = 0; i < 10; ++i) {
    CHECK(looking.offered_lately(kDevice).bytes == 0);
  }
  child.send(SIGCONT);
  while (looking.offered_lately(kDevice).bytes == 0) {
    usleep(1000);
  }
  looking.leave();
}

TEST_CASE("what others of a group have left is told apart; whoever is dead has nothing left") {
  Child child = Child::that_gives(5);
  Rendezvous giving(kName);
  REQUIRE(giving.offer(kDevice, 77) == 0);
  std::thread thread([&] {
    while (is_rung(giving)) {
      giving.answer([](std::size_t /*number*/, std::uint64_t /*wanted*/) { return 0U; },
                    [](std::size_t /*number*/) { return Rendezvous::Left(40, false, true); });
    }
  });
  Rendezvous looking(kName, made_up_now);
  for (int i = 0; i < 2; ++i) {
    const Rendezvous::Lately lately = looking.offered_lately(kDevice, 77);
    CHECK(lately.bytes == 45);
    CHECK(lately.in_group == 40);
    CHECK(looking.offered_lately(kDevice).in_group == 0);
  }
  child.send(SIGKILL);
  child.wait();
  CHECK(looking.offered_lately(kDevice, 77).bytes == 40);
  giving.close();
  thread.join();
  CHECK(looking.offered_lately(kDevice, 77).bytes == 0);
  giving.leave();
  looking.leave();
}

// It changes all the time. What is seen of it is never older than what the one who looked knew.
TEST_CASE("an answer that lasts is never an old one") {
  std::atomic<std::uint64_t> left{0};
  Rendezvous giving(kName);
  REQUIRE(giving.offer(kDevice) == 0);
  std::atomic<bool> over{false};
  std::thread answering([&] {
    while (is_rung(giving)) {
      giving.answer([](std::size_t /*number*/, std::uint64_t /*wanted*/) { return 0U; },
                    [&](std::size_t /*number*/) { return Rendezvous::Left(left, false, true); });
    }
  });
  std::thread changing([&] {
    while (!over) {
      ++left;
      giving.changed(0);
      std::this_thread::yield();
    }
  });
  Rendezvous looking(kName, hurried_now);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t before = left;
    const std::uint64_t seen = looking.offered_lately(kDevice).bytes;
    const bool is_recent = seen + 1 >= before && seen <= left;  // one may be about to say so
    CHECK(is_recent);
  }
  over = true;
  changing.join();
  giving.close();
  answering.join();
  giving.leave();
  looking.leave();
}

TEST_CASE("who asks is told whether any other is about to have more") {
  Giver giver(10);
  const Giver second(5);
  const Giver of_another(7, kAnother);
  Rendezvous asking(kName);
  CHECK_FALSE(asking.look(kDevice).is_taking);
  giver.takes(true);
  CHECK(asking.look(kDevice).is_taking);
  CHECK(asking.look(kDevice).bytes == 15);
  CHECK_FALSE(asking.look(kAnother).is_taking);
  CHECK_FALSE(giver.rendezvous().look(kDevice).is_taking);  // its own does not count
  giver.takes(false);
  CHECK_FALSE(asking.look(kDevice).is_taking);
  asking.leave();
}

TEST_CASE("whoever comes, gives or leaves is noticed by one who looks on; who looks is not") {
  Child killed = Child::that_gives(5);
  Rendezvous watching(kName);
  std::uint32_t last = watching.changes();
  const auto has_changed = [&] { return std::exchange(last, watching.changes()) != last; };
  CHECK(last != 0);
  {
    Giver giver(10, kAnother);
    CHECK(has_changed());
    CHECK(watching.offered(kAnother) == 10);
    CHECK_FALSE(watching.is_any_closing(kAnother));
    CHECK_FALSE(has_changed());
    CHECK(watching.ask(kAnother, 4) == 4);
    CHECK(has_changed());
    giver.rendezvous().begin_to_close();
    CHECK(has_changed());
    giver.rendezvous().close();
    CHECK(has_changed());
  }
  killed.send(SIGKILL);
  killed.wait();
  CHECK(watching.offered(kDevice) == 0);
  CHECK(has_changed());
  watching.leave();
}

TEST_CASE("when somebody has removed the file, all meet again") {
  const Giver giver(10);
  Rendezvous asking(kName);
  CHECK(asking.offered(kDevice) == 10);
  std::filesystem::remove(path());
  while (asking.offered(kDevice) == 0) {
    usleep(10'000);
  }
  CHECK(asking.ask(kDevice, 100) == 10);
  asking.leave();
}

TEST_CASE("a child that no handler sees takes no part, and harms nothing") {
  Giver giver(10);
  Giver other(20);
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) {
    const bool nothing = giver.rendezvous().offered(kDevice) == 0 &&
                         giver.rendezvous().ask(kDevice, 10) == 0 &&
                         !giver.rendezvous().offer(kAnother);
    giver.rendezvous().close();
    giver.rendezvous().leave();
    _exit(nothing ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(giver.rendezvous().offered(kDevice) == 20);
}

TEST_CASE("limits and masks of the program's cost what it is for, and end no program") {
  {
    Child small([] {
      const rlimit limit{1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
      Rendezvous giving(kName);
      if (giving.offer(kDevice)) {
        _exit(1);
      }
    });
    CHECK(small.wait() == 0);
    CHECK_FALSE(std::filesystem::exists(path()));
    Child masked([] {
      umask(0777);
      Rendezvous giving(kName);
      if (!giving.offer(kDevice)) {
        _exit(1);
      }
    });
    CHECK(masked.wait() == 0);
    const Giver giver(10);  // in the file that it has left
    Child small_beside([] {
      const rlimit limit{1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
      Rendezvous asking(kName);
      if (asking.ask(kDevice, 4) != 4) {
        _exit(1);
      }
    });
    CHECK(small_beside.wait() == 0);
    CHECK(giver.left() == 6);
  }
  CHECK_FALSE(std::filesystem::exists(path()));
}

TEST_CASE("what a killed process offered is gone, also when children of it live on") {
  Rendezvous asking(kName);
  for (int i = 0; i < 5; ++i) {
    int alive[2];  // for as long as this end is open
    REQUIRE(pipe(alive) == 0);
    Child child([&] {
      const Giver giver(50);
      if (fork() == 0) {
        close(alive[1]);
        char end = 0;
        _exit(static_cast<int>(read(alive[0], &end, 1)));
      }
      raise(SIGKILL);
    });
    child.wait();
    CHECK(asking.offered(kDevice) == 0);
    close(alive[0]);
    close(alive[1]);
  }
  const Child another = Child::that_gives(3);
  CHECK(asking.ask(kDevice, 100) == 3);
  asking.leave();
}

TEST_CASE("killed at any moment a process leaves nothing") {
  std::mt19937 random(1);
  const Giver giver(1U << 30);
  for (int i = 0; i < (kSanitized ? 30 : 300); ++i) {
    Child child([] {
      for (;;) {
        Rendezvous asking(kName);
        asking.ask(kDevice, 1);
        asking.leave();
        const Giver mine(10);
      }
    });
    usleep(static_cast<useconds_t>(random() % 3000));
    child.send(SIGKILL);
    child.wait();
    Rendezvous asking(kName);
    REQUIRE(asking.offered(kAnother) == 0);
    REQUIRE(asking.offered(kDevice) <= 1U << 30);
    asking.leave();
  }
  Rendezvous asking(kName);
  CHECK(asking.offered(kDevice) == giver.left());
  asking.leave();
}

TEST_CASE("the file goes with the last, also when all others were killed") {
  {
    Child first = Child::that_gives(1);
    Child second = Child::that_gives(1);
  }
  CHECK(std::filesystem::exists(path()));
  Rendezvous asking(kName);
  CHECK(asking.offered(kDevice) == 0);
  asking.leave();
  CHECK_FALSE(std::filesystem::exists(path()));
}

TEST_CASE("a file stays as long as its process, however many look for those of the dead") {
  // Whoever makes a file removes those of the dead first.
  const auto make = [] {
    std::uint64_t key = 0;
    return cubfc::make_shared_file("test-own-", 4096, key);
  };
  constexpr int kFiles = kSanitized ? 200 : 2000;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      bool all_stay = true;
      for (int file = 0; file < kFiles && all_stay; ++file) {
        const auto made = make();
        all_stay = made && access(made->path.c_str(), F_OK) == 0;
        if (made) {
          munmap(made->data, made->bytes);  // nobody's from now on
        }
      }
      _exit(all_stay ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const auto last = make();
  REQUIRE(last);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRuntime.path + "/cubfc")) {
    left += entry.path().filename().string().starts_with("test-own-") ? 1 : 0;
  }
  CHECK(left == 1);
  cubfc::leave_shared_file(*last);
}

TEST_CASE("64 processes that ask each other finish, and each byte is had once") {
  constexpr int kProcesses = kSanitized ? 8 : 64;
  constexpr std::uint64_t kEach = 1000;
  struct Device {
    std::atomic<std::int64_t> free{0};
    std::atomic<int> ready{0};
    std::atomic<int> done{0};
    std::atomic<std::uint64_t> taken{0};
  };
  Device& device = shared<Device>();
  std::vector<Child> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      std::atomic<std::uint64_t> left{kEach};
      Rendezvous mine(kName);
      if (!mine.offer(kDevice)) {
        _exit(1);
      }
      std::thread thread([&] {
        while (is_rung(mine)) {
          mine.answer(
              [&](std::size_t /*number*/, std::uint64_t wanted) {
                const std::uint64_t given = std::min<std::uint64_t>(wanted, left);
                left -= given;
                device.free += static_cast<std::int64_t>(given);
                return given;
              },
              [&](std::size_t /*number*/) { return left.load(); });
        }
      });
      ++device.ready;
      while (device.ready < kProcesses) {
        usleep(100);
      }
      // Takes what is free, and asks for what is not.
      for (std::uint64_t wanted = 50 * (1 + random() % 15); wanted > 0;) {
        std::int64_t free = device.free;
        const auto takes = std::min<std::int64_t>(free, static_cast<std::int64_t>(wanted));
        if (takes > 0 && device.free.compare_exchange_weak(free, free - takes)) {
          wanted -= static_cast<std::uint64_t>(takes);
          device.taken += static_cast<std::uint64_t>(takes);
        } else if (mine.ask(kDevice, wanted) == 0 && mine.offered(kDevice) == 0 &&
                   device.free <= 0) {
          break;
        }
      }
      ++device.done;
      while (device.done < kProcesses) {
        usleep(100);
      }
      device.taken += left;
      mine.close();
      thread.join();
      mine.leave();
    });
  }
  for (Child& child : children) {
    CHECK(child.wait() == 0);
  }
  CHECK(device.taken + static_cast<std::uint64_t>(device.free.load()) == kProcesses * kEach);
  CHECK_FALSE(std::filesystem::exists(path()));
}

TEST_CASE("threads of one process ask at once") {
  const Giver giver(1'000'000);
  Rendezvous asking(kName);
  std::atomic<std::uint64_t> got{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n) {
        got += asking.ask(kDevice, 7);
        asking.offered(kDevice);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(got == 8 * 100 * 7);
  CHECK(giver.left() == 1'000'000 - got);
  asking.leave();
}

TEST_CASE("a file that is none of ours costs what it is for, and nothing else") {
  const std::filesystem::path folder = std::filesystem::path(path()).parent_path();
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  const auto can_meet = [] {
    Rendezvous giving(kName);
    Rendezvous asking(kName);
    const bool can = giving.offer(kDevice).has_value();
    CHECK(asking.offered(kAnother) == 0);
    giving.close();
    giving.leave();
    asking.leave();
    return can;
  };
  const auto write_file = [](std::size_t bytes, char value) {
    std::ofstream(path(), std::ios::binary) << std::string(bytes, value);
    REQUIRE(chmod(path().c_str(), 0600) == 0);
  };
  CHECK(can_meet());
  // Its size is wrong: it is left alone, and another place used. Nobody has it locked, but what it
  // is nobody knows.
  write_file(17, 'x');
  CHECK(can_meet());
  CHECK(std::filesystem::file_size(path()) == 17);
  std::filesystem::remove(path());
  // All ones.
  std::size_t whole = 0;
  {
    const Giver giver(1);
    whole = std::filesystem::file_size(path());
  }
  write_file(whole, '\xff');
  CHECK(can_meet());
  write_file(whole, '\x01');
  CHECK(can_meet());
  std::filesystem::remove(path());
  // Somebody else might write there; a link; a folder.
  write_file(0, 0);
  REQUIRE(chmod(path().c_str(), 0666) == 0);
  CHECK(can_meet());
  std::filesystem::remove(path());
  std::filesystem::create_symlink("/dev/null", path());
  CHECK(can_meet());
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  CHECK(can_meet());
  std::filesystem::remove(path());
  // Nor is a folder that others may enter.
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  CHECK(can_meet());
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  for (const char* place : {"/dev/shm", "/tmp"}) {
    CHECK_FALSE(std::filesystem::exists(path_elsewhere(place)));
  }
}

TEST_CASE("a file that is filled with anything while processes meet in it harms none of them") {
  for (const char value : {'\xff', '\x01', '\x7f', '\0'}) {
    INFO("filled with " << int{value});
    std::atomic<bool> over{false};
    std::atomic<std::size_t> most_number{0};
    Rendezvous giving(kName);
    REQUIRE(giving.offer(kDevice) == 0);
    std::thread thread([&] {
      while (!over) {
        giving.wait_for_ring(std::chrono::milliseconds(1));
        giving.answer(
            [&](std::size_t number, std::uint64_t /*wanted*/) {
              most_number = std::max(most_number.load(), number);
              return std::uint64_t{0};
            },
            [](std::size_t /*number*/) { return Rendezvous::Left{1000}; });
      }
    });
    Rendezvous asking(kName);
    CHECK(asking.offered(kDevice) == 1000);
    {
      std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
      file << std::string(std::filesystem::file_size(path()), value);
      REQUIRE(file.flush().good());
    }
    asking.offered(kDevice);
    asking.ask(kDevice, 100);
    asking.changes();
    asking.givers(kDevice);
    asking.is_any_closing(kDevice);
    CHECK(asking.ask_for_all(std::nullopt, {}).size() <= 512 * cubfc::meeting::kDevices);
    giving.offer(kAnother);
    over = true;
    thread.join();
    CHECK(most_number < cubfc::meeting::kDevices);
    giving.close();
    giving.leave();
    asking.leave();
    std::filesystem::remove(path());
  }
}

TEST_CASE("without a runtime folder all meet in a folder beside others'") {
  unsetenv("XDG_RUNTIME_DIR");
  {
    const Giver giver(10);
    setenv("XDG_RUNTIME_DIR", kRuntime.path.c_str(), 1);
    Rendezvous asking(kName);  // one that has one looks there, too
    CHECK(asking.offered(kDevice) == 10);
    CHECK_FALSE(std::filesystem::exists(path()));
    asking.leave();
  }
  setenv("XDG_RUNTIME_DIR", kRuntime.path.c_str(), 1);
}
