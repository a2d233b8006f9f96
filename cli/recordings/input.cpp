#include "cli/recordings/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace cubfc::recordings {
namespace {

constexpr std::size_t kStepBytes = std::size_t{256} << 10;

}  // namespace

Input::Input(const std::string& path)
    : name_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_ < 0) {
    throw BadRecording(name_ + ": " + std::generic_category().message(errno));
  }
}

Input::Input(std::string name, std::string_view bytes)
    : name_(std::move(name)), at_end_(true), data_(bytes.data()), end_(bytes.size()) {}

Input::~Input() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

std::string_view Input::ahead_after_reading(std::size_t bytes) {
  while (!at_end_ && end_ - begin_ < bytes) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    if (buffer_.size() < end_ + kStepBytes) {
      buffer_.resize(std::max(end_ + kStepBytes, end_ * 2));
    }
    data_ = buffer_.data();
    const ssize_t count = ::read(file_, buffer_.data() + end_, buffer_.size() - end_);
    if (count < 0 && errno != EINTR) {
      throw BadRecording(name_ + ": " + std::generic_category().message(errno));
    }
    at_end_ = count == 0;
    end_ += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  return window();
}

bool Input::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, ahead(1).size()));
    if (now == 0) {
      return false;
    }
    begin_ += now;
    offset_ += now;
    bytes -= now;
  }
  return true;
}

bool Input::line(std::string_view& text, std::size_t at_most) {
  std::size_t looked_at = 0;
  std::size_t end = std::string_view::npos;
  std::string_view here = ahead(1);
  while ((end = here.find('\n', looked_at)) == std::string_view::npos) {
    looked_at = here.size();
    if (looked_at > at_most) {
      fail(offset_, "a line of more than " + std::to_string(at_most) + " bytes begins here");
    }
    here = ahead(looked_at + 1);
    if (here.size() == looked_at) {
      end = looked_at;
      break;
    }
  }
  if (here.empty()) {
    return false;
  }
  text = here.substr(0, end);
  if (text.size() > at_most) {
    fail(offset_, "a line of more than " + std::to_string(at_most) + " bytes begins here");
  }
  is_without_end_ = end == here.size();
  const std::size_t whole = std::min(end + 1, here.size());
  begin_ += whole;
  offset_ += whole;
  if (text.ends_with('\r')) {
    text.remove_suffix(1);
  }
  return true;
}

void Input::fail(std::uint64_t byte, const std::string& text) const {
  throw BadRecording(name_ + ": byte " + std::to_string(byte) + ": " + text);
}

void Input::fail_in_line(std::uint64_t line, const std::string& text) const {
  throw BadRecording(name_ + ": line " + std::to_string(line) + ": " + text);
}

}  // namespace cubfc::recordings
