// The stack machine that a pickle is a program for. Knows no opcodes: the reader of them
// (opcodes.cpp) calls what each one means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/recordings/pickle.h"
#include "cli/recordings/pickle/input.h"

namespace cubfc::recordings {

// A stack of values with marks in it, and a memo of values under numbers. Texts, lists and
// dictionaries are made in `pickle`. What is not possible fails, with the place in `input`.
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
  // As Python has it: takes away a mark where one is on top.
  void pop_one_or_mark();
  void drop_to_mark() { stack_.resize(pop_mark()); }

  // Made of the values on top, which are taken away.
  void push_list(std::size_t count);
  void push_list_from_mark();
  void push_empty_dict() { push_dict(stack_.size()); }
  void push_dict_from_mark() { push_dict(pop_mark()); }

  // To the list that lies below.
  void append_one() { append(stack_.size() - 1); }
  void append_from_mark() { append(pop_mark()); }
  // Keys and values, to the dictionary that lies below.
  void set_one_item() { set_items(stack_.size() - 2); }
  void set_items_from_mark() { set_items(pop_mark()); }

  // The value on top, which stays there.
  void remember(std::uint64_t number);
  void remember_next() { remember(memo_.size()); }
  void recall(std::uint64_t number);

  // The program has ended: the value on top is what it has made.
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
  std::vector<std::size_t> marks_;  // how high the stack was there
  std::vector<std::optional<Value>> memo_;
};

}  // namespace cubfc::recordings
