// The columns of a batch that is being filled.

#pragma once

#include <vector>

#include "event.hpp"
#include "strings.hpp"

namespace stallscope {

// Integers with the rows that have one; it takes memory from its first value on.
struct NumberColumn {
    std::vector<int64_t> values;
    std::vector<uint8_t> present;
    bool used = false;

    void set(size_t row, int64_t value, size_t capacity) {
        if (!used) {
            values.assign(capacity, 0);
            present.assign(capacity, 0);
            used = true;
        }
        values[row] = value;
        present[row] = 1;
    }
};

struct Rows {
    Rows(size_t capacity, int columns, uint64_t seed) : numbers(static_cast<size_t>(columns)), texts(seed), capacity_(capacity) {
        phase.reserve(capacity);
        offset.reserve(capacity);
    }

    std::vector<uint8_t> phase, has_ts, has_dur;
    std::vector<int32_t> label[kLabels];  // But kFlowId.
    std::vector<int64_t> flow_id, ts, dur, offset;
    std::vector<int32_t> rest;
    std::vector<NumberColumn> numbers;
    StringIndex texts;  // What `rest` refers to.

    size_t size() const { return phase.size(); }

    // Adds an event whose strings have codes.
    void add(Event& event, int64_t at, const int64_t (&codes)[kLabels]) {
        const size_t row = size();
        for (int i = 0; i < kLabels; ++i) {
            if (i != kFlowId) label[i].push_back(static_cast<int32_t>(codes[i]));
        }
        flow_id.push_back(codes[kFlowId]);
        phase.push_back(event.phase);
        ts.push_back(event.has_ts ? event.ts : 0);
        dur.push_back(event.has_dur ? event.dur : 0);
        has_ts.push_back(event.has_ts);
        has_dur.push_back(event.has_dur);
        offset.push_back(at);
        for (size_t column = 0; column < numbers.size(); ++column) {
            if (event.present >> column & 1) numbers[column].set(row, event.numbers[column], capacity_);
        }
        rest.push_back(rest_code(event.rest.finish()));
    }

    void clear() {
        for (auto* column : {&phase, &has_ts, &has_dur}) column->clear();
        for (auto& column : label) column.clear();
        for (auto* column : {&flow_id, &ts, &dur, &offset}) column->clear();
        rest.clear();
        for (NumberColumn& column : numbers) column.used = false;
        texts.clear();
    }

private:
    int32_t rest_code(View text) {
        if (text.empty()) return -1;
        const uint64_t hash = texts.hash(text);
        const int32_t code = texts.find(text, hash);
        return code != StringIndex::kAbsent ? code : texts.add(text, hash);
    }

    size_t capacity_;
};

}  // namespace stallscope
