/* kernel_table.h: the compiled kernels of one operator, by the keys of calls. Looked up without a lock; a change makes a new table. */
#ifndef FRAMEJIT_OPERATORS_KERNEL_TABLE_H
#define FRAMEJIT_OPERATORS_KERNEL_TABLE_H

#include <ATen/core/boxing/KernelFunction.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernel.h"

namespace framejit {

class Compiler;

/* The kernels for calls with one key. */
struct Kernels {
    std::vector<std::shared_ptr<const Kernel>> all;
    bool is_complete = false; /* no more are made, or one is being made by a thread */
};

using Words = std::span<const uint64_t>;

struct HashWords {
    using is_transparent = void;
    size_t operator()(Words words) const {
        uint64_t hash = 0x9e3779b97f4a7c15;
        for (const uint64_t word : words) hash = (hash ^ word ^ hash >> 32) * 0xff51afd7ed558ccd;
        return hash ^ hash >> 29;
    }
};

struct EqualWords {
    using is_transparent = void;
    bool operator()(Words a, Words b) const { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
};

struct KernelTable {
    std::optional<c10::SafeKernelFunction> original; /* torch's kernel; none before the operator has first been in force */
    std::shared_ptr<Compiler> compiler;              /* null: the operator isn't in force */
    bool is_full = false;                            /* no more kernels are made: keys that aren't here are left to torch's kernel */
    uint64_t epoch = 0;                              /* of two tables with the same number, nothing has been forgotten in between */
    std::unordered_map<std::vector<uint64_t>, Kernels, HashWords, EqualWords> kernels;
};

/* The table that is in force. Its readers hold a `Reading`, and a table that was replaced is freed once there is none: by the last reader, or at once. No
 * lock is involved, because a process may be forked while another thread has it; a reader that vanished so keeps tables from being freed, and no more. */
class CurrentTable {
   public:
    CurrentTable() : current_(new KernelTable) {}
    CurrentTable(const CurrentTable &) = delete;

    class Reading {
       public:
        explicit Reading(CurrentTable &of);
        ~Reading();
        Reading(const Reading &) = delete;
        const KernelTable &operator*() const { return *table_; }
        const KernelTable *operator->() const { return table_; }

       private:
        CurrentTable &of_;
        const KernelTable *table_;
    };

    /* Replaces the table by a copy to which `change` has been done. `change` returns false to leave it as it is; it may run several times. */
    template <typename Change>
    bool replace(Change change) {
        for (;;) {
            Reading before(*this);
            auto made = std::make_unique<KernelTable>(*before);
            if (!change(*made)) return false;
            const KernelTable *expected = &*before;
            if (current_.compare_exchange_strong(expected, made.get())) {
                made.release();
                retire(expected);
                return true;
            }
        }
    }

   private:
    struct Retired {
        std::unique_ptr<const KernelTable> table;
        Retired *next;
    };

    void retire(const KernelTable *table);
    void push(Retired *first);
    void free_retired();

    std::atomic<const KernelTable *> current_;
    std::atomic<Retired *> retired_{nullptr};
    std::atomic<int64_t> readers_{0};
};

}  // namespace framejit

#endif
