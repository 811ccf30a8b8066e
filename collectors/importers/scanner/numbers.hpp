// Numbers, words and time stamps of damaged JSON.
//
// python_text.py is the reference and says why; a change here is a change there.

#pragma once

#include "text.hpp"

namespace stallscope {

inline constexpr size_t kMaxToken = 1000;

// Whether a token is a number as JSON writes it.
inline bool is_json_number(View token) {
    const char* at = token.data();
    const char* const end = at + token.size();
    auto digits = [&] {
        const char* const start = at;
        while (at < end && is_digit(*at)) ++at;
        return at > start;
    };
    if (at < end && *at == '-') ++at;
    if (at < end && *at == '0') {
        ++at;
    } else if (!digits()) {
        return false;
    }
    if (at < end && *at == '.') {
        ++at;
        if (!digits()) return false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        ++at;
        if (at < end && (*at == '+' || *at == '-')) ++at;
        if (!digits()) return false;
    }
    return at == end;
}

inline bool is_not_finite(View token) {
    if (!token.empty() && (token[0] == '+' || token[0] == '-')) token.remove_prefix(1);
    char lower[16];
    if (token.size() >= sizeof lower) return false;
    for (size_t i = 0; i < token.size(); ++i) {
        lower[i] = token[i] >= 'A' && token[i] <= 'Z' ? static_cast<char>(token[i] + 32) : token[i];
    }
    const View word(lower, token.size());
    for (const View known : {"nan", "inf", "infinity", "nan(ind)", "nan(snan)", "1.#inf", "1.#qnan", "1.#snan", "1.#ind"}) {
        if (word == known) return true;
    }
    return false;
}

// Appends what stands for a number or word in JSON.
inline void append_word(std::string& out, View token, Notes& notes) {
    if (is_json_number(token) || token == "true" || token == "false" || token == "null") {
        out.append(token);
    } else if (is_not_finite(token)) {
        notes.add(kNotFinite);
        out.append("null");
    } else {
        notes.add(kBadValue);
        if (token == "True") out.append("true");
        else if (token == "False") out.append("false");
        else if (token == "None") out.append("null");
        else {
            std::string text;
            append_utf8(text, token);
            append_json_string(out, text);
        }
    }
}

// Reads an integer that fits into int64, or with `bits` into uint64 as the int64 of the same bits.
inline bool read_integer(View token, bool bits, int64_t& value) {
    const bool negative = !token.empty() && token[0] == '-';
    if (negative) token.remove_prefix(1);
    if (token.empty() || token.size() > 20) return false;
    uint64_t total = 0;
    for (const char c : token) {
        if (!is_digit(c)) return false;
        const auto digit = static_cast<uint64_t>(c - '0');
        if (total > (UINT64_MAX - digit) / 10) return false;
        total = total * 10 + digit;
    }
    constexpr uint64_t kTop = uint64_t{1} << 63;
    if (negative ? total > kTop : total >= kTop && !bits) return false;
    value = static_cast<int64_t>(negative ? 0 - total : total);
    return true;
}

// The pieces of a decimal number.
struct Decimal {
    bool negative = false;
    View whole, fraction;
    int exponent = 0;
};

inline bool read_decimal(View token, Decimal& number) {
    size_t at = 0;
    auto digits = [&] {
        const size_t start = at;
        while (at < token.size() && is_digit(token[at])) ++at;
        return token.substr(start, at - start);
    };
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) number.negative = token[at++] == '-';
    number.whole = digits();
    if (at < token.size() && token[at] == '.') {
        ++at;
        number.fraction = digits();
    }
    if (number.whole.empty() && number.fraction.empty()) return false;
    if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
        ++at;
        bool down = false;
        if (at < token.size() && (token[at] == '+' || token[at] == '-')) down = token[at++] == '-';
        const View exponent = digits();
        if (exponent.empty()) return false;
        // More than any exponent that could still move a digit of a token into range.
        for (const char c : exponent) number.exponent = std::min(4000, number.exponent * 10 + (c - '0'));
        if (down) number.exponent = -number.exponent;
    }
    return at == token.size();
}

// Reads decimal microseconds as integer ns, truncated toward zero.
inline bool read_nanoseconds(View token, int64_t& value, Notes& notes) {
    Decimal number;
    if (token.size() > kMaxToken || !read_decimal(token, number)) {
        if (token != "null") notes.add(is_not_finite(token) ? kNotFinite : kBadTime);
        return false;
    }
    const int shift = number.exponent + 3 - static_cast<int>(number.fraction.size());
    View whole = number.whole, fraction = number.fraction;
    while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
    if (whole.empty()) {
        while (!fraction.empty() && fraction.front() == '0') fraction.remove_prefix(1);
    }
    const int count = static_cast<int>(whole.size() + fraction.size());
    const int kept = count == 0 ? 0 : count + shift;
    uint64_t total = 0;
    if (kept <= 19) {
        for (int i = 0; i < kept; ++i) {
            const auto at = static_cast<size_t>(i);
            const char digit = at < whole.size() ? whole[at] : i < count ? fraction[at - whole.size()] : '0';
            total = total * 10 + static_cast<uint64_t>(digit - '0');
        }
    }
    constexpr uint64_t kTop = uint64_t{1} << 63;
    if (kept > 19 || total > kTop || (total == kTop && !number.negative)) {
        notes.add(kTimeOverflow);
        return false;
    }
    value = static_cast<int64_t>(number.negative ? 0 - total : total);
    return true;
}

// Reads an id that is its own flow id: a plain decimal below 2**62.
inline bool read_plain_number(View text, int64_t& value) {
    if (text.empty() || text.size() > 19 || (text[0] == '0' && text.size() > 1)) return false;
    int64_t total = 0;
    for (const char c : text) {
        if (!is_digit(c)) return false;
        if (total >= (int64_t{1} << 62) / 10 + 1) return false;
        total = total * 10 + (c - '0');
    }
    if (total >= int64_t{1} << 62) return false;
    value = total;
    return true;
}

}  // namespace stallscope
