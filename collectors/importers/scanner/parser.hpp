// Reads one event, or one member of the top level, from a buffer: first as JSON, then, where that fails, by repair.
//
// python_parser.py is the reference and says why; a change here is a change there.

#pragma once

#include "event.hpp"
#include "lookahead.hpp"

namespace stallscope {

inline constexpr int kMaxDepth = 100;
inline constexpr ptrdiff_t kLookahead = 512;

// The buffer ends before the event does.
struct OutOfData {};

// This is no event.
struct BadEvent {
    Damage kind;
    const char* resume = nullptr;  // Where to look for the next one, if that is not right after the beginning of this one.
};

enum class Mode { kStrict, kQuotes, kBackslashes };
enum class Place { kKey, kMember, kElement };

// Which bytes end a number or word.
struct Delimiters {
    bool is[256] = {};
    constexpr Delimiters() {
        for (const char c : {' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"'}) is[static_cast<unsigned char>(c)] = true;
    }
};
inline constexpr Delimiters kDelimiters;

class Parser {
public:
    explicit Parser(const KnownIntegers& known) : known_(known) {}

    Event event;
    Notes notes{};
    std::string metadata;  // The value of the member of the top level that was read last, as JSON.

    // Reads up to `end`: the end of the file if `last`, and if `final` where more of the file would not move it.
    void begin(const char* end, bool last, bool final, Mode mode) {
        end_ = end;
        last_ = last;
        final_ = final;
        mode_ = mode;
        notes.clear();
    }

    bool last() const { return last_; }

    // Reads the event that begins here with a brace; returns where it ends.
    const char* read_event(const char* at) {
        event.clear();
        ++at;
        View key;
        while (member(at, key)) {
            event_member(at, key);
            after(at, '}');
        }
        // Every real event has a phase: without one the repair has gone astray.
        if (mode_ != Mode::kStrict && event.phase == 0) throw BadEvent{kBadEvent};
        return at;
    }

    // Reads the key at a quote, and moves to its value.
    View key(const char*& at) {
        const View text = string(at, Place::kKey, key_);
        space(at);
        if (*at != ':') throw BadEvent{kBadEvent};
        ++at;
        space(at);
        return text;
    }

    // Reads a value of the top level into `metadata`.
    void metadata_value(const char*& at) {
        metadata.clear();
        write_value(at, Place::kMember, 1, metadata);
    }

    // Moves to the comma or closing bracket after a value.
    void after(const char*& at, char closing) {
        space(at);
        if (*at != ',' && *at != closing) throw BadEvent{*at == '{' ? kInterleaved : kBadEvent};
    }

    char byte(const char* at) const {
        if (at >= end_) throw OutOfData{};
        return *at;
    }

private:
    void space(const char*& at) const {
        while (at < end_ && is_space(*at)) ++at;
        if (at == end_) throw OutOfData{};
    }

    // Moves to the value of the next member; at the end of the object, past it, and returns false.
    bool member(const char*& at, View& text) {
        space(at);
        while (*at == ',') {
            ++at;
            space(at);
        }
        if (*at == '}') {
            ++at;
            return false;
        }
        if (*at != '"') throw BadEvent{*at == '{' ? kInterleaved : kBadEvent};
        text = key(at);
        return true;
    }

    // Events.

    void event_member(const char*& at, View key) {
        switch (key.size()) {
            case 1:
                if (key == "s") return label(at, kScope);
                break;
            case 2:
                if (key == "ph") return phase(at);
                if (key == "ts") return time(at, event.ts, event.has_ts);
                if (key == "id") return label(at, kFlowId);
                if (key == "bp") return skip_value(at);
                break;
            case 3:
                if (key == "cat") return label(at, kCategory);
                if (key == "pid") return label(at, kProcess);
                if (key == "tid") return label(at, kThread);
                if (key == "dur") return time(at, event.dur, event.has_dur);
                break;
            case 4:
                if (key == "name") return label(at, kName);
                if (key == "args") return *at == '{' ? arguments(at) : argument(at, "value", 1);
                break;
            case 5:
                if (key == "scope") return label(at, kScope);
                break;
            default: break;
        }
        argument(at, key, 1);
    }

    void arguments(const char*& at) {
        ++at;
        View key;
        while (member(at, key)) {
            argument(at, key, 2);
            after(at, '}');
        }
    }

    // A member that goes to a column of integers or to the rest; `depth` is the number of containers around it.
    void argument(const char*& at, View key, int depth) {
        const int column = known_.find(key);
        const bool is_string = *at == '"';
        if (*at == '{' || *at == '[') {
            write_key(key);
            write_container(at, depth + 1, event.rest.text());
            return event.rest.value_written();
        }
        const View text = is_string ? string(at, Place::kMember, value_) : token(at);
        int64_t number = 0;
        if (column != KnownIntegers::kNone && read_integer(text, column == known_.address_column, number)) {
            if (column >= 0) event.set_number(column, number);
            return;
        }
        write_key(key);
        if (is_string) {
            write_string(text, value_, event.rest.text());
        } else {
            append_word(event.rest.text(), text, notes);
        }
        event.rest.value_written();
    }

    void write_key(View key) {
        const size_t start = event.rest.text().size();
        write_string(key, key_, event.rest.text());
        event.rest.key_written(start);
    }

    void label(const char*& at, Label which) {
        std::string& buffer = labels_[which];
        View text;
        if (*at == '"') {
            text = string(at, Place::kMember, buffer);
        } else if (*at == '{' || *at == '[') {
            buffer.clear();
            write_container(at, 2, buffer);
            text = buffer;
        } else {
            text = token(at);
            if (!is_json_number(text)) {
                skipped_.clear();
                append_word(skipped_, text, notes);
                if (skipped_ == "null") {
                    event.has_label[which] = false;
                    return;
                }
                buffer.clear();
                append_utf8(buffer, text);
                text = buffer;
            }
        }
        event.labels[which] = text;
        event.has_label[which] = true;
    }

    void phase(const char*& at) {
        event.phase = 0;
        if (*at != '"') return skip_value(at);
        const View text = string(at, Place::kMember, value_);
        if (text.size() == 1 && static_cast<unsigned char>(text[0]) < 0x80) event.phase = static_cast<uint8_t>(text[0]);
    }

    void time(const char*& at, int64_t& value, bool& has) {
        has = false;
        if (*at == '{' || *at == '[') {
            skip_value(at);
            notes.add(kBadTime);
            return;
        }
        const View text = *at == '"' ? string(at, Place::kMember, value_) : token(at);
        has = read_nanoseconds(strip(text), value, notes);
    }

    void skip_value(const char*& at) {
        skipped_.clear();
        write_value(at, Place::kMember, 1, skipped_);
    }

    // Values, as compact JSON.

    void write_value(const char*& at, Place place, int depth, std::string& out) {
        const char first = byte(at);
        if (first == '"') {
            write_string(string(at, place, value_), value_, out);
        } else if (first == '{' || first == '[') {
            write_container(at, depth + 1, out);
        } else {
            append_word(out, token(at), notes);
        }
    }

    void write_container(const char*& at, int depth, std::string& out) {
        if (depth > kMaxDepth) throw BadEvent{kTooDeep, at};
        if (*at++ == '{') {
            write_object(at, depth, out);
        } else {
            write_array(at, depth, out);
        }
    }

    void write_object(const char*& at, int depth, std::string& out) {
        out += '{';
        View key;
        for (bool first = true; member(at, key); first = false) {
            if (!first) out += ',';
            write_string(key, key_, out);
            out += ':';
            write_value(at, Place::kMember, depth, out);
            after(at, '}');
        }
        out += '}';
    }

    void write_array(const char*& at, int depth, std::string& out) {
        out += '[';
        for (bool first = true;; first = false) {
            space(at);
            while (*at == ',') {
                ++at;
                space(at);
            }
            if (*at == ']') break;
            if (!first) out += ',';
            if (*at == '{' && nested_event(at, window(at))) throw BadEvent{kInterleaved};
            write_value(at, Place::kElement, depth, out);
            after(at, ']');
        }
        ++at;
        out += ']';
    }

    // A text that is in the buffer as it is, or that had to be decoded into `decoded`.
    static void write_string(View text, const std::string& decoded, std::string& out) {
        if (text.data() == decoded.data()) return append_json_string(out, text);
        out += '"';
        out.append(text);
        out += '"';
    }

    View token(const char*& at) const {
        const char* const start = at;
        while (at < end_ && !kDelimiters.is[static_cast<unsigned char>(*at)]) ++at;
        const View text(start, static_cast<size_t>(at - start));
        if (text.empty() || text.size() > kMaxToken) throw BadEvent{kBadEvent};
        if (at == end_) throw OutOfData{};
        return text;
    }

    // Strings.

    // Reads the string at a quote; the text is in the buffer, or in `decoded` if that is not what it means.
    View string(const char*& at, Place place, std::string& decoded) {
        const char* const start = at + 1;
        if (mode_ == Mode::kStrict) {
            const char* const stop = clean_end(start);
            if (stop < end_ && *stop == '"') {
                at = stop + 1;
                return View(start, static_cast<size_t>(stop - start));
            }
        }
        bool repaired = false;
        const char* stop = nullptr;
        at = string_end(start, place, stop, repaired);
        decoded.clear();
        const bool escapes = decode_string(View(start, static_cast<size_t>(stop - start)), decoded, notes);
        if (repaired || escapes) notes.add(kRepairedString);
        return decoded;
    }

    // The first byte that is a quote, a backslash, a control character, or not ASCII.
    const char* clean_end(const char* at) const {
        constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
        for (; end_ - at >= 8; at += 8) {
            uint64_t word;
            std::memcpy(&word, at, 8);
            const uint64_t quote = word ^ kOnes * '"', backslash = word ^ kOnes * '\\';
            // A byte's top bit is set if the byte is one of those; maybe also in a byte after one, which does not matter.
            if (((word - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes) | word) & kTops) break;
        }
        auto is_clean = [](char c) { return c >= 0x20 && static_cast<unsigned char>(c) < 0x80 && c != '"' && c != '\\'; };
        while (at < end_ && is_clean(*at)) ++at;
        return at;
    }

    // Returns where to go on after a string, and where its text stops.
    const char* string_end(const char* start, Place place, const char*& stop, bool& repaired) {
        for (const char* at = start;; ++at) {
            while (at < end_ && *at != '"' && *at != '\\') ++at;
            const char c = byte(at);
            if (c == '\\') {
                const bool quote = byte(at + 1) == '"';
                ++at;
                if (quote && mode_ != Mode::kStrict && ends_escaped(at + 1, place)) {
                    repaired = true;
                    stop = at;
                    return at + 1;
                }
                continue;
            }
            // Keys are chosen by programs: a quote in one is more likely to be where damage begins.
            if (mode_ == Mode::kStrict || place == Place::kKey || ends(at + 1, place)) {
                stop = at;
                return at + 1;
            }
            repaired = true;
            const char* const comma = missing_quote(start, at);
            if (comma && place == Place::kMember) {
                stop = start + strip_end(View(start, static_cast<size_t>(comma - start))).size();
                return comma;
            }
        }
    }

    // The end of what may be looked at, the same wherever the blocks of the file end.
    const char* window(const char* at) const {
        if (end_ - at >= kLookahead) return at + kLookahead;
        if (!final_) throw OutOfData{};
        return end_;
    }

    bool ends(const char* at, Place place) const {
        const char* const end = window(at);
        const char closing = place == Place::kMember ? '}' : ']';
        if (place == Place::kMember ? next_member(at, end) : next_element(at, end)) return true;
        return trailing_comma(at, end, closing) || closes(at, end, closing, last_ && end == end_);
    }

    bool ends_escaped(const char* at, Place place) const {
        if (place != Place::kMember) return false;
        const char* const end = window(at);
        if (next_member(at, end)) return true;
        return mode_ == Mode::kBackslashes && closes(at, end, '}', last_ && end == end_);
    }

    // The comma before the next member of the event, if the quote here opens it: the string has no closing quote.
    const char* missing_quote(const char* start, const char* at) const {
        const char* const end = window(at);
        if (opens_top_member(at, end)) throw BadEvent{kBadEvent};
        if (!opens_member(at, end)) return nullptr;
        const char* const from = at - start > kLookahead ? at - kLookahead : start;
        const View before = strip_end(View(from, static_cast<size_t>(at - from)));
        if (before.empty()) return nullptr;
        if (before.back() == '{') throw BadEvent{kInterleaved};
        if (before.back() == '"') throw BadEvent{kBadEvent};
        return before.back() == ',' ? from + before.size() - 1 : nullptr;
    }

    const KnownIntegers& known_;
    const char* end_ = nullptr;
    bool last_ = false, final_ = false;
    Mode mode_ = Mode::kStrict;
    std::string key_, value_, skipped_, labels_[kLabels];
};

}  // namespace stallscope
