#include "cli/recordings/pickle/machine.h"

#include <limits>
#include <string>

namespace cubfc::recordings {

void PickleMachine::push_text(std::string_view text) {
  const Value value = next_of(Type::kText, pickle_.texts_);
  pickle_.texts_.emplace_back(text);
  push(value);
}

void PickleMachine::pop_one_or_mark() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

void PickleMachine::push_list(std::size_t count) {
  if (stack_.size() < floor() + count) {
    input_.fail("the pickle's stack is empty here");
  }
  const Value value = next_of(Type::kList, pickle_.lists_);
  pickle_.lists_.emplace_back(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  push(value);
}

void PickleMachine::push_list_from_mark() {
  const std::size_t mark = pop_mark();
  push_list(stack_.size() - mark);
}

// Makes a dictionary of the values that lie on the stack from index `from` on.
void PickleMachine::push_dict(std::size_t from) {
  const Value value = next_of(Type::kDict, pickle_.dicts_);
  pickle_.dicts_.emplace_back();
  stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(from), value);
  if (stack_.size() > from + 1) {
    set_items(from + 1);
  }
}

void PickleMachine::append(std::size_t from) {
  const Value& list = below(from, Type::kList, "list");
  auto& items = pickle_.lists_[list.index];
  items.insert(items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
  stack_.resize(from);
}

void PickleMachine::set_items(std::size_t from) {
  const Value& dict = below(from, Type::kDict, "dictionary");
  if ((stack_.size() - from) % 2 != 0) {
    input_.fail("a key of a dictionary has no value");
  }
  auto& entries = pickle_.dicts_[dict.index];
  for (std::size_t i = from; i < stack_.size(); i += 2) {
    entries.emplace_back(stack_[i], stack_[i + 1]);
  }
  stack_.resize(from);
}

// A pickler counts its numbers up, with hardly a gap. A number far beyond the last is refused,
// since it would only take host memory.
void PickleMachine::remember(std::uint64_t number) {
  constexpr std::uint64_t kGap = 16;
  if (number > memo_.size() + kGap) {
    input_.fail("the memo " + std::to_string(number) + " is far beyond those before");
  }
  if (number >= memo_.size()) {
    memo_.resize(static_cast<std::size_t>(number) + 1);
  }
  memo_[static_cast<std::size_t>(number)] = top();
}

void PickleMachine::recall(std::uint64_t number) {
  if (number >= memo_.size() || !memo_[static_cast<std::size_t>(number)]) {
    input_.fail("nothing is in the memo " + std::to_string(number));
  }
  push(*memo_[static_cast<std::size_t>(number)]);
}

// Only values above the last mark may be read or popped.
const PickleMachine::Value& PickleMachine::top() const {
  if (stack_.size() <= floor()) {
    input_.fail("the pickle's stack is empty here");
  }
  return stack_.back();
}

PickleMachine::Value PickleMachine::pop() {
  const Value value = top();
  stack_.pop_back();
  return value;
}

std::size_t PickleMachine::pop_mark() {
  if (marks_.empty()) {
    input_.fail("the pickle has no mark here");
  }
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

// The object just below index `from`, to which the values from there on are added.
const PickleMachine::Value& PickleMachine::below(std::size_t from, Type type,
                                                 const char* what) const {
  if (from > stack_.size() || from <= floor() || stack_[from - 1].type != type) {
    input_.fail("there is no " + std::string(what) + " here to add to");
  }
  return stack_[from - 1];
}

template <typename Object>
PickleMachine::Value PickleMachine::next_of(Type type, const std::vector<Object>& objects) const {
  constexpr std::uint64_t kMostObjects = std::numeric_limits<std::uint32_t>::max();
  if (objects.size() == kMostObjects) {
    input_.fail("there are more objects than can be counted");
  }
  return Value(type, static_cast<std::uint32_t>(objects.size()));
}

}  // namespace cubfc::recordings
