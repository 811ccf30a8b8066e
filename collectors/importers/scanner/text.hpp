// Strings, numbers and time stamps of damaged JSON: what each piece of text means.
//
// python_text.py is the reference and says why; a change here is a change there.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace stallscope {

using View = std::string_view;

// Kinds of damage; the names are those of batch.DAMAGE_KINDS.
enum Damage : int {
    kTruncated,
    kBadEvent,
    kInterleaved,
    kTooDeep,
    kOversizedEvent,
    kBadMetadata,
    kGarbage,
    kSeveralDocuments,
    kNoTraceEvents,
    kEmpty,
    kRepairedString,
    kControlCharacter,
    kBadUtf8,
    kNotFinite,
    kBadValue,
    kBadTime,
    kTimeOverflow,
    kStringTableFull,
    kDamageKinds,
};

inline constexpr const char* kDamageNames[kDamageKinds] = {
    "truncated",     "bad_event",        "interleaved",       "too_deep",        "oversized_event", "bad_metadata",
    "garbage",       "several_documents", "no_trace_events",  "empty",           "repaired_string", "control_character",
    "bad_utf8",      "not_finite",       "bad_value",         "bad_time",        "time_overflow",   "string_table_full",
};

// Damage that does not keep a value from being used, counted while it is read.
struct Notes {
    uint32_t count[kDamageKinds];
    bool any;

    void clear() {
        if (any) std::memset(count, 0, sizeof count);
        any = false;
    }
    void add(Damage kind) {
        ++count[kind];
        any = true;
    }
};

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

inline View strip(View text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

inline View strip_end(View text) {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

// Length of the well-formed UTF-8 sequence that begins with a byte above 0x7f; else of its longest well-formed beginning,
// at least 1, negated: what becomes one U+FFFD.
inline int utf8_length(const unsigned char* at, size_t left) {
    const unsigned char lead = at[0];
    int length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0) return -1;
    // The second byte rules out overlong forms, surrogates, and what is beyond U+10FFFF.
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (left < 2 || at[1] < low || at[1] > high) return -1;
    for (int i = 2; i < length; ++i) {
        if (left <= static_cast<size_t>(i) || (at[i] & 0xc0) != 0x80) return -i;
    }
    return length;
}

// Appends bytes as UTF-8 and returns whether some of them were replaced.
inline bool append_utf8(std::string& out, View bytes) {
    bool broken = false;
    size_t copied = 0;
    size_t at = 0;
    while (at < bytes.size()) {
        const auto* byte = reinterpret_cast<const unsigned char*>(bytes.data()) + at;
        if (*byte < 0x80) {
            ++at;
            continue;
        }
        const int length = utf8_length(byte, bytes.size() - at);
        if (length > 0) {
            at += length;
            continue;
        }
        out.append(bytes.data() + copied, at - copied);
        out.append("\xef\xbf\xbd");
        at -= length;
        copied = at;
        broken = true;
    }
    out.append(bytes.data() + copied, at - copied);
    return broken;
}

inline void append_code_point(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    }
}

// The code unit of a \uXXXX escape at an offset, or -1.
inline int32_t unicode_escape(View body, size_t at) {
    if (at + 6 > body.size() || body[at] != '\\' || body[at + 1] != 'u') return -1;
    int32_t code = 0;
    for (size_t i = at + 2; i < at + 6; ++i) {
        const char c = body[i];
        const int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        code = code << 4 | digit;
    }
    return code;
}

// What a one-character escape stands for, or 0.
inline char simple_escape(char c) {
    switch (c) {
        case '"': case '\\': case '/': return c;
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return 0;
    }
}

// Whether the backslashes of a string stand for themselves: an escape is none of JSON's, or it begins like a Windows path.
inline bool has_literal_backslashes(View body) {
    if (body.size() >= 4 && is_letter(body[0]) && body[1] == ':' && body[2] == '\\' && body[3] != '\\' && body[3] != '"') return true;
    for (size_t at = body.find('\\'); at != View::npos; at = body.find('\\', at)) {
        if (at + 1 == body.size()) return true;
        if (unicode_escape(body, at) >= 0) {
            at += 6;
        } else if (simple_escape(body[at + 1])) {
            at += 2;
        } else {
            return true;
        }
    }
    return false;
}

// Appends the code point of the unicode escape at an offset, or of the pair that begins there; returns how long it is.
inline size_t append_unicode_escape(std::string& out, View body, size_t at, bool& broken) {
    const int32_t code = unicode_escape(body, at);
    if (code < 0xd800 || code > 0xdfff) {
        append_code_point(out, static_cast<uint32_t>(code));
        return 6;
    }
    const int32_t low = code < 0xdc00 ? unicode_escape(body, at + 6) : -1;
    if (low >= 0xdc00 && low <= 0xdfff) {
        append_code_point(out, 0x10000 + (static_cast<uint32_t>(code - 0xd800) << 10) + static_cast<uint32_t>(low - 0xdc00));
        return 12;
    }
    append_code_point(out, 0xfffd);
    broken = true;
    return 6;
}

// Appends the text between two quotes, and returns whether its escapes had to be repaired.
inline bool decode_string(View body, std::string& out, Notes& notes) {
    bool control = false;
    for (const char c : body) control |= static_cast<unsigned char>(c) < 0x20;
    const bool literal = body.find('\\') != View::npos && has_literal_backslashes(body);
    bool broken = false;
    size_t at = 0;
    while (at < body.size()) {
        const size_t stop = std::min(body.find('\\', at), body.size());
        broken |= append_utf8(out, body.substr(at, stop - at));
        at = stop;
        if (at == body.size()) break;
        if (unicode_escape(body, at) >= 0) {
            at += append_unicode_escape(out, body, at, broken);
            continue;
        }
        const char escape = at + 1 < body.size() ? body[at + 1] : 0;
        const char meant = !literal || escape == '"' || escape == '\\' ? simple_escape(escape) : 0;
        out += meant ? meant : '\\';
        at += meant ? 2 : 1;
    }
    if (control) notes.add(kControlCharacter);
    if (broken) notes.add(kBadUtf8);
    return literal;
}

// Appends a text as a JSON string.
inline void append_json_string(std::string& out, View text) {
    static constexpr char kHex[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && c != '"' && c != '\\') {
            out += c;
            continue;
        }
        out += '\\';
        switch (c) {
            case '"': case '\\': out += c; break;
            case '\b': out += 'b'; break;
            case '\f': out += 'f'; break;
            case '\n': out += 'n'; break;
            case '\r': out += 'r'; break;
            case '\t': out += 't'; break;
            default:
                out.append("u00");
                out += kHex[byte >> 4];
                out += kHex[byte & 15];
        }
    }
    out += '"';
}

}  // namespace stallscope
