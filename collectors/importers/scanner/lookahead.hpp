// Tells whether a quote in a damaged string ends it, by what follows; and what looks like an event or a member.
//
// Each function looks at the bytes from `at` to `end`, a window that is the same wherever the blocks of the file end.
// python_lookahead.py is the reference and says why; a change here is a change there.

#pragma once

#include "text.hpp"

namespace stallscope {

inline const char* skip_space(const char* at, const char* end) {
    while (at < end && is_space(*at)) ++at;
    return at;
}

// White space and one given character; returns what is after it, or null.
inline const char* after_character(const char* at, const char* end, char c) {
    at = skip_space(at, end);
    return at < end && *at == c ? at + 1 : nullptr;
}

// A string without backslashes and a colon.
inline bool key_and_colon(const char* at, const char* end) {
    at = after_character(at, end, '"');
    if (!at) return false;
    while (at < end && *at != '"' && *at != '\\') ++at;
    return at < end && *at == '"' && after_character(at + 1, end, ':');
}

inline bool value_begins(const char* at, const char* end) {
    at = skip_space(at, end);
    if (at == end) return false;
    const char c = *at;
    return c == '"' || c == '[' || c == '{' || c == '+' || c == '-' || c == '.' || is_digit(c) || is_letter(c);
}

inline bool next_member(const char* at, const char* end) {
    at = after_character(at, end, ',');
    return at && key_and_colon(at, end);
}

inline bool next_element(const char* at, const char* end) {
    at = after_character(at, end, ',');
    return at && value_begins(at, end);
}

inline bool trailing_comma(const char* at, const char* end, char closing) {
    at = after_character(at, end, ',');
    return at && after_character(at, end, closing);
}

// Whether a closing bracket comes next, and then a comma, a further bracket, or, if `last`, the end.
inline bool closes(const char* at, const char* end, char closing, bool last) {
    at = after_character(at, end, closing);
    if (!at) return false;
    at = skip_space(at, end);
    if (at == end) return last;
    return *at == ',' || *at == '}' || *at == ']';
}

template <size_t Count>
const char* quoted_word(const char* at, const char* end, const View (&words)[Count]) {
    if (at == end || *at != '"') return nullptr;
    const View text(at + 1, static_cast<size_t>(end - at - 1));
    for (const View word : words) {
        if (text.size() > word.size() && text[word.size()] == '"' && text.substr(0, word.size()) == word) {
            return at + word.size() + 2;
        }
    }
    return nullptr;
}

// Whether the quote here opens a member that events have.
inline bool opens_member(const char* at, const char* end) {
    static constexpr View kKeys[] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "s", "bp"};
    at = quoted_word(at, end, kKeys);
    return at && after_character(at, end, ':');
}

// White space, but not more than so much; returns what is after it, or null where the bytes end.
inline const char* some_space(const char* at, const char* end, int most) {
    while (most > 0 && at < end && is_space(*at)) ++at, --most;
    return at < end ? at : nullptr;
}

// Whether the quote here opens a member that the top level has.
inline bool opens_top_member(const char* at, const char* end) {
    static constexpr View kKeys[] = {"traceEvents",     "traceName",       "schemaVersion",      "deviceProperties",
                                     "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds"};
    at = quoted_word(at, end, kKeys);
    at = at ? some_space(at, end, 16) : nullptr;
    return at && *at == ':';
}

// Whether the brace here looks like the beginning of an event.
inline bool event_begins(const char* at, const char* end) {
    static constexpr View kKeys[] = {"ph", "cat", "name", "ts", "pid", "tid", "dur"};
    at = some_space(at + 1, end, 64);
    at = at ? quoted_word(at, end, kKeys) : nullptr;
    at = at ? some_space(at, end, 16) : nullptr;
    return at && *at == ':';
}

// Whether the brace here opens an object whose first member is "ph".
inline bool nested_event(const char* at, const char* end) {
    static constexpr View kKeys[] = {"ph"};
    at = quoted_word(skip_space(at + 1, end), end, kKeys);
    return at && after_character(at, end, ':');
}

}  // namespace stallscope
