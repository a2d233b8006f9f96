// RMM's logs: both layouts, and what is wrong with a line.
#include <string>

#include "catch.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/rmm_log.h"
#include "reading.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;

constexpr const char* kHeader = "Thread,Time,Action,Pointer,Size,Stream\n";

Recording read(const std::string& text) {
  Input input("run.csv", text);
  return read_recording(input);
}
// Of rows after a header.
std::string complaint_of(const std::string& rows) {
  return complaint([&] { read(kHeader + rows); });
}

}  // namespace

TEST_CASE("a log of RMM is read", "[recordings]") {
  const Recording log = read(std::string(kHeader) +
                             "4711,23:59:59.999999,allocate,0x7f0000000000,1000,0x0\r\n"
                             "4711,00:00:00.000001,allocate,0x7f0000001000,2000,default\r\n"
                             "\r\n"
                             "4712,00:00:00.000002,free,0x7f0000000000,1000,0x0\r\n"
                             "4712,00:00:01:000002,allocate failure,(nil),5000,0x0\r\n"
                             "4712,00:00:01.000003,free,0x7f00000f0000,77,0x0");
  CHECK(log.format == "RMM log");
  REQUIRE(log.events.size() == 5);
  CHECK(log.events[0].kind == Kind::kAllocate);
  CHECK(log.events[0].address == 0x7f0000000000);
  CHECK(log.events[0].bytes == 1000);
  CHECK(log.events[0].time_ns == 0);
  CHECK(log.events[1].time_ns == 2000);
  CHECK(log.events[2].kind == Kind::kFree);
  CHECK(log.events[2].time_ns == 3000);
  CHECK(log.events[3].kind == Kind::kOutOfMemory);
  CHECK(log.events[3].address == 5000);
  CHECK(log.texts[log.events[3].text] == "RMM: an allocation of 5000 bytes failed");
  CHECK(log.events[4].bytes == 77);
  REQUIRE(log.threads.size() == 3);
  CHECK(log.threads[log.events[0].thread].id == 4711);
  CHECK(log.threads[log.events[2].thread].id == 4712);
  CHECK(log.places.size() == 1);
}

TEST_CASE("a log of RMM from before 0.15 is read", "[recordings]") {
  const Recording log = read(
      "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current "
      "Allocs,Start,End,Elapsed,Location\n"
      "Alloc,1,0x7fae06600000,0,80,0,0,1,1.5,1.75,0.25,<path>/driver,odd.py:683\n"
      "Free,1,0x7fae06600000,0,0,0,0,0,2.5,2.75,0.25,<path>/driver.py:692\n");
  REQUIRE(log.events.size() == 2);
  CHECK(log.events[0].bytes == 80);
  CHECK(log.events[1].kind == Kind::kFree);
  CHECK(log.events[1].bytes == 80);
  CHECK(log.events[1].time_ns == 1'000'000'000);
  CHECK(log.places[log.events[0].place].device == 1);
}

TEST_CASE("columns are found by their names, and without names as they are today", "[recordings]") {
  const Recording other = read("Action,Size,Pointer\nallocate,512,0x1000\nfree,512,0x1000\n");
  REQUIRE(other.events.size() == 2);
  CHECK(other.events[0].bytes == 512);
  CHECK(other.events[1].time_ns == 1);
  CHECK(read("1,00:00:00.000000,allocate,0x1000,512,0x0\n").events.size() == 1);
}

TEST_CASE("requests for nothing, which have no address, are left out", "[recordings]") {
  CHECK(read(std::string(kHeader) +
             "1,0.5,allocate,(nil),0,0x0\n1,0.5,allocate,0x0,0,0x0\n1,0.5,free,0x0,0,0x0\n")
            .events.empty());
}

TEST_CASE("an empty pointer is none, and a request for nothing has any", "[recordings]") {
  const Recording log = read(std::string(kHeader) +
                             "1,0.1,allocate failure,,2097152,0x0\n1,0.2,allocate,,0,0x0\n"
                             "1,0.3,allocate,0x10,0,0x0\n1,0.4,allocate,0x10,0,0x0\n"
                             "1,0.5,allocate,0x10,100,0x0\n1,0.6,free,0x10,0,0x0\n"
                             "1,0.7,free,0x10,0,0x0\n");
  REQUIRE(log.events.size() == 3);
  CHECK(log.events[0].kind == Kind::kOutOfMemory);
  CHECK(log.events[0].address == 2097152);
  CHECK(log.events[1].bytes == 100);
  CHECK(log.events[2].kind == Kind::kFree);
  CHECK(log.events[2].bytes == 100);
}

TEST_CASE("where a log is cut off within a row, the rest is read", "[recordings]") {
  const std::string whole = std::string(kHeader) +
                            "1,10:00:00.000001,allocate,0x1000,1048576,0x0\n"
                            "1,10:00:00.000002,free,0x1000,1048576,0x0";
  const std::size_t second = whole.rfind('\n') + 1;
  CHECK(read(whole).events.size() == 2);
  CHECK_FALSE(read(whole).is_cut);
  CHECK(read(whole + "\n").events.size() == 2);
  CHECK_FALSE(read(whole.substr(0, second)).is_cut);
  for (std::size_t length = second + 1; length < whole.size() - 3; ++length) {
    INFO(length);
    const Recording cut = read(whole.substr(0, length));
    CHECK(cut.is_cut);
    CHECK(cut.events.size() == 1);
  }
  CHECK(complaint_of("1,10:00:00.000001,allocate,0x10\n") ==
        "run.csv: line 2: the line ends before the size");
}

TEST_CASE("several logs in one file are those of one process after another", "[recordings]") {
  const std::string one = std::string(kHeader) + "1,10:00:00.000001,allocate,0x1000,100,0x0\n";
  const Recording log = read(one + one + one);
  REQUIRE(log.events.size() == 5);
  for (const std::size_t end : {1U, 3U}) {
    CHECK(log.events[end].kind == Kind::kEndPlace);
    CHECK(log.events[end + 1].kind == Kind::kAllocate);
  }
}

TEST_CASE("what is wrong with a log is said, and in which line", "[recordings]") {
  CHECK(complaint_of("1,0,allocate,0x1,x,0x0\n") == "run.csv: line 2: the size is not a number");
  CHECK(complaint_of("1,0,allocate,0x1,-1,0x0\n") == "run.csv: line 2: the size is not a number");
  CHECK(complaint_of("1,0,allocate,0x1,18446744073709551616,0x0\n") ==
        "run.csv: line 2: the size is not a number");
  CHECK(complaint_of("1,0,allocate,zebra,1,0x0\n") ==
        "run.csv: line 2: the pointer is not a hexadecimal number");
  CHECK(complaint_of("\n1,0,grow,0x1,1,0x0\n") ==
        "run.csv: line 3: the action is not allocate, free or allocate failure");
  CHECK(complaint_of("1,0,allocate\n") == "run.csv: line 2: the line ends before the size");
  CHECK(complaint_of("x,0,allocate,0x1,1,0x0\n") == "run.csv: line 2: the thread is not a number");
  for (const char* time : {"x", "25:00:00.000000", "00:60:00.0", "1:2:3.4.5", "1:2", "-1", "nan",
                           "1e300", "1:2:3.4444"}) {
    INFO(time);
    CHECK(complaint_of("1," + std::string(time) + ",allocate,0x1,1,0x0\n") ==
          "run.csv: line 2: the time is neither hours:minutes:seconds nor seconds");
  }
  CHECK(complaint([] { read("Thread,Time,Action,Stream\n"); }) ==
        "run.csv: line 1: no column is named Pointer");
  CHECK(complaint([] { read("Event Type,Device ID,Address,Size\nAlloc,256,0x1,1\n"); }) ==
        "run.csv: line 2: the device is not a number below 256");
  CHECK(complaint_of(std::string(100'000, 'x')) ==
        "run.csv: byte 39: a line of more than 65536 bytes begins here");
}

TEST_CASE("a file of no known format is said to be none", "[recordings]") {
  CHECK(complaint([] { read(""); }) == "run.csv: byte 0: the file is empty");
  const std::string none =
      "run.csv: byte 0: this is no cubfc trace, no RMM log and no PyTorch memory snapshot";
  CHECK(complaint([] { read("hello\n"); }) == none);
  const std::string pickle = ", as torch.cuda.memory._dump_snapshot() writes it";
  CHECK(complaint([] { read(" \n{\"segments\": []}"); }) ==
        none + ", but JSON; what is read is the pickle of a snapshot" + pickle);
  CHECK(complaint([] { read("<!DOCTYPE html>"); }) ==
        none + ", but a page; what is read is the snapshot that it was made from" + pickle);
  CHECK(read("cubfc").is_cut);  // as far as it goes it is a trace
}

}  // namespace cubfc::recordings
