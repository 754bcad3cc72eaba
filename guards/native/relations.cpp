/* relations.cpp: relations about which of several paths end at the same object, or at one that is in a set. */
#include "tree.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace framejit {

namespace {

const Registered<RelationKind> same({
    .name = "same",
    .holds = [](const Relation &relation, const std::vector<PyObject *> &values) {
        PyObject *first = values[relation.nodes[0]];
        return first != nullptr && first == values[relation.nodes[1]];
    },
    .nodes = 2,
    .by_identity = true,
});

/* The first value is none of the others. */
bool is_distinct(const Relation &relation, const std::vector<PyObject *> &values) {
    PyObject *first = values[relation.nodes[0]];
    return std::none_of(relation.nodes.begin() + 1, relation.nodes.end(), [&](int32_t node) { return first == values[node]; });
}

/* As many values as numbers[0] says differ from one another and from those behind them. */
bool are_apart(const Relation &relation, const std::vector<PyObject *> &values) {
    const auto others = relation.nodes.begin() + relation.numbers[0];
    std::vector<PyObject *> own;
    for (auto node = relation.nodes.begin(); node != others; ++node) own.push_back(values[*node]);
    std::sort(own.begin(), own.end());
    if (std::adjacent_find(own.begin(), own.end()) != own.end()) return false;
    auto is_own = [&](int32_t node) { return std::binary_search(own.begin(), own.end(), values[node]); };
    return std::none_of(others, relation.nodes.end(), is_own);
}

bool still_apart(const Relation &relation, const std::vector<PyObject *> &values, int32_t node) {
    const auto others = relation.nodes.begin() + relation.numbers[0];
    auto is_another = [&](int32_t own) { return own == node || values[own] != values[node]; };
    if (!std::all_of(relation.nodes.begin(), others, is_another)) return false;
    if (std::find(relation.nodes.begin(), others, node) == others) return true;
    return std::all_of(others, relation.nodes.end(), is_another);
}

const RelationKind apart = {.name = "apart", .holds = are_apart, .by_identity = true, .holds_with = still_apart};

/* `distinct` comes once for each object that a call changes, and names all others each time: together, they are looked at in one pass. */
std::vector<Relation> merge_distinct(const std::vector<Relation> &relations) {
    std::map<std::vector<int32_t>, std::vector<int32_t>> own_of;
    for (const Relation &relation : relations) {
        std::vector<int32_t> all = relation.nodes;
        std::sort(all.begin(), all.end());
        own_of[std::move(all)].push_back(relation.nodes[0]);
    }
    std::vector<Relation> merged;
    for (auto &[all, own] : own_of) {
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        Relation relation{&apart, own, {static_cast<int64_t>(own.size())}};
        std::set_difference(all.begin(), all.end(), own.begin(), own.end(), std::back_inserter(relation.nodes));
        merged.push_back(std::move(relation));
    }
    return merged;
}

/* Whether a value is equal to no object that compares by identity but itself: it does so too, or is a constant. */
bool cannot_equal_others(PyObject *value) {
    const PyTypeObject *type = Py_TYPE(value);
    return is_constant_type(Py_TYPE(value)) || (type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare);
}

/* The first value, which compares by identity, is in the set, or isn't, as the number says. */
bool is_element(const Relation &relation, const std::vector<PyObject *> &values) {
    PyObject *value = values[relation.nodes[0]], *set = values[relation.nodes[1]], *element;
    if (value == nullptr || set == nullptr || !PyAnySet_Check(set)) return false;
    bool others_differ = true;
    Py_ssize_t position = 0;
    while (FJ_Set_Next(set, &position, &element)) {
        if (element == value) return relation.numbers[0] != 0;
        others_differ = others_differ && cannot_equal_others(element);
    }
    return relation.numbers[0] == 0 && others_differ;
}

const Registered<RelationKind> element({.name = "element", .holds = is_element, .nodes = 2, .numbers = 1});

const Registered<RelationKind> distinct({.name = "distinct", .holds = is_distinct, .by_identity = true, .merge = merge_distinct});

}  // namespace

}  // namespace framejit
