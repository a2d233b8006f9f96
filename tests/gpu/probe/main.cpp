// probe [--output FILE] [--may-fill] [--seconds N] [--only TEXT]: asks the CUDA driver of this
// machine what it does where its documentation is silent, and writes the answers as data in the
// form of tests/gpu/behaviour/documented.json. Exits with 77 where there is no driver or no device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "cases.h"
#include "runner.h"

namespace probe {
namespace {

struct Options {
  std::string output = "observed.json";
  std::string only;
  Limits limits;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--may-fill") {
      options.limits.may_fill = true;
    } else if (argument == "--output" && i + 1 < argc) {
      options.output = argv[++i];
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (argument == "--seconds" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      options.limits.total_ms = std::atoi(argv[++i]) * 1000;
    } else {
      std::fprintf(stderr,
                   "usage: probe [--output FILE] [--may-fill] [--seconds N] [--only TEXT]\n\n"
                   "  --output FILE  where the answers go (observed.json)\n"
                   "  --may-fill     takes all of the device's memory for some seconds, which some "
                   "answers need\n"
                   "  --seconds N    asks nothing new after so long (%d)\n"
                   "  --only TEXT    asks that alone which has TEXT in its name\n",
                   Limits{}.total_ms / 1000);
      std::exit(2);
    }
  }
  return options;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

// The GPU's name and the driver's version of CUDA.
Answer identity(Session& s) {
  std::string name(256, '\0');
  s.cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()), s.device());
  int version = 0;
  s.cu.cuDriverGetVersion(&version);
  // One line, as all answers: they come through a pipe, a line each.
  return answer_json("\"gpu\": " + quoted(name.c_str()) + ", \"cuda\": " + std::to_string(version));
}

// "580.95.05"; the driver itself does not say it.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return quoted(word);
    }
  }
  return "null";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::string text(10, '\0');
  std::strftime(text.data(), text.size() + 1, "%Y-%m-%d", &parts);
  return text;
}

class Report {
 public:
  Report(const Driver& driver, const Cases& cases, const std::vector<Answer>& answers) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      take(driver, cases[i], answers[i]);
    }
  }

  [[nodiscard]] std::string json() const {
    return "{\n  \"format\": \"cubfc-behaviour-1\",\n  \"source\": \"observed\",\n  " + identity_ +
           ",\n  \"driver\": " + driver_version() + ",\n  \"date\": " + quoted(today()) +
           ",\n  \"note\": \"written by the probe\",\n" + section("values", values_) + ",\n" +
           section("results", results_) + ",\n" + section("unanswered", unanswered_) + ",\n" +
           section("measurements", measurements_) + "\n}\n";
  }

  void print_summary() const {
    std::printf("%zu results, %zu values, %zu measurements, %zu unanswered\n", results_.size(),
                values_.size(), measurements_.size(), unanswered_.size());
    for (const auto& [id, why] : unanswered_) {
      std::printf("  unanswered: %s: %s\n", id.c_str(), why.c_str());
    }
    for (const auto& [id, value] : measurements_) {
      std::printf("  %s: %s\n", id.c_str(), value.c_str());
    }
  }

 private:
  using Section = std::map<std::string, std::string>;

  void take(const Driver& driver, const Case& one, const Answer& found) {
    const std::string where = quoted(found.note.empty() ? "answered by the driver" : found.note);
    if (one.id == "identity") {
      identity_ = found.json.empty() ? "\"gpu\": null, \"cuda\": null" : found.json;
    } else if (!found.unanswered.empty()) {
      unanswered_[one.id] = quoted(found.unanswered);
    } else if (one.kind == Kind::kMeasurement) {
      measurements_[one.id] = found.json;
    } else if (one.kind == Kind::kValue) {
      values_[one.id] =
          "{\"value\": " + found.json + ", \"basis\": \"observed\", \"where\": " + where + "}";
    } else if (found.result) {
      results_[one.id] = "{\"result\": " + std::to_string(static_cast<int>(*found.result)) +
                         ", \"name\": " + quoted(name_of(driver, *found.result)) +
                         ", \"basis\": \"observed\", \"where\": " + where +
                         (found.capture_survives ? std::string(", \"capture_survives\": ") +
                                                       (*found.capture_survives ? "true" : "false")
                                                 : "") +
                         "}";
    }
  }

  static std::string section(const char* name, const Section& entries) {
    std::string text = std::string("  \"") + name + "\": {";
    const char* before = "\n";
    for (const auto& [id, value] : entries) {
      text += before + std::string("    ") + quoted(id) + ": " + value;
      before = ",\n";
    }
    return text + (entries.empty() ? "}" : "\n  }");
  }

  std::string identity_;
  Section results_;
  Section values_;
  Section unanswered_;
  Section measurements_;
};

// In the order of what a wrong answer costs, where the time is up before all is asked (--seconds):
// bytes between devices, which no GPU has answered for yet; what a capture does not survive; what a
// free may give away; memory of other processes, and mapped; errors; what graphs take; and last
// what concerns how fast something is.
Cases all_cases() {
  Cases cases;
  add_peer_cases(cases);
  add_capture_cases(cases);
  add_value_cases(cases);
  add_sharing_cases(cases);
  add_mapping_cases(cases);
  add_allocation_cases(cases);
  add_query_cases(cases);
  add_stream_cases(cases);
  add_process_cases(cases);
  add_argument_cases(cases);
  add_graph_cases(cases);
  add_address_cases(cases);
  add_waiting_cases(cases);
  add_timing_cases(cases);
  std::ranges::stable_partition(cases,
                                [](const Case& one) { return one.kind != Kind::kMeasurement; });
  cases.insert(cases.begin(), {"identity", identity, Begins::kInContextAlone, Kind::kMeasurement});
  return cases;
}

// Whether there is a device, found out in a child: this process must not initialise CUDA.
bool has_device(const Driver& driver) {
  Cases cases;
  cases.push_back({"device",
                   [](Session& s) {
                     int count = 0;
                     const CUresult result = s.cu.cuInit(0);
                     s.cu.cuDeviceGetCount(&count);
                     return answer_json(result == CUDA_SUCCESS && count > 0 ? "yes" : "no");
                   },
                   Begins::kNothingDone, Kind::kMeasurement});
  return run_cases(driver, cases, {}).front().json == "yes";
}

int run(const Options& options) {
  std::string failure;
  const Driver driver = open_driver(failure);
  if (driver.library == nullptr) {
    std::fprintf(stderr, "probe: no CUDA driver: %s\n", failure.c_str());
    return 77;
  }
  if (const std::string missing = missing_functions(driver); !missing.empty()) {
    std::fprintf(stderr, "probe: the driver is too old, it lacks%s\n", missing.c_str());
    return 77;
  }
  if (!has_device(driver)) {
    std::fprintf(stderr, "probe: there is a CUDA driver, but no device\n");
    return 77;
  }
  Cases cases = all_cases();
  std::erase_if(cases, [&](const Case& one) {
    return one.id != "identity" && one.id.find(options.only) == std::string::npos;
  });
  const Report report(driver, cases, run_cases(driver, cases, options.limits));
  std::ofstream file(options.output);
  file << report.json();
  if (!file.flush()) {
    std::fprintf(stderr, "probe: %s cannot be written\n", options.output.c_str());
    return 1;
  }
  report.print_summary();
  std::printf("written to %s\n", options.output.c_str());
  return 0;
}

}  // namespace
}  // namespace probe

int main(int argc, char** argv) {
  return probe::run(probe::parse(argc, argv));
}
