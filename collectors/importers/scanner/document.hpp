// Walks through a file: its documents, the members of their top level, the elements of traceEvents, and what is none of these.
//
// python_scanner.py is the reference and says why; a change here is a change there.

#pragma once

#include <utility>

#include "parser.hpp"
#include "rows.hpp"

namespace stallscope {

struct Limits {
    size_t event_bytes, repair_bytes, strings, string_bytes, metadata_bytes, batch_events, batch_bytes;
};

inline constexpr View kOverflowText = "(not kept: the file has too many different names)";
inline constexpr size_t kMatchBytes = 128;
inline constexpr size_t kLookBack = 64;

class Document {
public:
    Document(const Limits& limits, const KnownIntegers& known, uint64_t seed)
        : rows(limits.batch_events, known.columns, seed), strings(seed), limits_(limits), parser_(known) {}

    Rows rows;
    StringIndex strings;
    std::vector<std::pair<std::string, std::string>> metadata;  // Key and JSON text, in the order of the file.
    uint64_t damage[kDamageKinds] = {};
    int64_t damage_offset[kDamageKinds] = {};

    // Adds a block of the file.
    void feed(const char* block, size_t size) {
        if (at_ > 0) {
            data_.erase(0, at_);
            base_ += static_cast<int64_t>(at_);
            at_ = 0;
        }
        data_.append(block, size);
        wanted_ -= std::min(wanted_, size);
    }

    // Says that the file ends after the blocks so far.
    void finish() {
        last_ = true;
        wanted_ = 0;
    }

    enum class Progress { kNeedsData, kBatchFull, kEnded };

    // Reads until more of the file is needed, the batch is full, or the file is read.
    Progress run() {
        if (wanted_ > 0) return Progress::kNeedsData;
        while (state_ != State::kDone) {
            try {
                step();
            } catch (const OutOfData&) {
                if (!last_) {
                    // As much again as is pending, so that a long element is not read over and over.
                    wanted_ = std::max<size_t>(1, data_.size() - at_);
                    return Progress::kNeedsData;
                }
                end();
            }
            if (rows.size() >= limits_.batch_events || rows.texts.bytes() > limits_.batch_bytes) return Progress::kBatchFull;
        }
        if (!has_events_) {
            count(documents_ == 0 && damage[kGarbage] == 0 ? kEmpty : kNoTraceEvents, at_);
            has_events_ = true;
        }
        return Progress::kEnded;
    }

private:
    enum class State { kInFile, kInObject, kInEvents, kLooking, kDone };

    void count(Damage kind, size_t at, uint64_t times = 1) {
        if (damage[kind] == 0) damage_offset[kind] = base_ + static_cast<int64_t>(at);
        damage[kind] += times;
    }

    // Each step reads one thing and moves on, or throws OutOfData and changes nothing.
    void step() {
        switch (state_) {
            case State::kInFile: return in_file();
            case State::kInObject: return in_object();
            case State::kInEvents: return in_events();
            case State::kLooking: return looking();
            case State::kDone: return;
        }
    }

    void in_file() {
        const char byte = next_byte();
        if (byte == '{') {
            if (documents_ > 0 && event_begins(begin() + at_, begin() + at_ + ahead(kMatchBytes))) {
                enter_events(at_, true);
                resumed_ = true;
                return;
            }
            enter_document();
            state_ = State::kInObject;
            ++at_;
        } else if (byte == '[') {
            enter_document();
            enter_events(at_ + 1, false);
        } else if (byte == '\xef' && View(begin() + at_, ahead(3)) == "\xef\xbb\xbf") {
            at_ += 3;
        } else {
            skip(kGarbage, at_);
        }
    }

    void in_object() {
        const char byte = next_byte();
        if (byte == '}') {
            ++at_;
            state_ = State::kInFile;
        } else if (byte == '"') {
            member();
        } else {
            skip(kBadMetadata, at_);
        }
    }

    void in_events() {
        const char byte = next_byte();
        if (byte == ']') {
            ++at_;
            state_ = in_member_ ? State::kInObject : State::kInFile;
        } else if (byte == '{') {
            event();
        } else {
            skip(kBadEvent, at_);
        }
    }

    // After damage: at nothing, until something looks like an event or like a member of the top level.
    void looking() {
        size_t at = static_cast<size_t>(search_from_ - base_);
        for (; at < data_.size(); ++at) {
            const char c = data_[at];
            if (c == '{' && event_begins(begin() + at, begin() + data_.size()) && before(at) != ':') {
                enter_events(at, in_member_ || !has_events_);
                resumed_ = true;
                return;
            }
            if (c == '"' && opens_top_member(begin() + at, begin() + data_.size()) && (before(at) == ',' || before(at) == '{')) {
                at_ = at;
                state_ = State::kInObject;
                return;
            }
        }
        if (last_) {
            at_ = data_.size();
            state_ = State::kDone;
            return;
        }
        at = static_cast<size_t>(search_from_ - base_);
        if (data_.size() > kMatchBytes) at = std::max(at, data_.size() - kMatchBytes);
        search_from_ = base_ + static_cast<int64_t>(at);
        if (at > kLookBack) at_ = std::max(at_, at - kLookBack);
        throw OutOfData{};
    }

    void end() {
        if (state_ != State::kInFile) count(kTruncated, at_);
        state_ = State::kDone;
    }

    const char* begin() const { return data_.data(); }

    // Moves to the next byte that is neither space nor comma, and returns it.
    char next_byte() {
        while (at_ < data_.size() && (is_space(data_[at_]) || data_[at_] == ',')) ++at_;
        if (at_ == data_.size()) throw OutOfData{};
        return data_[at_];
    }

    // How many of the next bytes there are: as many as asked for, unless the file ends before.
    size_t ahead(size_t wanted) const {
        const size_t left = data_.size() - at_;
        if (left < wanted && !last_) throw OutOfData{};
        return std::min(left, wanted);
    }

    // The last byte before an offset that is no white space; 0 if that is farther away.
    char before(size_t at) const {
        const int64_t skipped = std::max<int64_t>(0, skipped_from_ - base_);
        const size_t start = std::max(at - std::min(at, kLookBack), static_cast<size_t>(skipped));
        if (start >= at) return 0;
        const View text = strip_end(View(begin() + start, at - start));
        return text.empty() ? 0 : text.back();
    }

    void enter_document() {
        if (++documents_ > 1) count(kSeveralDocuments, at_);
    }

    void enter_events(size_t at, bool in_member) {
        has_events_ = true;
        in_member_ = in_member;
        at_ = at;
        state_ = State::kInEvents;
    }

    void skip(Damage kind, size_t at, const char* resume = nullptr) {
        // A file ends only once, however many beginnings of events are found in what is left of it.
        if (kind != kTruncated || damage[kind] == 0) count(kind, at);
        look_from(at, resume);
    }

    void look_from(size_t at, const char* resume = nullptr) {
        skipped_from_ = base_ + static_cast<int64_t>(at);
        search_from_ = resume ? base_ + (resume - begin()) : skipped_from_ + 1;
        state_ = State::kLooking;
    }

    // Elements.

    void event() {
        const size_t start = at_;
        try {
            at_ = parse(start, [this](const char* at) { return parser_.read_event(at); });
        } catch (const BadEvent& bad) {
            return skip(bad.kind, start, bad.resume);
        }
        Event& event = parser_.event;
        if (resumed_ && event.phase == 0) {
            // Part of the element that was skipped, such as the args of a damaged event.
            at_ = start;
            return look_from(start);
        }
        resumed_ = false;
        int64_t codes[kLabels];
        for (int i = 0; i < kLabels; ++i) {
            codes[i] = event.has_label[i] ? code(static_cast<Label>(i), event.labels[i], start) : -1;
        }
        rows.add(event, base_ + static_cast<int64_t>(start), codes);
    }

    int64_t code(Label label, View text, size_t start) {
        int64_t number = 0;
        if (label == kFlowId) {
            if (read_plain_number(text, number)) return number;
            return string_code(text, start) + (int64_t{1} << 62);
        }
        return string_code(text, start);
    }

    int32_t string_code(View text, size_t start) {
        const uint64_t hash = strings.hash(text);
        const int32_t found = strings.find(text, hash);
        if (found != StringIndex::kAbsent) return found;
        if (strings.size() < limits_.strings && strings.bytes() + text.size() <= limits_.string_bytes) {
            return strings.add(text, hash);
        }
        count(kStringTableFull, start);
        const uint64_t overflow = strings.hash(kOverflowText);
        const int32_t known = strings.find(kOverflowText, overflow);
        return known != StringIndex::kAbsent ? known : strings.add(kOverflowText, overflow);
    }

    void member() {
        const size_t start = at_;
        bool events = false;
        std::string key;
        size_t end = 0;
        try {
            end = parse(start, [&](const char* at) { return read_member(at, key, events); });
        } catch (const BadEvent& bad) {
            return skip(bad.kind == kTruncated ? kTruncated : kBadMetadata, start, bad.resume);
        }
        if (events) return enter_events(end, true);
        at_ = end;
        metadata_bytes_ += parser_.metadata.size();
        if (metadata_bytes_ > limits_.metadata_bytes) {
            count(kBadMetadata, start);
        } else if (key != "traceEvents") {
            metadata.emplace_back(std::move(key), parser_.metadata);
        }
    }

    // Reads a member of the top level, or its beginning if it holds the events; returns where that ends.
    const char* read_member(const char* at, std::string& key, bool& events) {
        key = std::string(parser_.key(at));
        events = key == "traceEvents" && *at == '[';
        if (events) return at + 1;
        parser_.metadata_value(at);
        const char* end = at;
        try {
            parser_.after(at, '}');
        } catch (const OutOfData&) {
            if (!parser_.last()) throw;
        }
        return end;
    }

    // Reads what `read` makes of the bytes from `start`, in the first mode in which it can; returns where that ends.
    template <class Read>
    size_t parse(size_t start, Read read) {
        BadEvent first{kDamageKinds};
        for (const Mode mode : {Mode::kStrict, Mode::kQuotes, Mode::kBackslashes}) {
            if (first.kind == kTruncated && mode == Mode::kBackslashes) break;
            const size_t repair_limit = std::min(limits_.event_bytes, limits_.repair_bytes);
            const size_t limit = mode == Mode::kStrict ? limits_.event_bytes : repair_limit;
            const bool limited = data_.size() - start >= limit;
            const size_t end = limited ? start + limit : data_.size();
            parser_.begin(begin() + end, last_ && end == data_.size(), last_ || limited, mode);
            try {
                const char* const stop = read(begin() + start);
                for (int note = 0; parser_.notes.any && note < kDamageKinds; ++note) {
                    if (parser_.notes.count[note]) count(static_cast<Damage>(note), start, parser_.notes.count[note]);
                }
                return static_cast<size_t>(stop - begin());
            } catch (const BadEvent& bad) {
                if (first.kind == kDamageKinds) first = bad;
                if (bad.kind == kTooDeep) break;
            } catch (const OutOfData&) {
                if (!limited && !last_) throw;
                if (first.kind == kDamageKinds) first.kind = limited ? kOversizedEvent : kTruncated;
                if (first.kind == kOversizedEvent) break;
            }
        }
        throw first;
    }

    const Limits limits_;
    Parser parser_;
    std::string data_;
    int64_t base_ = 0;  // The offset of data_ in the file.
    size_t at_ = 0;
    size_t wanted_ = 1;
    bool last_ = false;  // Whether the file ends where data_ does.
    State state_ = State::kInFile;
    int documents_ = 0;
    bool in_member_ = false;  // Whether the events are a member of an object, and not a list by themselves.
    bool resumed_ = false;    // Whether the next event was found by looking for something like an event.
    int64_t skipped_from_ = 0, search_from_ = 0;
    bool has_events_ = false;
    size_t metadata_bytes_ = 0;
};

}  // namespace stallscope
