// The stack machine that a pickle is a program for. Knows no opcodes: opcodes.cpp reads them, and
// calls for each the function that does what it means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/recordings/pickle.h"
#include "cli/recordings/pickle/input.h"

namespace cubfc::recordings {

// Has a stack of values with marks in it, and a memo of values under numbers. Texts, lists and
// dictionaries are made in `pickle`. What the stack or the memo does not allow throws BadRecording,
// by input.fail().
class PickleMachine {
 public:
  using Value = Pickle::Value;

  PickleMachine(const PickleInput& input, Pickle& pickle) : input_(input), pickle_(pickle) {
    pickle_.lists_.emplace_back();
    pickle_.dicts_.emplace_back();
  }

  void push(const Value& value) { stack_.push_back(value); }
  void push_text(std::string_view text);
  void push_top_again() { push(top()); }

  void mark() { marks_.push_back(stack_.size()); }
  // As in Python: takes away the mark, if one is on top, else the value on top.
  void pop_one_or_mark();
  void drop_to_mark() { stack_.resize(pop_mark()); }

  // Take values away from the top, and push a list or a dictionary of them.
  void push_list(std::size_t count);
  void push_list_from_mark();
  void push_empty_dict() { push_dict(stack_.size()); }
  void push_dict_from_mark() { push_dict(pop_mark()); }

  // Take values away from the top, and add them to the list that lies below them.
  void append_one() { append(stack_.size() - 1); }
  void append_from_mark() { append(pop_mark()); }
  // Take keys and values away from the top, and add them to the dictionary below them.
  void set_one_item() { set_items(stack_.size() - 2); }
  void set_items_from_mark() { set_items(pop_mark()); }

  // Put the value on top into the memo; it stays on the stack, too.
  void remember(std::uint64_t number);
  void remember_next() { remember(memo_.size()); }
  void recall(std::uint64_t number);

  // Called at the end of the pickle: the value on top is its root.
  void end() { pickle_.root_ = pop(); }

 private:
  using Type = Pickle::Type;

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  const Value& top() const;
  Value pop();
  std::size_t pop_mark();
  void push_dict(std::size_t from);
  const Value& below(std::size_t from, Type type, const char* what) const;
  void append(std::size_t from);
  void set_items(std::size_t from);
  template <typename Object>
  Value next_of(Type type, const std::vector<Object>& objects) const;

  const PickleInput& input_;
  Pickle& pickle_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // the height of the stack at each mark
  std::vector<std::optional<Value>> memo_;
};

}  // namespace cubfc::recordings
