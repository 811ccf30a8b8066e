// Tables of different strings: text -> code, in an arena.

#pragma once

#include <string>
#include <vector>

#include "text.hpp"

namespace stallscope {

// Strings by code, found again by hash (open addressing, at most half full).
class StringIndex {
public:
    explicit StringIndex(uint64_t seed) : seed_(seed), slots_(1024) {}

    static constexpr int32_t kAbsent = -1;

    uint64_t hash(View text) const {
        uint64_t state = seed_ ^ text.size() * kFactor;
        const char* at = text.data();
        size_t left = text.size();
        for (; left >= 8; at += 8, left -= 8) state = mix(state ^ load(at, 8));
        if (left) state = mix(state ^ load(at, left));
        return state ^ state >> 32;
    }

    int32_t find(View text, uint64_t hash) const {
        const size_t mask = slots_.size() - 1;
        for (size_t at = hash & mask;; at = (at + 1) & mask) {
            const Slot& slot = slots_[at];
            if (slot.code == kAbsent) return kAbsent;
            if (slot.tag == static_cast<uint32_t>(hash >> 32) && text == view(slot.code)) return slot.code;
        }
    }

    // Adds a text that is not there yet.
    int32_t add(View text, uint64_t hash) {
        if ((starts_.size() + 1) * 2 > slots_.size()) grow();
        const auto code = static_cast<int32_t>(size());
        text_.append(text);
        starts_.push_back(text_.size());
        place(code, hash);
        return code;
    }

    View view(int32_t code) const {
        const auto at = static_cast<size_t>(code);
        return View(text_).substr(starts_[at], starts_[at + 1] - starts_[at]);
    }

    size_t size() const { return starts_.size() - 1; }
    size_t bytes() const { return text_.size(); }
    const std::string& text() const { return text_; }
    // Where each text begins, and where the last one ends.
    const std::vector<size_t>& starts() const { return starts_; }

    void clear() {
        text_.clear();
        starts_.assign(1, 0);
        slots_.assign(slots_.size(), Slot{});
    }

private:
    struct Slot {
        int32_t code = kAbsent;
        uint32_t tag = 0;
    };

    static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

    static uint64_t load(const char* at, size_t count) {
        uint64_t word = 0;
        std::memcpy(&word, at, count);
        return word;
    }

    static uint64_t mix(uint64_t word) {
        word *= kFactor;
        word ^= word >> 29;
        word *= 0xbf58476d1ce4e5b9;
        return word ^ word >> 32;
    }

    void place(int32_t code, uint64_t hash) {
        const size_t mask = slots_.size() - 1;
        size_t at = hash & mask;
        while (slots_[at].code != kAbsent) at = (at + 1) & mask;
        slots_[at] = Slot{code, static_cast<uint32_t>(hash >> 32)};
    }

    void grow() {
        slots_.assign(slots_.size() * 2, Slot{});
        for (size_t code = 0; code < size(); ++code) {
            place(static_cast<int32_t>(code), hash(view(static_cast<int32_t>(code))));
        }
    }

    uint64_t seed_;
    std::vector<Slot> slots_;
    std::string text_;
    std::vector<size_t> starts_{0};
};

}  // namespace stallscope
