// One event as read, before its strings have codes.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "numbers.hpp"

namespace stallscope {

// The columns that are codes, in the order in which an event's strings enter the table.
enum Label : int { kName, kCategory, kProcess, kThread, kFlowId, kScope, kLabels };

inline constexpr int kMaxColumns = 64;

// Which member of args goes to which column of integers; from batch.KNOWN_INTEGERS.
class KnownIntegers {
public:
    static constexpr int kNone = -1, kDropped = -2;

    void add(std::string key, int column) {
        if (key.size() < kLengths) by_length_[key.size()].push_back({std::move(key), column});
    }

    int find(View key) const {
        if (key.size() >= kLengths) return kNone;
        for (const Entry& entry : by_length_[key.size()]) {
            if (entry.key == key) return entry.column;
        }
        return kNone;
    }

    int columns = 0;
    int address_column = kNone;  // The one that holds the bits of a uint64.

private:
    struct Entry {
        std::string key;
        int column;
    };
    static constexpr size_t kLengths = 64;
    std::vector<Entry> by_length_[kLengths];
};

// The members of an event that have no column, as the text of one JSON object.
class Rest {
public:
    void clear() {
        text_.assign(1, '{');
        members_.clear();
        hashes_.clear();
        repeated_ = false;
    }

    // Where the next member is written: its key, then its value.
    std::string& text() { return text_; }

    // Begins a member; its key is a JSON string that was just written from `start` on.
    void key_written(size_t start) {
        const View key = View(text_).substr(start);
        uint64_t head = 0, tail = 0;
        std::memcpy(&head, key.data(), std::min<size_t>(8, key.size()));
        std::memcpy(&tail, key.data() + key.size() - std::min<size_t>(8, key.size()), std::min<size_t>(8, key.size()));
        const uint64_t hash = (head * 31 + tail) * 0x9e3779b97f4a7c15 + key.size();
        // A wrong guess only costs a sort, and many members are not worth the search.
        repeated_ |= hashes_.size() > 40 || std::find(hashes_.begin(), hashes_.end(), hash) != hashes_.end();
        if (!repeated_) hashes_.push_back(hash);
        members_.push_back({start, text_.size(), 0});
        text_ += ':';
    }

    void value_written() {
        members_.back().end = text_.size();
        text_ += ',';
    }

    // The whole object, of equal keys the last value at the first place; empty if it has no members.
    View finish() {
        if (members_.empty()) return {};
        if (repeated_) drop_repeated();
        text_.back() = '}';
        return text_;
    }

private:
    struct Member {
        size_t start, colon, end;
    };

    void drop_repeated() {
        auto key = [this](const Member& member) { return View(text_).substr(member.start, member.colon - member.start); };
        std::vector<size_t> order(members_.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            const int compared = key(members_[a]).compare(key(members_[b]));
            return compared != 0 ? compared < 0 : a < b;
        });
        std::vector<Member> kept = members_;
        for (size_t i = 0; i < order.size();) {
            size_t next = i + 1;
            while (next < order.size() && key(members_[order[next]]) == key(members_[order[i]])) kept[order[next++]].end = 0;
            kept[order[i]] = members_[order[next - 1]];
            i = next;
        }
        std::string text(1, '{');
        for (const Member& member : kept) {
            if (member.end) text.append(text_, member.start, member.end - member.start).append(1, ',');
        }
        text_.swap(text);
    }

    std::string text_;
    std::vector<Member> members_;
    std::vector<uint64_t> hashes_;
    bool repeated_ = false;
};

struct Event {
    uint8_t phase;
    bool has_ts, has_dur;
    int64_t ts, dur;
    View labels[kLabels];
    bool has_label[kLabels];
    uint64_t present;  // Bit by column of integers.
    int64_t numbers[kMaxColumns];
    Rest rest;

    void clear() {
        phase = 0;
        has_ts = has_dur = false;
        ts = dur = 0;
        std::fill(std::begin(has_label), std::end(has_label), false);
        present = 0;
        rest.clear();
    }

    void set_number(int column, int64_t value) {
        present |= uint64_t{1} << column;
        numbers[column] = value;
    }
};

}  // namespace stallscope
