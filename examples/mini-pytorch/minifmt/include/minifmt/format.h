// minifmt (miniature): format("{} of {}", 1, 2) -> "1 of 2".
#pragma once

#include <sstream>
#include <string>

namespace minifmt {

inline std::string format(const char* text) { return text; }

// Replaces each "{}" by the next argument; arguments without a place are dropped.
template <class First, class... Rest>
std::string format(const char* text, const First& first, const Rest&... rest) {
  std::ostringstream out;
  for (; *text != '\0'; ++text) {
    if (text[0] == '{' && text[1] == '}') {
      out << first << format(text + 2, rest...);
      break;
    }
    out << *text;
  }
  return out.str();
}

}  // namespace minifmt
