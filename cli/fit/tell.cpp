#include "cli/fit/tell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>

#include "cli/report/text_table.h"
#include "cli/report/wording.h"

namespace cubfc::cli::fit {
namespace {

using report::bytes_text;
using report::count_text;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::size_t kMostNotes = 12;

std::string title_of(const Program& program) {
  // `python3 -u train.py --layers 24` is train.py.
  for (std::size_t n = 1; n < program.words.size(); ++n) {
    if (program.words[n].ends_with(".py")) {
      return std::filesystem::path(program.words[n]).filename();
    }
  }
  return std::filesystem::path(program.words.front()).filename();
}

std::string short_line(const std::string& line) {
  const std::size_t colon = line.rfind(':');
  return std::filesystem::path(line.substr(0, colon)).filename().string() +
         (colon == std::string::npos ? "" : line.substr(colon));
}

// Tells of the process that cubfc_fit ended, if it ended one, else of the one that needs most.
std::string why_it_ended(const Measured& measured) {
  const std::vector<ProcessNotes>& all = measured.run.processes;
  const auto asked = std::ranges::find_if(all, &ProcessNotes::was_ended);
  const ProcessNotes& notes = asked == all.end() ? all[measured.need.process] : *asked;
  const std::string steps = report::counted(notes.steps, "step");
  if (notes.state == "steps") {
    return "after " + steps + ", as the peak had not risen over the last " +
           count_text(notes.steps - notes.peak_step - 1);
  }
  if (notes.state == "seconds") {
    return fmt::format(
        "after {:.0f} s and {}: --seconds. {}", notes.seconds, steps,
        notes.seconds - notes.peak_seconds < notes.seconds / 4
            ? "THE PEAK WAS STILL RISING: more is needed than is said here"
            : fmt::format("The peak was {:.0f} s earlier", notes.seconds - notes.peak_seconds));
  }
  if (notes.state == "waits") {
    return "in or after a loop that waits for a value, at " +
           report::printable(short_line(notes.waited_at));
  }
  return notes.steps > 0 ? "by itself, after " + steps : "by itself";
}

std::string range_text(std::uint64_t least, std::uint64_t most) {
  return bytes_text(least) + (most == least ? "" : " to " + bytes_text(most));
}

const Need& most_of(const Measured& measured) {
  return measured.at_most ? *measured.at_most : measured.need;
}

void add_need(std::string& text, const Program& program, const Measured& measured) {
  const Need& need = measured.need;
  const ProcessNotes* const notes = measured.notes();
  text += fmt::format("{}, as on {}:", report::printable(title_of(program)), measured.gpu.name);
  if (notes != nullptr) {
    text += fmt::format(" PyTorch {}, CUDA {}", notes->torch, notes->cuda);
  }
  text += '\n';
  const Nccl nccl = measured.nccl_on(measured.gpu);
  const std::uint64_t least = need.device + nccl.least + measured.gpu.context_bytes;
  const std::uint64_t beside = measured.beside(measured.gpu);
  const std::uint64_t with_all =
      most_of(measured).device + nccl.most + measured.gpu.context_bytes + beside;
  text += fmt::format("  needs     {} of the GPU{}\n", range_text(least, std::max(least, with_all)),
                      measured.at_most && with_all > least
                          ? ", by what cuDNN's convolutions take for themselves"
                          : "");
  if (beside > 0) {
    text += fmt::format(
        "            {} of it by {} on the same GPU, if all need their most at once\n",
        bytes_text(beside),
        need.processes_beside == 1 ? "another process"
                                   : count_text(need.processes_beside) + " other processes");
  }
  if (nccl.most > 0) {
    text += fmt::format("            {} of it by NCCL, as others saw it ({})\n",
                        range_text(nccl.least, nccl.most),
                        report::counted(notes->communicators.size(), "communicator"));
  }
  text += fmt::format("            {} of it for the process: context, kernels, libraries{}\n",
                      bytes_text(measured.gpu.context_bytes),
                      measured.gpu.context_was_seen ? "" : " (of a GPU like it)");
  if (need.reserved > 0) {
    text += fmt::format("            {} of it by PyTorch's cache (max_memory_reserved)\n",
                        bytes_text(need.reserved));
  }
  if (measured.is_cut_short()) {
    text += "            at least: see what ended it\n";
  }
  text += fmt::format("  tensors   {} at the peak{}\n", bytes_text(need.allocated),
                      notes != nullptr ? " (max_memory_allocated)" : "");
  text += fmt::format("  peak      {}{}\n",
                      notes != nullptr && notes->steps > 0
                          ? fmt::format("in step {}", count_text(notes->peak_step + 1))
                          : fmt::format("{:.1f} s after the GPU was first used",
                                        static_cast<double>(need.peak_ns) / 1e9),
                      need.line.empty() ? "" : ": " + report::printable(need.line));
  for (const Need::Held& held : need.holders) {
    text += fmt::format("  {}{}  {}\n", &held == need.holders.data() ? "held by   " : "          ",
                        report::right(bytes_text(held.bytes), 10), report::printable(held.line));
  }
  if (notes != nullptr) {
    text += "  ended     " + why_it_ended(measured) + '\n';
  }
}

std::string cell_of(const Fits& fits) {
  const auto in_gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kGiB; };
  const std::string tried = fits.by_trial ? ", tried" : "";
  switch (fits.answer) {
    case Fits::Answer::kNotKnown:
      break;
    case Fits::Answer::kNo:
      return fits.by_trial ? "no, tried" : fmt::format("no   {:+.2f}", in_gib(fits.most_left));
    case Fits::Answer::kPerhaps:
      return fmt::format("perhaps {:+.2f}", in_gib(fits.least_left));
    case Fits::Answer::kYes:
      return fits.by_trial ? "fits, tried" : fmt::format("fits {:+.2f}", in_gib(fits.least_left));
  }
  return "not known";
}

void add_verdicts(std::string& text, const Answer& answer) {
  text += fmt::format("\n  {:<19}{:>6}  {:<17}{:<15}{:<15}{}\n", "GPU", "GiB", "PyTorch's cache",
                      "no cache", "cubfc bfc", "cubfc vmm");
  for (const Verdict& verdict : answer.verdicts) {
    text += fmt::format("  {:<19}{:>6.2f}  {:<17}{:<15}{:<15}{}\n", verdict.gpu.name,
                        static_cast<double>(verdict.gpu.total_bytes) / kGiB, cell_of(verdict.cache),
                        cell_of(verdict.none), cell_of(verdict.bfc), cell_of(verdict.vmm));
  }
}

// What a guess of this kind means for the answer.
std::string meaning_of(const Note& note) {
  if (note.kind == "size") {
    return note.what +
           ": how many elements, only a GPU knows; all were taken. The peak may be lower";
  }
  if (note.kind == "size of guesses") {
    return note.what + ": how many elements, only a GPU knows; it was guessed. The peak may differ";
  }
  if (note.kind == "norm") {
    return note.what +
           ": how large the matrix is, only a GPU knows; it was taken for large. The peak may be "
           "lower";
  }
  if (note.kind == "none taken") {
    return note.what +
           ": how many elements, only a GPU knows; none were taken. The peak may be higher";
  }
  if (note.kind == "read") {
    return "a value that only a GPU computes was " + note.what +
           ", and is a guess here (1, true; 0 of whole numbers). What the program decides by it "
           "may "
           "differ";
  }
  if (note.kind == "weights") {
    return note.what + ": were loaded, as --random-weights does not know how large they are";
  }
  if (note.kind == "waits") {
    return "a loop waits for a value that only a GPU computes, and was told others than 1 until it "
           "ended. What comes after it may differ";
  }
  if (note.kind == "convolutions") {
    return "what cuDNN's convolutions take for themselves: mostly from nothing to copies of all "
           "they "
           "read and write";
  }
  if (note.kind == "workspace") {
    return note.what +
           ": what the library takes for it meanwhile is not known. The peak may be higher";
  }
  if (note.kind == "replaced") {
    return note.what + ": PyTorch's own code ran in their place. The peak may be lower or higher";
  }
  return note.kind + ": " + note.what + (note.detail.empty() ? "" : ": " + note.detail);
}

// The guesses of all runs by meaning and line, and how often each was made: the sum over the
// processes of a run, and the largest of all runs.
std::vector<std::tuple<std::string, std::string, std::uint64_t>> guesses_in(const Answer& answer) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
  for (const Measured& measured : answer.measured) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> of_run;
    for (const ProcessNotes& process : measured.run.processes) {
      for (const Note& note : process.notes) {
        of_run[{meaning_of(note), note.line}] += note.count;
      }
    }
    for (const auto& [key, count] : of_run) {
      counts[key] = std::max(counts[key], count);
    }
  }
  std::vector<std::tuple<std::string, std::string, std::uint64_t>> all;
  for (const auto& [key, count] : counts) {
    all.emplace_back(key.first, key.second, count);
  }
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const auto& row) { return std::get<2>(row); });
  return all;
}

void add_guesses(std::string& text, const Answer& answer) {
  const bool are_followed = std::ranges::any_of(answer.measured, [](const Measured& measured) {
    return std::ranges::any_of(measured.run.processes,
                               [](const ProcessNotes& notes) { return !notes.torch.empty(); });
  });
  if (!are_followed) {
    text +=
        "\n  Values were not followed: the program has no PyTorch, or its Python was told not to "
        "look\n"
        "  at PYTHONPATH (-I, -E). What it reads back is 0.\n";
    return;
  }
  const auto guesses = guesses_in(answer);
  if (guesses.empty()) {
    text += "\n  All values that the program read back were computed.\n";
    return;
  }
  text += "\n  Rests on guesses:\n";
  std::map<std::string, std::vector<std::pair<std::string, std::uint64_t>>> by_meaning;
  for (const auto& [meaning, line, count] : guesses) {
    by_meaning[meaning].emplace_back(line, count);
  }
  std::size_t shown = 0;
  for (const auto& [meaning, lines] : by_meaning) {
    text += "    " + report::printable(meaning) + '\n';
    for (const auto& [line, count] : lines) {
      if (++shown > kMostNotes) {
        text += "      and more: --json has all\n";
        return;
      }
      text += fmt::format("      {} at {}\n", report::counted(count, "time"),
                          report::printable(short_line(line)));
    }
  }
}

nlohmann::ordered_json json_of(const Fits& fits) {
  if (fits.answer == Fits::Answer::kNotKnown) {
    return nullptr;
  }
  return {{"fits", fits.answer == Fits::Answer::kYes},
          {"perhaps", fits.answer == Fits::Answer::kPerhaps},
          {"left_bytes", fits.least_left},
          {"left_bytes_at_best", fits.most_left},
          {"tried", fits.by_trial}};
}

void add_figures(nlohmann::ordered_json& json, const Need& need) {
  json["allocated_bytes"] = need.allocated;
  json["reserved_bytes"] = need.reserved;
  json["device_bytes"] = need.device;
  json["bfc_bytes"] = need.bfc ? nlohmann::ordered_json(*need.bfc) : nullptr;
  json["vmm_bytes"] = need.vmm ? nlohmann::ordered_json(*need.vmm) : nullptr;
}

}  // namespace

std::string text_of(const Program& program, const Answer& answer) {
  std::string text;
  // Where no GPU was named, each run is of a generation of GPUs. They need nearly the same, and
  // only the run that needs most is shown.
  const bool are_named = answer.measured.size() == answer.verdicts.size();
  const auto most = std::ranges::max_element(answer.measured, {}, [](const Measured& measured) {
    return measured.need.device + measured.gpu.context_bytes;
  });
  for (const Measured& measured : answer.measured) {
    if (!are_named && &measured != &*most) {
      continue;
    }
    if (!text.empty()) {
      text += '\n';
    }
    add_need(text, program, measured);
  }
  add_verdicts(text, answer);
  add_guesses(text, answer);
  return text;
}

nlohmann::ordered_json json_of(const Program& program, const Answer& answer) {
  nlohmann::ordered_json json;
  json["command"] = program.words;
  json["runs"] = nlohmann::ordered_json::array();
  for (const Measured& measured : answer.measured) {
    const Need& need = measured.need;
    nlohmann::ordered_json run;
    run["gpu"] = measured.gpu.name;
    run["context_bytes"] = measured.gpu.context_bytes;
    const Nccl nccl = measured.nccl_on(measured.gpu);
    run["beside_bytes"] = measured.beside(measured.gpu);
    run["nccl_bytes"] = nlohmann::ordered_json::array({nccl.least, nccl.most});
    add_figures(run, need);
    if (measured.at_most) {
      add_figures(run["with_convolutions"], *measured.at_most);
    }
    run["peak_seconds"] = static_cast<double>(need.peak_ns) / 1e9;
    run["peak_line"] = need.line;
    for (const Need::Held& held : need.holders) {
      run["held"].push_back({{"line", held.line}, {"bytes", held.bytes}});
    }
    for (const ProcessNotes& process : measured.run.processes) {
      nlohmann::ordered_json notes = nlohmann::ordered_json::array();
      for (const Note& note : process.notes) {
        notes.push_back({{"kind", note.kind},
                         {"what", note.what},
                         {"line", note.line},
                         {"detail", note.detail},
                         {"count", note.count},
                         {"elements", note.elements}});
      }
      run["processes"].push_back({{"ended", process.state},
                                  {"torch", process.torch},
                                  {"cuda", process.cuda},
                                  {"steps", process.steps},
                                  {"allocated_bytes", process.allocated},
                                  {"reserved_bytes", process.reserved},
                                  {"guesses", notes}});
    }
    json["runs"].push_back(run);
  }
  json["gpus"] = nlohmann::ordered_json::array();
  for (const Verdict& verdict : answer.verdicts) {
    json["gpus"].push_back({{"name", verdict.gpu.name},
                            {"total_bytes", verdict.gpu.total_bytes},
                            {"context_bytes", verdict.gpu.context_bytes},
                            {"as_on", answer.measured[verdict.measured].gpu.name},
                            {"pytorch_cache", json_of(verdict.cache)},
                            {"no_cache", json_of(verdict.none)},
                            {"cubfc_bfc", json_of(verdict.bfc)},
                            {"cubfc_vmm", json_of(verdict.vmm)}});
  }
  return json;
}

std::string text_of(const Search& search, const std::vector<Found>& found) {
  std::string text = fmt::format("  {:<19}{:>6}  {:<22}{}\n", "GPU", "GiB",
                                 "largest " + report::printable(search.name), "the next one");
  const auto cell = [](const std::optional<Found::Tried>& tried, const char* otherwise) {
    return tried ? fmt::format("{:<8}{}", tried->value, cell_of(tried->cache)) : otherwise;
  };
  for (const Found& each : found) {
    text += fmt::format("  {:<19}{:>6.2f}  {:<22}{}\n", each.gpu.name,
                        static_cast<double>(each.gpu.total_bytes) / kGiB,
                        cell(each.largest, "none"), cell(each.next, "not tried"));
  }
  return text;
}

nlohmann::ordered_json json_of(const Program& program, const Search& search,
                               const std::vector<Found>& found) {
  const auto json_of_tried = [](const std::optional<Found::Tried>& tried) {
    return tried ? nlohmann::ordered_json{{"value", tried->value},
                                          {"pytorch_cache", json_of(tried->cache)}}
                 : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json json;
  json["command"] = program.words;
  json["search"] = search.name;
  json["gpus"] = nlohmann::ordered_json::array();
  for (const Found& each : found) {
    json["gpus"].push_back({{"name", each.gpu.name},
                            {"total_bytes", each.gpu.total_bytes},
                            {"largest", json_of_tried(each.largest)},
                            {"next", json_of_tried(each.next)},
                            {"tried", each.tried}});
  }
  return json;
}

std::string text_of(const std::vector<Gpu>& gpus) {
  std::string text = fmt::format("{:<18}{:>9}{:>12}{:>6}{:>9}  {}\n", "GPU", "GiB", "capability",
                                 "SMs", "context", "in CUDA");
  for (const Gpu& gpu : gpus) {
    text += fmt::format("{:<18}{:>9.2f}{:>12}{:>6}{:>5} MiB{} {}\n", gpu.name,
                        static_cast<double>(gpu.total_bytes) / kGiB,
                        fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10),
                        gpu.multiprocessors, gpu.context_bytes >> 20,
                        gpu.context_was_seen ? " " : "~", gpu.device_name);
  }
  return text + "~ not seen on this GPU, but on one like it\n";
}

}  // namespace cubfc::cli::fit
