/* kernel_table.cpp: counts the readers of an operator's tables, and frees those that were replaced. */
#include "kernel_table.h"

namespace framejit {

/* The count grows before the table is read, so whoever finds it at zero after a table was replaced knows that nobody has that one. */
CurrentTable::Reading::Reading(CurrentTable &of) : of_(of) {
    of.readers_.fetch_add(1);
    table_ = of.current_.load();
}

CurrentTable::Reading::~Reading() {
    if (of_.readers_.fetch_sub(1) == 1 && of_.retired_.load() != nullptr) of_.free_retired();
}

void CurrentTable::retire(const KernelTable *table) { push(new Retired{std::unique_ptr<const KernelTable>(table), nullptr}); }

void CurrentTable::push(Retired *first) {
    Retired *last = first;
    while (last->next != nullptr) last = last->next;
    last->next = retired_.load();
    while (!retired_.compare_exchange_weak(last->next, first)) {
    }
}

void CurrentTable::free_retired() {
    Retired *all = retired_.exchange(nullptr);
    if (all == nullptr) return;
    if (readers_.load() != 0) { /* they may have one of these: the last of them comes here */
        push(all);
        if (readers_.load() != 0 || (all = retired_.exchange(nullptr)) == nullptr) return;
        if (readers_.load() != 0) return push(all);
    }
    while (all != nullptr) {
        Retired *const next = all->next;
        delete all;
        all = next;
    }
}

}  // namespace framejit
