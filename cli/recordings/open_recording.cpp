#include "cli/recordings/open_recording.h"

#include <string>
#include <string_view>

#include "cli/recordings/fit_frames.h"
#include "cli/recordings/input.h"
#include "cli/recordings/pytorch_snapshot.h"
#include "cli/recordings/rmm_log.h"
#include "cli/recordings/trace_reader.h"

namespace cubfc::recordings {
namespace {

constexpr std::size_t kBeginning = 4096;

// A pickle begins with the opcode that says its protocol; in protocols 0 and 1, with one that
// begins a dictionary or a list.
bool is_pickle(std::string_view beginning) {
  const char first = beginning[0];
  return first == '\x80' || first == '(' || first == '}' || first == ']';
}

}  // namespace

Recording read_recording(Input& input) {
  const std::string_view beginning = input.ahead(kBeginning).substr(0, kBeginning);
  if (beginning.empty()) {
    input.fail(0, "the file is empty");
  }
  const std::string_view magic(trace::kMagic.data(), trace::kMagic.size());
  if (beginning.starts_with(magic) || magic.starts_with(beginning)) {
    Recording recording = read_trace(input);
    leave_out_frames_of_fit(recording);
    return recording;
  }
  if (is_pickle(beginning)) {
    return read_pytorch_snapshot(input);
  }
  if (is_rmm_log(beginning)) {
    return read_rmm_log(input);
  }
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  const char begins = first == std::string_view::npos ? ' ' : beginning[first];
  std::string what = "this is no cubfc trace, no RMM log and no PyTorch memory snapshot";
  if (begins == '{' || begins == '[' || begins == '<') {
    what += begins == '<' ? ", but a page; what is read is the snapshot that it was made from"
                          : ", but JSON; what is read is the pickle of a snapshot";
    what += ", as torch.cuda.memory._dump_snapshot() writes it";
  }
  input.fail(0, what);
}

Recording open_recording(const std::string& path) {
  Input input(path);
  return read_recording(input);
}

}  // namespace cubfc::recordings
