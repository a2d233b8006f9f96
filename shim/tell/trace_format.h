// The file that CUBFC_TRACE writes, and that `cubfc report` and `cubfc replay` read: what happened
// to the device memory of one process, in the order in which it happened. Knows nothing of CUDA, of
// writing or of reading. All numbers are little-endian.
//
// A file is a Header and then records of 32 bytes. A record whose kind has kHasPayload is followed
// by a payload: `bytes` bytes, padded with zeros to a multiple of 32. A file may end after any
// record, because the process was killed or goes on. A reader skips kinds that it does not know,
// with their payloads.
//
// A place is where blocks lie: the arena of one context, or the memory that the program has of one
// device by one kind of function (PlaceText).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cubfc::trace {

inline constexpr std::array<char, 8> kMagic{'c', 'u', 'b', 'f', 'c', 't', 'r', 'c'};
// Raised only if an older reader must not read the file.
inline constexpr std::uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;   // the first record begins there; at least sizeof(Header)
  std::uint64_t start_unix_ns;  // the moment that times are counted from
  std::int32_t pid;             // in its own namespace
  std::uint32_t stack_depth;    // CUBFC_TRACE_STACKS; 0: none
  std::uint64_t limit_bytes;    // CUBFC_TRACE_LIMIT; 0: none
  std::array<std::uint64_t, 3> reserved;
};
static_assert(sizeof(Header) == 64);

inline constexpr std::uint8_t kHasPayload = 0x80;

enum class Kind : std::uint8_t {
  kNothing = 0,  // to be skipped

  // What happens to blocks. `place`, `thread` and `time` are set in all of these; `caller`, who
  // asked, only in kAllocate.
  kAllocate = 1,  // address; bytes as asked for; padding: what the block has beyond that
  kFree = 2,      // address; bytes of the block, padding included. The memory is free at once
  kRetire = 3,    // the same; the program has freed it, but its memory is in use until kReclaim
  kReclaim = 4,   // address, bytes: the memory of a retired block is free

  // A place takes memory of the device, or gives it back. An arena takes regions, or pages that it
  // maps. A place of memory that is in no arena takes each allocation of the driver's. One more
  // place of the device takes what is preallocated and in no arena yet.
  kGrow = 5,      // address, bytes
  kShrink = 6,    // address, bytes
  kEndPlace = 7,  // the place is gone with all of its blocks and memory: its context has ended

  // Moments.
  kEpoch = 8,  // an epoch is closed: its retired blocks wait for the work that was submitted before
               // this moment; bytes: of these blocks; padding: how many blocks
  kWaited = 9,  // a free has waited for the device, some 10 µs or more; bytes: nanoseconds; `time`:
                // when the wait was over

  kFull = 10,   // the file has reached its limit: nothing was recorded from here on
  kClose = 11,  // the process has ended in order

  // What PyTorch's cache hands out and gets back, of the memory that it has allocated. `place` is
  // 0; padding: the number of the device.
  kTensor = 12,      // address, bytes
  kTensorFree = 13,  // the same

  // Moments at which the program has fallen asleep, or is awake. What its arenas gave back, or took
  // again, was recorded before, as kShrink and kGrow.
  kSleep = 14,  // bytes: of a device, which lie on the host now
  kWake = 15,   // bytes: of those, which are back, or gone with their context

  // With a payload: text in UTF-8 without a zero at its end, unless said otherwise.
  kProgram = kHasPayload | 1,   // the command line, its arguments separated by zeros
  kSettings = kHasPayload | 2,  // "NAME=value (origin)" lines
  kDevice = kHasPayload | 3,    // address: its number; payload: DeviceText
  kPlace = kHasPayload | 4,     // place: its number from here on; payload: PlaceText
  kCaller = kHasPayload | 5,    // caller: its number; payload: the path of the shared object
  kThread = kHasPayload | 6,    // thread: its number; address: its kernel id; payload: its name
  kStack = kHasPayload | 7,     // of the next kAllocate or kTensor of this thread; payload: return
                                // addresses of 8 bytes each, the innermost first
  kObjects = kHasPayload | 8,   // the code that is loaded; written before a stack with code that no
                                // earlier kObjects names. Lines "start end offset path" in
                                // hexadecimal; "=start id", the build id of what is mapped there
  kOutOfMemory = kHasPayload | 9,   // address: bytes asked for; payload: the report
  kNote = kHasPayload | 10,         // anything for people
  kPython = kHasPayload | 11,       // the Python whose frames are recorded; address: in its code;
                                    // payload: the version
  kPythonFrame = kHasPayload | 12,  // address: its number, from 1 on; padding: the line, 0 where it
                                    // is not known; payload: file, zero, function
  kPythonStack = kHasPayload | 13,  // of the same allocation as the kStack before it; payload:
                                    // numbers of 4 bytes each, the innermost first; 0: not known
};

struct Record {
  std::uint64_t time_and_kind;  // nanoseconds since the start, times 256, plus the Kind
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t padding;
  // Numbers. 0: not known. The highest number is shared by all that came when no number was left.
  std::uint16_t thread;  // 65535: a thread that came when all other numbers were given out
  std::uint8_t place;    // 255: a place that began while all other numbers were in use
  std::uint8_t caller;   // 31: a shared object that came when all other numbers were given out
};
static_assert(sizeof(Record) == 32);

constexpr std::uint64_t time_and_kind(std::uint64_t time_ns, Kind kind) {
  return time_ns << 8 | static_cast<std::uint8_t>(kind);
}
constexpr Kind kind_of(const Record& record) {
  return static_cast<Kind>(record.time_and_kind & 0xff);
}
constexpr std::uint64_t time_ns_of(const Record& record) {
  return record.time_and_kind >> 8;
}
constexpr bool has_payload(const Record& record) {
  return (record.time_and_kind & kHasPayload) != 0;
}
// The bytes in the file of a payload of so many bytes.
constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + sizeof(Record) - 1) / sizeof(Record) * sizeof(Record);
}

// By what function the program got the memory of a place.
enum class Memory : std::uint8_t {
  kArena = 0,    // cuMemAlloc and cudaMalloc, served by an arena of a context
  kDirect = 1,   // the same, by the driver
  kOwnPool = 2,  // the same, by a pool of the driver's (CUBFC_ALLOCATOR=cuda_async)
  kPool = 3,     // cuMemAllocAsync and its like
  kManaged = 4,  // cuMemAllocManaged
  kMapped = 5,   // cuMemCreate; also the place of what is held for arenas
  kArray = 6,    // cuArrayCreate and its like
};
inline constexpr std::size_t kMemories = 7;

// The payload of kDevice, followed by the device's name.
struct DeviceText {
  std::uint64_t total_bytes;
  std::uint64_t limit_bytes;  // ~0: none
  std::array<unsigned char, 16> uuid;
};
// The payload of kPlace, followed by nothing.
struct PlaceText {
  std::uint64_t context_id;  // tells arenas' contexts apart; 0: memory outside of arenas
  std::uint8_t device;
  Memory memory;
  std::array<std::uint8_t, 6> reserved;
};

}  // namespace cubfc::trace
