// Pickles: what Python writes is read, whatever the protocol; nothing in one is obeyed but plain
// data; and snapshots of PyTorch's memory.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot.h"
#include "cli/recordings/pytorch_snapshot/cache.h"
#include "reading.h"

namespace cubfc::recordings {
namespace {

using namespace std::string_literals;
using trace::Kind;

// As make_pickles.py shows it.
std::string shown(const Pickle& pickle, const Pickle::Value& value) {
  using Type = Pickle::Type;
  std::string text;
  char number[64];
  const auto list = [&](const auto& all, auto show, const char* brackets) {
    for (const auto& each : all) {
      text += (text.empty() ? "" : ", ") + show(each);
    }
    return brackets[0] + text + brackets[1];
  };
  switch (value.type) {
    case Type::kNothing:
      return "None";
    case Type::kBool:
      return value.bits != 0 ? "True" : "False";
    case Type::kInteger:
      return std::to_string(static_cast<std::int64_t>(value.bits));
    case Type::kUnsigned:
      return std::to_string(value.bits);
    case Type::kFloat:
      std::snprintf(number, sizeof(number), "%.17g", std::bit_cast<double>(value.bits));
      return number;
    case Type::kText:
      return "'" + std::string(pickle.text(value)) + "'";
    case Type::kList:
      return list(
          pickle.items(value), [&](const Pickle::Value& item) { return shown(pickle, item); },
          "[]");
    case Type::kDict:
      break;
  }
  return list(
      pickle.entries(value),
      [&](const Pickle::Entry& entry) {
        return shown(pickle, entry.first) + ": " + shown(pickle, entry.second);
      },
      "{}");
}

std::string read(const std::string& bytes) {
  Input input("x", bytes);
  const Pickle pickle(input);
  return shown(pickle, pickle.root());
}
std::string complaint_of(const std::string& bytes) {
  return complaint([&] { read(bytes); });
}
std::string snapshot_complaint(const std::string& bytes) {
  return complaint([&] {
    Input input("x", bytes);
    read_pytorch_snapshot(input);
  });
}

}  // namespace

#ifdef CUBFC_PYTHON
TEST_CASE("what Python's pickle writes is read, in each protocol", "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  for (const char* protocol : {"0", "1", "2", "3", "4", "5"}) {
    INFO(protocol);
    Input input(folder.file("plain." + std::string(protocol) + ".pickle"));
    const Pickle pickle(input);
    CHECK(shown(pickle, pickle.root()) == contents_of(folder.file("plain.txt")));
  }
}

TEST_CASE("a PyTorch snapshot becomes what happened, what was there before included",
          "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  const Recording read = open_recording(folder.file("snapshot.pickle"));
  CHECK(read.format == "PyTorch snapshot");
  CHECK(read.start_unix_ns == 1'700'000'000'000'000'000);
  REQUIRE(read.places.size() == 2);
  CHECK(read.places[1].device == 2);

  constexpr std::uint64_t kBase = 0x7F0000000000;
  struct Expected {
    Kind kind;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t time_ns;
    std::uint32_t place = 0;
  };
  const std::vector<Expected> expected = {
      {Kind::kGrow, 0, 0x200000, 0},
      {Kind::kGrow, 0x800000, 0x200000, 0},
      {Kind::kAllocate, 0, 512, 0},
      {Kind::kAllocate, 0x2000, 300, 0},
      {Kind::kAllocate, 0x2200, 512, 0},
      {Kind::kAllocate, 0x1000, 1000, 0},
      {Kind::kGrow, 0x400000, 0x200000, 5000},
      {Kind::kAllocate, 0, 64, 7000, 1},
      {Kind::kAllocate, 0x400000, 2000, 10000},
      {Kind::kFree, 0, 512, 20000},
      {Kind::kRetire, 0x1000, 1024, 30000},
      {Kind::kShrink, 0x800000, 0x200000, 32000},
      {Kind::kReclaim, 0x1000, 1024, 35000},
      {Kind::kOutOfMemory, (1 << 30) - kBase, 0, 40000},
  };
  REQUIRE(read.events.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    CHECK(read.events[i].kind == expected[i].kind);
    CHECK(read.events[i].address == kBase + expected[i].offset);
    CHECK(read.events[i].bytes == expected[i].bytes);
    CHECK(read.events[i].time_ns == expected[i].time_ns);
    CHECK(read.events[i].place == expected[i].place);
  }
  CHECK(read.events[3].padding == 0x200 - 300);  // stated
  CHECK(read.events[5].padding == 1024 - 1000);  // not stated: it is gone at the end
  CHECK(read.events[8].padding == 2048 - 2000);
  CHECK(read.events[0].apart);
  CHECK(read.events[6].apart);
  // What was there before has one number.
  REQUIRE(read.before == 5);
  CHECK(read.numbers() == 10);
  CHECK(read.number_of(0) == 0);
  CHECK(read.number_of(4) == 0);
  CHECK(read.number_of(5) == 1);
  CHECK(&read.event(1) == &read.events[5]);
  CHECK(&read.event(9) == &read.events[13]);
  CHECK(read.texts.back() ==
        "PyTorch asked the driver for 1073741824 bytes; the device had 1048576 free");
  REQUIRE(read.stacks.size() == 1);
  CHECK(read.events[5].stack == 0);
  CHECK(read.events[8].stack == 0);
  CHECK(stack_of(read, 0) ==
        std::vector<std::string>{"empty", "linear (/x/site-packages/torch/nn/functional.py:90)",
                                 "forward (model.py:12)", "train (model.py:40)", "main"});
  CHECK(read.callers == std::vector<std::string>{"", "model.py:12 (forward)",
                                                 "(from before the recording: no stack)",
                                                 "(no stack)"});
  CHECK(read.events[5].caller == 1);
  CHECK(read.events[8].caller == 1);
  CHECK(read.events[2].caller == 2);
  CHECK(read.events[7].caller == 3);
  CHECK_FALSE(read.is_state);
}

TEST_CASE("a PyTorch snapshot's streams, categories and backward pass are told", "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  const Recording read = open_recording(folder.file("labelled.pickle"));
  CHECK(read.threads_are == "stream");
  std::vector<std::string> told;
  for (const Event& event : read.events) {
    if (event.kind == Kind::kAllocate) {
      told.push_back(read.threads[event.thread].name + ": " + read.callers[event.caller]);
    }
  }
  CHECK(told == std::vector<std::string>{
                    "the default stream: [parameter]", "stream 0x5566: model.py:3 (f) [parameter]",
                    "stream 0x5566: PyTorch's backward pass (autograd)",
                    "the default stream: [temporary]", "the default stream: (no stack)"});
  CHECK(read.callers_are == "line and category");
  REQUIRE(read.stacks.size() == 2);
  CHECK(stack_of(read, 1) ==
        std::vector<std::string>{"torch::autograd::Engine::evaluate_function(a, b) "
                                 "(libtorch_cpu.so)",
                                 "clone", "PyTorch's backward pass (autograd)"});
}

TEST_CASE("a PyTorch snapshot without a history is a state", "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  const Recording read = open_recording(folder.file("state.pickle"));
  CHECK(read.is_state);
  CHECK(std::ranges::count(read.events, Kind::kAllocate, &Event::kind) == 3);
  CHECK(std::ranges::count(read.events, Kind::kGrow, &Event::kind) == 2);
  CHECK(read.numbers() == 1);
}

TEST_CASE("times that are all the same are none", "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK_FALSE(open_recording(folder.file("labelled.pickle")).has_times);
  const Recording read = open_recording(folder.file("one_time.pickle"));
  CHECK_FALSE(read.has_times);
  CHECK(read.start_unix_ns == 1'700'000'000'000'000'000);
  CHECK(read.events.front().time_ns == 0);
  CHECK(read.events.back().time_ns > 0);  // the order, in nanoseconds
  CHECK(open_recording(folder.file("snapshot.pickle")).has_times);
}

TEST_CASE("what PyTorch's cache gives follows from its settings and from what is free",
          "[recordings]") {
  const TemporaryFolder folder;
  const std::string command = CUBFC_PYTHON " " CUBFC_MAKE_PICKLES " " + folder.file("");
  REQUIRE(std::system(command.c_str()) == 0);
  const auto held_of = [&](const char* file) {
    const Recording read = open_recording(folder.file(file));
    std::vector<std::uint64_t> held;
    for (const Event& event : read.events) {
      if (event.kind == Kind::kAllocate) {
        held.push_back((event.bytes + event.padding) >> 10U);
      }
    }
    return held;
  };
  // 3 MiB where 3.5 MiB are free, then where 4.5 MiB are.
  CHECK(held_of("given.pickle") == std::vector<std::uint64_t>{3584, 4608, 16384, 8192, 3584, 3072});
  // Of expandable_segments the rest is always split off.
  CHECK(held_of("given_expandable.pickle") ==
        std::vector<std::uint64_t>{3584, 4608, 16384, 8192, 3072, 3072});
  // max_split_size_mb:2: from there on nothing is.
  CHECK(held_of("given_unsplit.pickle") ==
        std::vector<std::uint64_t>{3584, 4608, 16384, 8192, 3584, 4608});
}
#endif

TEST_CASE("PyTorch's cache rounds up to 512 bytes, or to a part of a power of two",
          "[recordings]") {
  CacheSettings settings;
  CHECK(rounded(0, settings) == 512);
  CHECK(rounded(512, settings) == 512);
  CHECK(rounded(513, settings) == 1024);
  CHECK(rounded(~std::uint64_t{0}, settings) == ~std::uint64_t{0});
  settings.divisions = {0, 4};  // of requests from 2 MiB to 4 MiB
  constexpr std::uint64_t kMiB = 1 << 20;
  CHECK(rounded(2 * kMiB, settings) == 2 * kMiB);
  CHECK(rounded(2 * kMiB + 1, settings) == 5 * kMiB / 2);
  CHECK(rounded(7 * kMiB / 2 + 1, settings) == 4 * kMiB);
  CHECK(rounded(kMiB + 1, settings) == kMiB + 512);
  CHECK(rounded(5 * kMiB + 1, settings) == 5 * kMiB + 512);
  settings.divisions = {8};  // of what is smaller than 2 MiB, but for the smallest
  CHECK(rounded(4096, settings) == 4096);
  CHECK(rounded(4097, settings) == 4608);
  CHECK(rounded(9000, settings) == 9216);
  CHECK(rounded(3 * kMiB / 2 + 1, settings) == 13 * kMiB / 8);
  settings.divisions.back() = 2;  // of all that is larger than 32 GiB
  CHECK(rounded((40ULL << 30U) + 1, settings) == 48ULL << 30U);
  CHECK(rounded((100ULL << 30U) + 1, settings) == 128ULL << 30U);
}

TEST_CASE("strings of Python 2 are read", "[recordings]") {
  CHECK(read("S'a\\'b\\\\c\\n\\x41'\n.") == "'a'b\\c\nA'");
  CHECK(read("U\003abc.") == "'abc'");
  CHECK(read("T\003\000\000\000abc."s) == "'abc'");
  CHECK(read("(lp1\nL5L\naI01\na.") == "[5, True]");
}

TEST_CASE("integers of 64 bits are read, larger ones refused by their place", "[recordings]") {
  CHECK(read("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."s) == "18446744073709551615");
  CHECK(read("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s) == "-9223372036854775808");
  CHECK(read("\x80\x02\x8b\x02\x00\x00\x00\x00\x01."s) == "256");
  CHECK(read("\x8a\x00."s) == "0");
  CHECK(complaint_of("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01."s) ==
        "x: byte 2: the integer does not fit 64 bits");
  CHECK(complaint_of("\x8b\xff\xff\xff\xff."s) ==
        "x: byte 0: an integer of 4294967295 bytes does not fit 64 bits");
  CHECK(complaint_of("L18446744073709551616L\n.") == "x: byte 0: the integer does not fit 64 bits");
  CHECK(complaint_of("I12x\n.") == "x: byte 0: this is no integer");
}

TEST_CASE("nothing in a pickle is obeyed but plain data", "[recordings]") {
  CHECK(complaint_of("cos\nsystem\n(S'true'\ntR.") ==
        "x: byte 0: the opcode GLOBAL asks for more than plain data, and is not obeyed");
  CHECK(complaint_of("\x80\x04\x8c\x02os\x8c\x06system\x93."s) ==
        "x: byte 14: the opcode STACK_GLOBAL asks for more than plain data, and is not obeyed");
  for (const auto& [opcode, name] : {std::pair{"R", "REDUCE"},
                                     {"b", "BUILD"},
                                     {"i", "INST"},
                                     {"o", "OBJ"},
                                     {"P", "PERSID"},
                                     {"Q", "BINPERSID"},
                                     {"\x81", "NEWOBJ"},
                                     {"\x82", "EXT1"},
                                     {"\x92", "NEWOBJ_EX"},
                                     {"\x97", "NEXT_BUFFER"}}) {
    CHECK(complaint_of("N" + std::string(opcode) + ".") ==
          "x: byte 1: the opcode " + std::string(name) +
              " asks for more than plain data, and is not obeyed");
  }
  CHECK(complaint_of("\xff.") == "x: byte 0: 0xff is no opcode of a pickle");
}

TEST_CASE("what is wrong with a pickle is said, and where", "[recordings]") {
  CHECK(complaint_of("\x80\x06N."s) == "x: byte 0: protocol 6 of pickles is not known");
  CHECK(complaint_of("N") == "x: byte 1: the pickle ends within its next opcode");
  CHECK(complaint_of(".") == "x: byte 0: the pickle's stack is empty here");
  CHECK(complaint_of("0.") == "x: byte 0: the pickle's stack is empty here");
  CHECK(complaint_of("Nt.") == "x: byte 1: the pickle has no mark here");
  CHECK(complaint_of("N(0a.") == "x: byte 3: there is no list here to add to");
  CHECK(complaint_of("](N(a.") == "x: byte 4: there is no list here to add to");
  CHECK(complaint_of("]N(s.") == "x: byte 3: there is no dictionary here to add to");
  CHECK(complaint_of("}(NNNu.") == "x: byte 5: a key of a dictionary has no value");
  CHECK(complaint_of("\x85.") == "x: byte 0: the pickle's stack is empty here");
  CHECK(complaint_of("h\x01.") == "x: byte 0: nothing is in the memo 1");
  CHECK(complaint_of("g1x\n.") == "x: byte 0: the number of a memo is none");
  CHECK(complaint_of("Nr\xff\xff\xff\xff.") ==
        "x: byte 1: the memo 4294967295 is far beyond those before");
  CHECK(complaint_of("J\x01\x02.") == "x: byte 0: the pickle ends within a number");
  CHECK(complaint_of("X\xff\xff\xff\xffshort") == "x: byte 0: the pickle ends within a string");
  CHECK(complaint_of("\x8d\xff\xff\xff\xff\xff\xff\xff\xffshort") ==
        "x: byte 0: the pickle ends within a string");
  CHECK(complaint_of("Vbad\\u12g4\n.") == "x: byte 0: the string's escapes cannot be read");
  CHECK(complaint_of("S'open\n.") == "x: byte 0: the string's escapes cannot be read");
  CHECK(complaint_of("Fx\n.") == "x: byte 0: this is no floating-point number");
  CHECK(complaint_of("I") == "x: byte 0: the pickle ends within a line");
}

TEST_CASE("depth and repetition cost a pickle no more than its size", "[recordings]") {
  std::string nested;
  for (int i = 0; i < 1'000'000; ++i) {
    nested += "(";
  }
  CHECK(complaint_of(nested) == "x: byte 1000000: the pickle ends within its next opcode");
  nested.clear();
  for (int i = 0; i < 200'000; ++i) {
    nested += "]";
  }
  nested.append(199'999, 'a');
  nested += ".";
  Input input("x", nested);
  CHECK_NOTHROW([&] { const Pickle pickle(input); }());
  // Each list is ten times the one before.
  std::string bomb = "]q\000"s;
  for (char i = 1; i < 60; ++i) {
    bomb += "]q"s + i + "("s;
    for (int j = 0; j < 10; ++j) {
      bomb += "h"s + static_cast<char>(i - 1);
    }
    bomb += "e";
  }
  bomb += ".";
  Input repeated("x", bomb);
  CHECK_NOTHROW([&] { const Pickle pickle(repeated); }());
}

TEST_CASE("what is wrong with a snapshot is said, with its path", "[recordings]") {
  CHECK(snapshot_complaint("}.") ==
        "x: the pickle is no memory snapshot: it has neither ['segments'] nor ['device_traces']");
  CHECK(snapshot_complaint("N.") ==
        "x: the pickle is no memory snapshot: it has neither ['segments'] nor ['device_traces']");
  CHECK(snapshot_complaint("}U\010segmentsNs.") == "x: ['segments'] is no list");
  CHECK(snapshot_complaint("}U\010segments]Nas.") == "x: ['segments'][0] is no dictionary");
  CHECK(snapshot_complaint("]}a.") == "x: [0]['device'] is not there");
  CHECK(snapshot_complaint("]}U\006devicef.") == "x: byte 10: 0x66 is no opcode of a pickle");
  CHECK(snapshot_complaint("]}U\006deviceNsa.") == "x: [0]['device'] is no number of 64 bits");
  const std::string traces = "}U\015device_traces]]}U\006actionU\005allocs";
  CHECK(snapshot_complaint(traces + "aas.") == "x: ['device_traces'][0][0]['addr'] is not there");
  CHECK(snapshot_complaint(traces + "U\004addrK\001sU\004sizeJ\xff\xff\xff\xffsaas.") ==
        "x: ['device_traces'][0][0]['size'] is no number of 64 bits");
  CHECK(snapshot_complaint(traces + "U\004addrK\001sU\004size\x8a\x09" + std::string(8, '\xff') +
                           "\0saas."s) ==
        "x: ['device_traces'][0][0]['size'] goes beyond the last address");
  CHECK(snapshot_complaint("}U\015device_traces]]}aas.") ==
        "x: ['device_traces'][0][0]['action'] is no text");
}

TEST_CASE("a snapshot that repeats itself is not followed for ever", "[recordings]") {
  // One device's list of 200 times the same entry, 250 devices of 200 lists of it.
  std::string bytes = "}U\015device_traces](](}(U\006actionU\004noneU\004noneNuq\000"s;
  for (int i = 0; i < 200; ++i) {
    bytes += "h\000"s;
  }
  bytes += "eq\001"s;
  for (int i = 0; i < 250; ++i) {
    bytes += "h\001"s;
  }
  bytes += "es.";
  CHECK(snapshot_complaint(bytes).find("than a file of this size can say") != std::string::npos);
}

}  // namespace cubfc::recordings
