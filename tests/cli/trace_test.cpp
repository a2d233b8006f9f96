// Traces of cubfc: what is written is read back, and what is wrong with a file is said with its
// place.
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/trace_reader.h"
#include "cli/recordings/trace_writer.h"
#include "reading.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;

// A trace in memory, record by record.
class Bytes {
 public:
  Bytes() {
    trace::Header header{};
    header.magic = trace::kMagic;
    header.version = trace::kVersion;
    header.header_bytes = sizeof(header);
    header.start_unix_ns = 1'700'000'000'000'000'000;
    header.pid = 42;
    add(&header, sizeof(header));
  }

  Bytes& record(Kind kind, std::uint8_t place = 0, std::uint64_t address = 0,
                std::uint64_t bytes = 0, std::uint16_t thread = 0, std::uint8_t caller = 0) {
    const trace::Record record{
        trace::time_and_kind(++time_, kind), address, bytes, 0, thread, place, caller};
    add(&record, sizeof(record));
    return *this;
  }
  Bytes& payload(Kind kind, std::string_view text, std::uint8_t place = 0,
                 std::uint64_t address = 0, std::uint16_t thread = 0) {
    record(kind, place, address, text.size(), thread);
    bytes_ += text;
    bytes_.resize(bytes_.size() + trace::padded(text.size()) - text.size());
    return *this;
  }
  Bytes& place(std::uint8_t number, std::uint64_t context_id,
               trace::Memory memory = trace::Memory::kArena) {
    const trace::PlaceText text{context_id, 0, memory, {}};
    return payload(Kind::kPlace, {reinterpret_cast<const char*>(&text), sizeof(text)}, number);
  }
  template <typename Number>
  Bytes& set(std::size_t at, Number value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
    return *this;
  }

  Bytes& clear(std::size_t from, std::size_t until) {
    std::memset(bytes_.data() + from, 0, until - from);
    return *this;
  }

  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  Recording read() const {
    Input input("x.cubfc", bytes_);
    return read_trace(input);
  }
  std::string complaint() const {
    return recordings::complaint([this] { read(); });
  }

 private:
  void add(const void* data, std::size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
  }

  std::string bytes_;
  std::uint64_t time_ = 0;
};

std::string addresses(const std::vector<std::uint64_t>& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(std::uint64_t)};
}

Recording sample() {
  Recording recording;
  recording.start_unix_ns = 1'700'000'000'000'000'000;
  recording.pid = 42;
  recording.command_line = {"./app", "", "--size", "7"};
  recording.settings = "CUBFC_ALLOCATOR=bfc (default)\n";
  recording.devices = {{0, "NVIDIA H200", 150'000'000'000, 100'000'000'000, {1, 2, 3}, ""},
                       {1, "", 0, ~0ULL, {}, ""}};
  recording.places = {{0, trace::Memory::kArena, 7}, {1, trace::Memory::kManaged, 0}};
  recording.callers = {"", "libtorch_cuda.so"};
  recording.threads = {{}, {4711, "main"}};
  recording.texts = {"out of memory on GPU 0"};
  const auto event = [&](Kind kind, std::uint64_t address, std::uint64_t bytes,
                         std::uint32_t place) {
    Event made;
    made.time_ns = 100 * (recording.events.size() + 1);
    made.kind = kind;
    made.address = address;
    made.bytes = bytes;
    made.place = place;
    recording.events.push_back(made);
  };
  event(Kind::kGrow, 0x1000, 8192, 0);
  event(Kind::kAllocate, 0x1000, 1000, 0);
  recording.events.back().padding = 24;
  recording.events.back().thread = 1;
  recording.events.back().caller = 1;
  event(Kind::kAllocate, 0x9000, 4096, 1);
  event(Kind::kRetire, 0x1000, 1024, 0);
  event(Kind::kReclaim, 0x1000, 1024, 0);
  event(Kind::kFree, 0x9000, 4096, 1);
  event(Kind::kOutOfMemory, 1 << 30, 0, 0);
  recording.events.back().text = 0;
  event(Kind::kEndPlace, 0, 0, 0);
  event(Kind::kClose, 0, 0, kNone);
  return recording;
}

}  // namespace

TEST_CASE("what was written is read back", "[recordings]") {
  const TemporaryFolder folder;
  const Recording written = sample();
  write_trace(folder.file("x.cubfc"), written);
  Input input(folder.file("x.cubfc"));
  const Recording read = read_trace(input);

  CHECK(read.path == folder.file("x.cubfc"));
  CHECK(read.format == "cubfc trace");
  CHECK(read.start_unix_ns == written.start_unix_ns);
  CHECK(read.pid == 42);
  CHECK(read.command_line == written.command_line);
  CHECK(read.settings == written.settings);
  REQUIRE(read.devices.size() == 2);
  CHECK(read.devices[0].name == "NVIDIA H200");
  CHECK(read.devices[0].total_bytes == 150'000'000'000);
  CHECK(read.devices[0].limit_bytes == 100'000'000'000);
  CHECK(read.devices[0].uuid == written.devices[0].uuid);
  CHECK(read.devices[1].number == 1);
  REQUIRE(read.places.size() == 2);
  CHECK(read.places[0].context_id == 7);
  CHECK(read.places[1].memory == trace::Memory::kManaged);
  CHECK(read.places[1].device == 1);
  CHECK(read.callers == written.callers);
  REQUIRE(read.threads.size() == 2);
  CHECK(read.threads[1].id == 4711);
  CHECK(read.threads[1].name == "main");
  CHECK(read.texts == written.texts);
  CHECK(read.closed);
  CHECK_FALSE(read.reached_limit);
  REQUIRE(read.events.size() == written.events.size());
  for (std::size_t i = 0; i < read.events.size(); ++i) {
    INFO(i);
    CHECK(read.events[i].kind == written.events[i].kind);
    CHECK(read.events[i].time_ns == written.events[i].time_ns);
    CHECK(read.events[i].address == written.events[i].address);
    CHECK(read.events[i].padding == written.events[i].padding);
    CHECK(read.events[i].place == written.events[i].place);
    CHECK(read.events[i].thread == written.events[i].thread);
    CHECK(read.events[i].caller == written.events[i].caller);
    CHECK(read.events[i].text == written.events[i].text);
  }
}

TEST_CASE("the same events give the same bytes", "[recordings]") {
  const TemporaryFolder folder;
  write_trace(folder.file("a"), sample());
  Input input(folder.file("a"));
  write_trace(folder.file("b"), read_trace(input));
  CHECK(contents_of(folder.file("a")) == contents_of(folder.file("b")));
}

TEST_CASE("more places than there are numbers are told apart all the same", "[recordings]") {
  const TemporaryFolder folder;
  Recording many;
  for (std::uint32_t i = 0; i < 300; ++i) {
    many.places.push_back({0, trace::Memory::kArena, i + 1});
  }
  for (std::uint32_t i = 0; i < 600; ++i) {
    Event event;
    event.kind = Kind::kAllocate;
    event.place = i % 300;
    many.events.push_back(event);
  }
  write_trace(folder.file("x"), many);
  Input input(folder.file("x"));
  const Recording read = read_trace(input);
  CHECK(read.places.size() == 300);
  for (const Event& event : read.events) {
    CHECK(read.places[event.place].context_id == event.place + 1);
  }
}

TEST_CASE("a number that names another place is another place from there on", "[recordings]") {
  const Recording read = Bytes()
                             .place(1, 7)
                             .record(Kind::kAllocate, 1)
                             .place(1, 8)
                             .record(Kind::kAllocate, 1)
                             .place(1, 7)
                             .record(Kind::kAllocate, 1)
                             .record(Kind::kEndPlace, 1)
                             .place(1, 7)
                             .record(Kind::kAllocate, 1)
                             .read();
  REQUIRE(read.places.size() == 3);
  CHECK(read.places[1].context_id == 8);
  CHECK(read.events[0].place == 0);
  CHECK(read.events[1].place == 1);
  CHECK(read.events[2].place == 0);
  CHECK(read.events[4].place == 2);
}

TEST_CASE("a stack is of the next allocation of its thread, by the objects of that time",
          "[recordings]") {
  const Recording read = Bytes()
                             .place(1, 7)
                             .payload(Kind::kObjects, "1000 2000 0 /lib/a.so\n3000 4000 100 b\n")
                             .payload(Kind::kStack, addresses({0x1010, 0x3001, 0x5000}), 0, 0, 5)
                             .record(Kind::kAllocate, 1, 0x100, 8, 4)
                             .record(Kind::kAllocate, 1, 0x200, 8, 5)
                             .payload(Kind::kObjects, "not a line\n1000 2000 0 c\n")
                             .payload(Kind::kStack, addresses({0x1010}), 0, 0, 5)
                             .record(Kind::kAllocate, 1, 0x300, 8, 5)
                             .record(Kind::kAllocate, 1, 0x400, 8, 5)
                             .read();
  CHECK(read.events[0].stack == kNone);
  REQUIRE(read.events[1].stack == 0);
  CHECK(stack_of(read, 0) == std::vector<std::string>{"/lib/a.so+0x10", "b+0x101", "0x5000"});
  REQUIRE(read.events[2].stack == 1);
  CHECK(stack_of(read, 1) == std::vector<std::string>{"c+0x10"});
  CHECK(read.events[3].stack == kNone);
}

// Numbers of Python's frames, as in a kPythonStack.
std::string numbers(std::initializer_list<std::uint32_t> all) {
  std::string text;
  for (const std::uint32_t number : all) {
    text.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return text;
}

TEST_CASE("Python's frames stand in the place of the interpreter's", "[recordings]") {
  using namespace std::string_literals;
  const Recording read =
      Bytes()
          .place(1, 7)
          .payload(Kind::kObjects,
                   "1000 2000 0 /app\n3000 4000 0 /x/libpython3.12.so.1.0\n"
                   "5000 6000 0 /lib/ext.so\n=3000 00ff\n=9000 11\n=zz 1\n")
          .payload(Kind::kPython, "3.12.1", 0, 0x3010)
          .payload(Kind::kPythonFrame, "/me/train.py\0step"s, 0, 1)
          .payload(Kind::kPythonFrame, "/me/train.py\0main"s, 0, 2)
          .payload(Kind::kStack, addresses({0x5001, 0x3001, 0x5002, 0x1001, 0}), 0, 0, 5)
          .payload(Kind::kPythonStack, numbers({1, 2, 9}), 0, 0, 5)
          .record(Kind::kAllocate, 1, 0x100, 8, 5)
          .payload(Kind::kStack, addresses({0x5001, 0x3001, 0x1001, 0}), 0, 0, 5)
          .record(Kind::kAllocate, 1, 0x200, 8, 5)
          .read();
  CHECK(stack_of(read, 0) == std::vector<std::string>{"/lib/ext.so+0x1", "step (/me/train.py)",
                                                      "main (/me/train.py)", "0x0"});
  CHECK(stack_of(read, 1) ==
        std::vector<std::string>{"/lib/ext.so+0x1", "/x/libpython3.12.so.1.0+0x1", "/app+0x1"});
  CHECK(read.program_object == "/app");
  CHECK(read.build_ids == std::map<std::string, std::string>{{"/x/libpython3.12.so.1.0", "00ff"}});
  const OwnLine line = own_line_of(read, read.stacks[0]);
  CHECK(text_of(read, line, Path::kName) == "train.py (step)");
  CHECK(Bytes().payload(Kind::kPythonStack, "12345").complaint() ==
        "x.cubfc: byte 64: a stack of Python's is not of whole numbers");
}

TEST_CASE("what cubfc fit puts into a program is in none of its stacks", "[recordings]") {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  const std::string file = folder.file(
      "x.cubfc",
      Bytes()
          .place(1, 7)
          .payload(Kind::kObjects, "1000 2000 0 /app\n5000 6000 0 /lib/ext.so\n")
          .payload(Kind::kPython, "3.12.1", 0, 0x3010)
          .payload(Kind::kPythonFrame, "/gpu/python/cubfc_fit/mode.py\0__torch_dispatch__"s, 0, 1)
          .payload(Kind::kPythonFrame, "/site-packages/torch/_ops.py\0__call__"s, 0, 2)
          .payload(Kind::kPythonFrame, "/me/train.py\0step"s, 0, 3)
          .payload(Kind::kPythonFrame, "/gpu/python/cubfc_fit/run.py\0under_mode"s, 0, 4)
          .payload(Kind::kStack, addresses({0x5001, 0x1001}), 0, 0, 5)
          .payload(Kind::kPythonStack, numbers({2, 1, 3, 4}), 0, 0, 5)
          .record(Kind::kAllocate, 1, 0x100, 8, 5)
          .payload(Kind::kStack, addresses({0x5001, 0x1001}), 0, 0, 5)
          .payload(Kind::kPythonStack, numbers({2, 1}), 0, 0, 5)
          .record(Kind::kAllocate, 1, 0x200, 8, 5)
          .payload(Kind::kStack, addresses({0x5001, 0x1001}), 0, 0, 5)
          .payload(Kind::kPythonStack, numbers({2, 3}), 0, 0, 5)
          .record(Kind::kAllocate, 1, 0x300, 8, 5)
          .bytes());
  const Recording read = open_recording(file);
  const auto own_line = [&](std::size_t n) {
    return text_of(read, own_line_of(read, read.stacks[n]), Path::kName);
  };
  CHECK(stack_of(read, 0) == std::vector<std::string>{"step (/me/train.py)"});
  CHECK(own_line(0) == "train.py (step)");
  CHECK(own_line(1) == "PyTorch's backward pass (autograd)");
  CHECK(stack_of(read, 2).size() > 2);  // nothing was put into this one
}

TEST_CASE("PyTorch's backward pass has no Python function that has called it", "[recordings]") {
  const Recording read = Bytes()
                             .place(1, 7)
                             .payload(Kind::kThread, "pt_autograd_0", 0, 0, 5)
                             .payload(Kind::kObjects, "1000 2000 0 /lib/libtorch.so\n")
                             .payload(Kind::kStack, addresses({0x1001}), 0, 0, 5)
                             .record(Kind::kAllocate, 1, 0x100, 8, 5)
                             .read();
  CHECK(stack_of(read, 0).back() == "PyTorch's backward pass (autograd)");
  CHECK(text_of(read, own_line_of(read, read.stacks[0]), Path::kName) ==
        "PyTorch's backward pass (autograd)");
}

TEST_CASE("records of unknown kinds are left out, payload and all", "[recordings]") {
  const Recording read = Bytes()
                             .record(static_cast<Kind>(100))
                             .payload(static_cast<Kind>(0xf0), std::string(100'000, 'x'))
                             .record(Kind::kClose)
                             .read();
  CHECK(read.events.size() == 1);
  CHECK(read.closed);
}

TEST_CASE("a trace may end after any record", "[recordings]") {
  CHECK(Bytes().read().events.empty());
  CHECK_FALSE(Bytes().place(1, 7).record(Kind::kAllocate, 1).read().closed);
  CHECK(Bytes().record(Kind::kFull).read().reached_limit);
}

// The process was killed, or the file system was full.
TEST_CASE("a trace may end anywhere: what is whole is read", "[recordings]") {
  const std::string whole = Bytes()
                                .place(1, 7)
                                .payload(Kind::kObjects, "1000 2000 0 /lib/x.so\n")
                                .payload(Kind::kStack, addresses({0x1234, 0x5678}))
                                .record(Kind::kAllocate, 1, 0x100, 256)
                                .payload(Kind::kNote, "a note that takes more than one record")
                                .payload(static_cast<Kind>(0xf0), "of a kind that is not known")
                                .record(Kind::kFree, 1, 0x100, 256)
                                .record(Kind::kClose)
                                .bytes();
  const auto read = [&](std::string_view bytes) {
    Input input("x.cubfc", bytes);
    return read_recording(input);
  };
  const Recording all = read(whole);
  REQUIRE(all.events.size() == 4);
  CHECK_FALSE(all.is_cut);
  std::size_t events = 0;
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    const Recording part = read(std::string_view(whole).substr(0, bytes));
    INFO("of " << whole.size() << " bytes " << bytes);
    CHECK(part.events.size() >= events);
    events = part.events.size();
    for (std::size_t i = 0; i < events; ++i) {
      CHECK(part.events[i].kind == all.events[i].kind);
      CHECK(part.events[i].address == all.events[i].address);
    }
    CHECK_FALSE(part.closed);
    if (bytes % sizeof(trace::Record) != 0) {
      CHECK(part.is_cut);
    }
  }
  CHECK(events == 3);
  CHECK(Bytes().record(static_cast<Kind>(0xf0), 0, 0, ~0ULL).read().is_cut);
  CHECK(Bytes().set(12, 65U).read().is_cut);
}

// A thread that was killed while it wrote its part of the file, when another had written the next.
TEST_CASE("a trace is read as far as there is no hole in it", "[recordings]") {
  Bytes bytes;
  bytes.place(1, 7).record(Kind::kAllocate, 1, 0x100, 256);
  const std::size_t hole = bytes.size();
  bytes.payload(Kind::kStack, addresses({0x1234, 0x5678, 0x9abc})).record(Kind::kAllocate, 1);
  const std::size_t behind = bytes.size();
  bytes.payload(Kind::kNote, "the rest of it").record(Kind::kClose);
  for (std::size_t from = hole; from < behind; from += 32) {
    const Recording read = Bytes(bytes).clear(from, behind).read();
    CHECK(read.events.size() == 1);
    CHECK(read.is_cut);
    CHECK_FALSE(read.closed);
  }
}

TEST_CASE("what is wrong with a trace is said, and where", "[recordings]") {
  const auto no_place = Bytes().record(Kind::kAllocate, 3).complaint();
  CHECK(no_place == "x.cubfc: byte 64: nothing says what place 3 is");
  CHECK(Bytes().set(0, 'X').complaint() == "x.cubfc: byte 0: this is no cubfc trace");
  CHECK(Bytes().set(8, 2U).complaint() ==
        "x.cubfc: byte 8: the trace has version 2; this cubfc reads 1");
  CHECK(Bytes().set(12, 8U).complaint() == "x.cubfc: byte 12: the header cannot be 8 bytes long");
  CHECK(Bytes().record(Kind::kNote, 0, 0, ~0ULL).complaint() ==
        "x.cubfc: byte 64: a payload of 18446744073709551615 bytes is too long");
  CHECK(Bytes().payload(Kind::kDevice, "short").complaint() ==
        "x.cubfc: byte 64: what is said of a device is too short");
  CHECK(Bytes().payload(Kind::kPlace, "short").complaint() ==
        "x.cubfc: byte 64: what is said of a place is too short");
  CHECK(Bytes().place(1, 1, static_cast<trace::Memory>(9)).complaint() ==
        "x.cubfc: byte 64: a place has memory of the unknown kind 9");
  CHECK(Bytes().payload(Kind::kStack, "12345").complaint() ==
        "x.cubfc: byte 64: a stack is not of whole addresses");
}

TEST_CASE("a file that cannot be read is named with the reason", "[recordings]") {
  CHECK(complaint([] { Input("/nonexistent/x.cubfc"); }) ==
        "/nonexistent/x.cubfc: No such file or directory");
  const TemporaryFolder folder;
  CHECK(complaint([&] {
          Input input(folder.file("."));
          read_trace(input);
        }) == folder.file(".") + ": Is a directory");
}

TEST_CASE("a trace that cannot be written is named with the reason", "[recordings]") {
  CHECK_THROWS_WITH(write_trace("/nonexistent/x", sample()),
                    "/nonexistent/x: No such file or directory");
  CHECK_THROWS_WITH(write_trace("/dev/full", sample()), "/dev/full: No space left on device");
}

}  // namespace cubfc::recordings
