#include "cli/recordings/own_code.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>

#include "cli/recordings/file_name.h"

namespace cubfc::recordings {
namespace {

// Packages that ask for memory on a program's behalf: their lines say nothing about the program.
constexpr std::array<std::string_view, 18> kFrameworks{
    "torch",      "functorch", "torchgen", "triton", "jax",           "jaxlib",
    "tensorflow", "keras",     "cupy",     "cupyx",  "cupy_backends", "numba",
    "numba_cuda", "rmm",       "cuda",     "pycuda", "paddle",        "onnxruntime"};
constexpr std::array<std::string_view, 2> kPackages{"/site-packages/", "/dist-packages/"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The first folder behind ".../site-packages/"; empty for a file that is in no package.
std::string_view package_of(std::string_view file) {
  for (const std::string_view packages : kPackages) {
    if (const std::size_t at = file.rfind(packages); at != std::string_view::npos) {
      const std::string_view rest = file.substr(at + packages.size());
      return rest.substr(0, rest.find('/'));
    }
  }
  return {};
}

// Of Python's own library: "/usr/lib/python3.11/threading.py", "<frozen runpy>".
bool is_of_python(std::string_view file) {
  const std::size_t at = file.find("/lib/python3.");
  return file.starts_with("<frozen ") || (at != std::string_view::npos && package_of(file).empty());
}

// Made by torch.compile.
bool is_made(std::string_view file) {
  return contains(file, "/torchinductor_");
}

bool is_of_framework(std::string_view file) {
  const std::string_view package = package_of(file);
  const bool is_torch = file.starts_with("torch/") || contains(file, "/torch/") ||
                        file.starts_with("<eval_with_key>") || is_made(file);
  return is_torch || is_of_python(file) ||
         std::ranges::find(kFrameworks, package) != kFrameworks.end();
}

bool is_of_package(std::string_view file) {
  return is_of_python(file) || is_made(file) || !package_of(file).empty();
}

bool is_of_system(std::string_view object) {
  constexpr std::array<std::string_view, 4> kFolders{"/lib/", "/lib64/", "/usr/lib/",
                                                     "/usr/lib64/"};
  const std::string_view name = file_name(object);
  return name.starts_with("libcu") || name.starts_with("libnv") ||
         std::ranges::any_of(kFolders, [&](auto folder) { return object.starts_with(folder); });
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 18> digits{'0', 'x'};
  const auto end = std::to_chars(digits.data() + 2, digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

std::string_view shown(std::string_view path, Path how) {
  return how == Path::kWhole ? path : file_name(path);
}

// "train.py:12"; empty where no file is known.
std::string place_of(const Frame& frame, Path path) {
  return frame.file.empty() ? ""
                            : std::string(shown(frame.file, path)) +
                                  (frame.line == 0 ? "" : ":" + std::to_string(frame.line));
}

std::string address_of(const Frame& frame, Path path) {
  return (frame.object.empty() ? "" : std::string(shown(frame.object, path)) + "+") +
         hexadecimal(frame.offset);
}

// Makes "at::native::add" of "at::native::add<float>(at::Tensor const&)". The name of an operator
// may have brackets of its own, so it is left as it is, but for operator().
std::string without_brackets(std::string_view name) {
  constexpr std::string_view kCall = "operator()";
  const std::size_t call = name.find(kCall);
  if (call != std::string_view::npos) {
    return without_brackets(name.substr(0, call)) + std::string(kCall);
  }
  if (contains(name, "operator")) {
    return std::string(name);
  }
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() + 1;  // and the colons behind it
      continue;
    }
    const char c = name[i];
    if (depth == 0 && c == '(') {
      break;  // what follows are parameters, and qualifiers
    }
    depth += c == '<' ? 1 : c == '>' ? -1 : 0;
    if (depth == 0 && c != '>') {
      text += c;
    }
  }
  // The name of a template's instance begins with the type that it returns.
  const std::size_t space = text.rfind(' ');
  text = space == std::string::npos ? text : text.substr(space + 1);
  return text.empty() ? std::string(name) : text;
}

}  // namespace

std::string function_text(const Frame& frame, Path path) {
  if (frame.function.empty()) {
    const std::string place = place_of(frame, path);
    return place.empty() ? address_of(frame, path) : place;
  }
  return path == Path::kName && frame.kind == Frame::Kind::kNative
             ? without_brackets(frame.function)
             : frame.function;
}

Frame frame_of_autograd() {
  Frame frame;
  frame.kind = Frame::Kind::kThread;
  frame.function = "PyTorch's backward pass (autograd)";
  return frame;
}

OwnLine own_line_of(const Recording& recording, const std::vector<std::uint32_t>& stack) {
  const auto innermost = [&](auto is_wanted) {
    const auto found = std::ranges::find_if(
        stack, [&](std::uint32_t frame) { return is_wanted(recording.frames[frame]); });
    return found == stack.end() ? kNone : *found;
  };
  const auto is_python = [](const Frame& frame) { return frame.kind == Frame::Kind::kPython; };
  const auto first_of = [](std::initializer_list<std::uint32_t> frames) {
    const auto* const found =
        std::ranges::find_if(frames, [](std::uint32_t frame) { return frame != kNone; });
    return found == frames.end() ? kNone : *found;
  };
  if (innermost(is_python) != kNone) {
    const std::uint32_t own = innermost(
        [&](const Frame& frame) { return is_python(frame) && !is_of_package(frame.file); });
    const std::uint32_t of_no_framework = innermost(
        [&](const Frame& frame) { return is_python(frame) && !is_of_framework(frame.file); });
    const std::uint32_t frame = first_of({of_no_framework, innermost(is_python)});
    return {frame, own == frame ? kNone : own};
  }
  return {
      first_of({innermost([](const Frame& frame) { return frame.kind == Frame::Kind::kThread; }),
                innermost([&](const Frame& frame) {
                  return !frame.object.empty() && frame.object == recording.program_object;
                }),
                innermost([](const Frame& frame) {
                  return !frame.object.empty() && !is_of_system(frame.object);
                }),
                innermost([](const Frame& /*frame*/) { return true; })}),
      kNone};
}

std::vector<std::uint32_t> outline_of(const Recording& recording,
                                      const std::vector<std::uint32_t>& stack) {
  const auto those = [&](auto is_wanted) {
    std::vector<std::uint32_t> found;
    std::ranges::copy_if(stack, std::back_inserter(found),
                         [&](std::uint32_t frame) { return is_wanted(recording.frames[frame]); });
    return found;
  };
  std::vector<std::uint32_t> python =
      those([](const Frame& frame) { return frame.kind == Frame::Kind::kPython; });
  if (!python.empty()) {
    return python;
  }
  const auto is_thread = [&](std::uint32_t frame) {
    return recording.frames[frame].kind == Frame::Kind::kThread;
  };
  if (std::ranges::none_of(stack, is_thread)) {
    return stack;
  }
  return those([](const Frame& frame) {
    const std::string name = function_text(frame, Path::kName);
    return frame.kind == Frame::Kind::kThread || name.starts_with("torch::autograd::generated::") ||
           (name.starts_with("at::_ops::") && name.ends_with("::call"));
  });
}

std::string line_text(const Frame& frame, Path path) {
  std::string function = function_text(frame, path);
  if (frame.function.empty()) {
    return function;
  }
  const std::string place = place_of(frame, path);
  if (!place.empty()) {
    return place + " (" + function + ")";
  }
  return function +
         (frame.object.empty() ? "" : " (" + std::string(shown(frame.object, path)) + ")");
}

std::string frame_text(const Frame& frame, Path path) {
  const std::string function = function_text(frame, path);
  const std::string place = place_of(frame, path);
  const std::string where = place.empty() ? std::string(shown(frame.object, path)) : place;
  return frame.function.empty() || where.empty() ? function : function + " (" + where + ")";
}

std::string text_of(const Recording& recording, const OwnLine& line, Path path) {
  if (line.frame == kNone) {
    return {};
  }
  return line_text(recording.frames[line.frame], path) +
         (line.from == kNone ? "" : ", from " + line_text(recording.frames[line.from], path));
}

}  // namespace cubfc::recordings
