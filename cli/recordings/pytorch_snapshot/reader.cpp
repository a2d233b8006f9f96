#include "cli/recordings/pytorch_snapshot/reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "cli/recordings/pytorch_snapshot/fields.h"
#include "cli/recordings/pytorch_snapshot/stacks.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;

constexpr std::uint64_t kMostDevices = 256;

std::uint32_t as_padding(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

class SnapshotReader {
 public:
  SnapshotReader(const Input& input, const Pickle& pickle, Recording& recording,
                 SnapshotNames& names)
      : root_(pickle.root()), fields_(input, pickle), stacks_(fields_, recording), names_(names) {}

  Histories read() {
    if (root_.type == Pickle::Type::kList) {
      take_segments(root_, "");
      return std::move(histories_);
    }
    const Value* const segments = fields_.find(root_, "segments");
    const Value* const traces = fields_.find(root_, "device_traces");
    if (segments == nullptr && traces == nullptr) {
      fields_.fail(
          "the pickle is no memory snapshot: it has neither ['segments'] nor ['device_traces']");
    }
    take_settings();
    if (segments != nullptr) {
      take_segments(*segments, "['segments']");
    }
    if (traces != nullptr) {
      take_traces(*traces);
    }
    return std::move(histories_);
  }

 private:
  using Value = Pickle::Value;
  using Entry = DeviceHistory::Entry;

  // A setting that is not there, or of another type, keeps its default.
  void take_settings() {
    const Value* const settings = fields_.find(root_, "allocator_settings");
    if (settings == nullptr || settings->type != Pickle::Type::kDict) {
      return;
    }
    histories_.settings_text = fields_.text_or_nothing(*settings, "PYTORCH_CUDA_ALLOC_CONF");
    CacheSettings& cache = histories_.settings;
    cache.max_split_bytes = fields_.number_or(*settings, "max_split_size", cache.max_split_bytes);
    const Value* const divisions = fields_.find(*settings, "roundup_power2_divisions");
    if (divisions == nullptr || divisions->type != Pickle::Type::kDict) {
      return;
    }
    for (std::size_t n = 0; n < cache.divisions.size(); ++n) {  // by MiB: '1', '2', '4', ...
      cache.divisions.at(n) = fields_.number_or(*divisions, std::to_string(std::size_t{1} << n), 0);
    }
  }

  void take_segments(const Value& segments, const std::string& path) {
    std::size_t index = 0;
    for (const Value& segment : fields_.list(&segments, [&] { return path; })) {
      take_segment(segment, [&, index] { return SnapshotFields::at(path, index); });
      ++index;
    }
  }

  template <typename Path>
  void take_segment(const Value& segment, Path path) {
    fields_.check_dict(segment, path);
    const std::uint64_t number_of_device = fields_.number(segment, "device", path);
    if (number_of_device >= kMostDevices) {
      fields_.fail(path() + "['device'] is no number below 256");
    }
    DeviceHistory& device = histories_.devices[number_of_device];
    std::uint64_t address = fields_.number(segment, "address", path);
    device.segments.push_back({.address = address,
                               .bytes = fields_.size(segment, "total_size", address, path),
                               .expandable = fields_.is_true(segment, "is_expandable")});
    const std::uint16_t stream = names_.stream(fields_.number_or(segment, "stream", 0));
    std::size_t index = 0;
    const auto of_block = [&] { return SnapshotFields::at(path() + "['blocks']", index); };
    for (const Value& block :
         fields_.list(fields_.find(segment, "blocks"), [&] { return path() + "['blocks']"; })) {
      fields_.check_dict(block, of_block);
      const std::uint64_t bytes = fields_.size(block, "size", address, of_block);
      const std::string_view state = fields_.text_or_nothing(block, "state");
      if (state == "active_allocated" || state == "active_pending_free" ||
          state == "active_awaiting_free") {
        const std::uint64_t requested =
            std::min(bytes, fields_.number_or(block, "requested_size", bytes));
        device.blocks.push_back({fields_.number_or(block, "address", address), requested,
                                 as_padding(bytes - requested), stack_of_block(block), stream,
                                 names_.category(fields_.text_or_nothing(block, "category")),
                                 false});
      }
      address += bytes;
      ++index;
    }
  }

  std::uint32_t stack_of_block(const Value& block) {
    const Value* const history = fields_.find(block, "history");
    if (history != nullptr && !fields_.items(*history).empty()) {
      return stacks_.stack_of(fields_.items(*history)[0]);
    }
    return stacks_.stack_of(block);
  }

  void take_traces(const Value& traces) {
    std::size_t device = 0;
    const auto of_device = [&] { return SnapshotFields::at("['device_traces']", device); };
    for (const Value& trace :
         fields_.list(&traces, [] { return std::string("['device_traces']"); })) {
      if (device >= kMostDevices) {
        fields_.fail(of_device() + ": there are more than 256 devices");
      }
      const auto& entries = fields_.list(&trace, of_device);
      if (!entries.empty()) {
        take_trace(entries, histories_.devices[device].entries, of_device);
      }
      ++device;
    }
  }

  template <typename Path>
  void take_trace(const std::vector<Value>& values, std::vector<Entry>& entries, Path of_device) {
    entries.reserve(values.size());
    std::size_t index = 0;
    const auto of_entry = [&] { return SnapshotFields::at(of_device(), index); };
    for (const Value& value : values) {
      fields_.check_dict(value, of_entry);
      Entry entry;
      entry.kind = kind_of(value, of_entry);
      if (entry.kind != Kind::kNothing) {
        entry.time_us = fields_.number_or(value, "time_us", 0);
        if (!entries.empty()) {
          entry.time_us = std::max(entry.time_us, entries.back().time_us);
        }
        if (entry.kind == Kind::kOutOfMemory) {
          entry.free_bytes = fields_.number_or(value, "device_free", 0);
        } else {
          entry.address = fields_.number(value, "addr", of_entry);
        }
        entry.bytes = fields_.size(value, "size", entry.address, of_entry);
        entry.expandable = is_of_expandable(value);
        entry.stream = names_.stream(fields_.number_or(value, "stream", 0));
        if (entry.kind == Kind::kAllocate) {
          entry.stack = stacks_.stack_of(value);
          entry.category = names_.category(fields_.text_or_nothing(value, "category"));
        }
        entries.push_back(entry);
      }
      ++index;
    }
  }

  bool is_of_expandable(const Value& entry) const {
    const std::string_view action = fields_.text_or_nothing(entry, "action");
    return action == "segment_map" || action == "segment_unmap";
  }

  // kNothing for an action that is not used here, or not known.
  template <typename Path>
  Kind kind_of(const Value& entry, Path path) const {
    static constexpr std::pair<std::string_view, Kind> kKinds[] = {
        {"alloc", Kind::kAllocate},         {"free_requested", Kind::kRetire},
        {"free_completed", Kind::kReclaim}, {"segment_alloc", Kind::kGrow},
        {"segment_free", Kind::kShrink},    {"segment_map", Kind::kGrow},
        {"segment_unmap", Kind::kShrink},   {"oom", Kind::kOutOfMemory},
    };
    const std::string_view name = fields_.text(entry, "action", path);
    for (const auto& [known, kind] : kKinds) {
      if (known == name) {
        return kind;
      }
    }
    return Kind::kNothing;
  }

  const Value& root_;
  SnapshotFields fields_;
  SnapshotStacks stacks_;
  SnapshotNames& names_;
  Histories histories_;
};

}  // namespace

Histories read_histories(const Input& input, const Pickle& pickle, Recording& recording,
                         SnapshotNames& names) {
  return SnapshotReader(input, pickle, recording, names).read();
}

}  // namespace cubfc::recordings
