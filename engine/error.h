// Errors of bad input. Values are checked once, where they enter (make_problem, the file readers,
// the command line); past that point functions are total. A message always says where, what was
// found and what was expected.
#pragma once

#include <stdexcept>
#include <string>

namespace flashscope {

class InputError : public std::runtime_error {
 public:
  // what() is "where: found FOUND, expected EXPECTED".
  InputError(const std::string& where, const std::string& found, const std::string& expected)
      : std::runtime_error(where + ": found " + found + ", expected " + expected),
        where_(where),
        found_(found),
        expected_(expected) {}

  const std::string& where() const { return where_; }
  const std::string& found() const { return found_; }
  const std::string& expected() const { return expected_; }

 private:
  std::string where_, found_, expected_;
};

// The person pressed cancel (or a newer request replaced this one): not a fault.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

}  // namespace flashscope
