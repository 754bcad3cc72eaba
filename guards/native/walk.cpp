/* walk.cpp: the walk over one call: memos first, visits where they don't vouch for a chunk, then what is looked at every time. */
#include "tree.h"

#include <algorithm>
#include <exception>
#include <iterator>

namespace framejit {

namespace {

constexpr uint64_t zero = 0;
constexpr int32_t largest_chunk = 24;
constexpr uint8_t longest_wait = 63;

bool holds(const Leaf &leaf, PyObject *value) {
    return value != nullptr ? leaf.kind->holds(leaf, value) : leaf.kind->holds_of_missing;
}

/* Whether the relations by identity that compare this node's value go on to hold, now that it is another. */
bool relations_hold_with(const GuardTree &tree, int32_t node) {
    for (auto next = std::lower_bound(tree.compared.begin(), tree.compared.end(), std::pair{node, 0}); next != tree.compared.end() && next->first == node; next++) {
        const Relation &relation = tree.merged[next->second];
        bool held = relation.kind->holds_with != nullptr ? relation.kind->holds_with(relation, tree.values, node) : relation.kind->holds(relation, tree.values);
        if (!held) return false;
    }
    return true;
}

/* Whether the relations hold. Those by identity need another look only when one of the values is another object. */
bool relations_hold(const GuardTree &tree) {
    for (const Relation &relation : tree.merged) {
        if (relation.kind->by_identity && !tree.unrelated) continue;
        if (!relation.kind->holds(relation, tree.values)) return false;
    }
    return tree.unrelated || std::all_of(tree.moved.begin(), tree.moved.end(), [&](int32_t node) { return relations_hold_with(tree, node); });
}

/* Notes that relations must be looked at again, because the value of this node has become another. */
void note_moved(GuardTree &tree, int32_t node) {
    constexpr size_t most = 32;
    if (tree.moved.size() < most) {
        tree.moved.push_back(node);
    } else {
        tree.unrelated = true;
    }
}

int32_t first_guard(const Node &node) { return node.first_leaf < node.end_leaf ? node.first_leaf : no_guard; }

/* Makes the next walk visit a chunk. The word never matches, and tells which chunk it is. */
void spoil(GuardTree &tree, int32_t number) {
    tree.words[tree.chunks[number].first_word] = {&zero, static_cast<uint64_t>(number) + 1};
}

/* Fetches a node's value. Where it is another, or the container that it is has changed, so may have what its children find. */
PyObject *fetch(GuardTree &tree, int32_t index, const CallView &call) {
    Node &node = tree.nodes[index];
    PyObject *value = step(tree, node, tree.values[node.parent], call, [&](int32_t key) { return tree.values[key]; });
    uint64_t version = version_of(node, value);
    bool moved = value != tree.values[index];
    tree.values[index] = value;
    if (moved && node.related && !tree.unrelated) note_moved(tree, index);
    if (moved || version != node.version) {
        node.version = version;
        for (int32_t i = node.first_outside; i < node.end_outside; i++) spoil(tree, tree.outside[i]);
    }
    return value;
}

/* Puts the memo in tree.scratch and the questions in tree.asked in their place. */
void remember(GuardTree &tree, Chunk &chunk) {
    chunk.recorded = tree.walks;
    if (chunk.questions != tree.asked) {
        chunk.questions = tree.asked;
        tree.arrange = true;
    }
    const auto size = static_cast<int32_t>(tree.scratch.size());
    if (size > chunk.room) {
        chunk.waiting = tree.scratch;
        tree.arrange = true;
        return;
    }
    Word *words = &tree.words[chunk.first_word];
    std::copy(tree.scratch.begin(), tree.scratch.end(), words);
    std::fill(words + size, words + chunk.room, Word{&zero, 0});
}

/* Whether a visit should leave a memo. What changes from call to call isn't worth one: the wait doubles with each that fails at once. */
bool wants_memo(const GuardTree &tree, Chunk &chunk) {
    if (chunk.always) return false;
    if (chunk.recorded != 0) {
        chunk.failures = tree.walks - chunk.recorded > 1 ? 0 : std::min(chunk.failures + 1, 6);
        chunk.wait = static_cast<uint8_t>((1 << chunk.failures) - 1);
        chunk.recorded = 0;
    }
    if (chunk.wait == 0) return true;
    chunk.wait--;
    return false;
}

/* Visits a chunk node by node. */
int32_t visit(GuardTree &tree, int32_t number, const CallView &call) {
    Chunk &chunk = tree.chunks[number];
    tree.visited += chunk.end_node - chunk.first_node;
    spoil(tree, number);
    chunk.waiting.clear();
    bool remembers = wants_memo(tree, chunk);
    Memo memo(tree);
    tree.scratch.clear();
    tree.asked.clear();
    for (int32_t i = chunk.first_node; i < chunk.end_node; i++) {
        Node &node = tree.nodes[i];
        if (node.only_captured) continue;
        PyObject *value = fetch(tree, i, call);
        const bool has_same_keys = node.version != 0 && node.version == node.version_of_keys && PyDict_CheckExact(value);
        if (tree.ambiguous) return first_guard(node);
        remembers = remembers && memo.add_step(i);
        if (node.deferred) {
            TensorMemo &tensor = tree.tensors[node.tensor];
            if (value == nullptr) return tensor.leaf;
            tensor.tensor = value;
            tensor.look = nullptr;
            tensor.is_new = true;
            continue;
        }
        for (int32_t leaf = node.first_leaf; leaf < node.end_leaf; leaf++) {
            if (tree.leaves[leaf].kind->runs_python) continue;
            const bool known = has_same_keys && tree.leaves[leaf].kind->knows_keys;
            if (!known && !holds(tree.leaves[leaf], value)) return leaf;
            if (remembers && !memo.add_leaf(i, tree.leaves[leaf])) {
                if (node.has_children) remembers = false; /* children rely on what the leaves of their parent say */
                tree.asked.push_back(leaf);
            }
        }
        node.version_of_keys = node.version;
        remembers = remembers && memo.add_version(i);
    }
    if (remembers) remember(tree, chunk);
    return matches;
}

inline bool differs(const Word &word) { return load(word.address) != word.expected; }

/* One after the other, because what a word lies in may be gone if one before it differs. */
const Word *first_difference(const Word *word, const Word *end) {
    for (; end - word >= 8; word += 8) {
        if (differs(word[0])) return word;
        if (differs(word[1])) return word + 1;
        if (differs(word[2])) return word + 2;
        if (differs(word[3])) return word + 3;
        if (differs(word[4])) return word + 4;
        if (differs(word[5])) return word + 5;
        if (differs(word[6])) return word + 6;
        if (differs(word[7])) return word + 7;
    }
    while (word != end && !differs(*word)) word++;
    return word;
}

/* Which chunk a word that differs belongs to. */
int32_t chunk_of(const GuardTree &tree, const Word &word, int32_t index) {
    if (word.address == &zero) return static_cast<int32_t>(word.expected - 1);
    auto begins_behind = [](int32_t place, const Chunk &chunk) { return place < chunk.first_word; };
    auto next = std::upper_bound(tree.chunks.begin(), tree.chunks.end(), index, begins_behind);
    return static_cast<int32_t>(next - tree.chunks.begin()) - 1;
}

/* Looks at the tensors that are where they were, and takes a reference to each that is captured while its memory is at hand. */
int32_t check_tensors(GuardTree &tree, PyObject **captures) {
    const auto size = static_cast<int32_t>(tree.tensors.size());
    int32_t next = 0;
    while ((next = take_same_tensors(tree.tensors.data(), next, size, captures)) < size) {
        TensorMemo &memo = tree.tensors[next];
        if (!holds(tree.leaves[memo.leaf], memo.tensor)) return memo.leaf;
        memo.look = memo.is_new ? nullptr : new_look(tree.looks, tree.leaves[memo.leaf], memo.tensor);
        memo.near = tensor_data(memo.tensor);
        memo.is_new = false;
        if (memo.capture >= 0) captures[memo.capture] = Py_NewRef(memo.tensor);
        next++;
    }
    return matches;
}

/* What is looked at in every walk, when all values are known. */
int32_t check_rest(GuardTree &tree, PyObject **captures) {
    int32_t result = check_tensors(tree, captures);
    if (result != matches) return result;
    for (const Question &question : tree.questions) {
        if (!holds(tree.leaves[question.leaf], tree.values[question.node])) return question.leaf;
    }
    if (!relations_hold(tree)) return no_guard;
    tree.unrelated = false;
    tree.moved.clear();
    for (int32_t capture : tree.other_captures) {
        PyObject *value = tree.values[tree.captures[capture]];
        if (value == nullptr) return no_guard;
        captures[capture] = Py_NewRef(value);
    }
    TensorNumbers numbers;
    int32_t tensor = -1; /* whose numbers these are: numbers of one tensor are mostly captured together */
    for (int32_t capture : tree.number_captures) {
        const Node &node = tree.nodes[tree.captures[capture]];
        if (node.parent != tensor) {
            tensor = node.parent;
            if (tree.values[tensor] == nullptr || !tensor_numbers(tree.values[tensor], &numbers)) return no_guard;
        }
        captures[capture] = node.accessor->tensor_number(node, numbers);
        if (captures[capture] == nullptr) {
            PyErr_Clear();
            return no_guard;
        }
    }
    return matches;
}

/* Whether the argument that ended an earlier walk would end this one: what tells one entry's calls from another's is mostly the same argument. */
bool rejects_again(GuardTree &tree, const CallView &call) {
    if (tree.rejecting == 0) return false;
    Node &node = tree.nodes[tree.rejecting];
    return !holds(tree.leaves[node.first_leaf], node.accessor->step(tree, node, &tree, call));
}

/* Notes how a walk ends. */
int32_t ended(GuardTree &tree, int32_t result) {
    if (result >= 0 && tree.leaves[result].argument != 0) tree.rejecting = tree.leaves[result].argument;
    return result;
}

}  // namespace

int32_t walk(GuardTree &tree, const CallView &call, PyObject **captures) {
    tree.visited = 0;
    if (rejects_again(tree, call)) return tree.nodes[tree.rejecting].first_leaf;
    if (++tree.walks == 0) tree.walks = 1;
    const Word *word = tree.words.data();
    const Word *const end = word + tree.words.size();
    while ((word = first_difference(word, end)) != end) {
        const int32_t number = chunk_of(tree, *word, static_cast<int32_t>(word - tree.words.data()));
        int32_t result = visit(tree, number, call);
        if (result != matches) return ended(tree, result);
        word = tree.words.data() + tree.chunks[number].first_word + tree.chunks[number].room;
    }
    std::fill(captures, captures + tree.captures.size(), nullptr);
    int32_t result = no_guard;
    try {
        result = check_rest(tree, captures);
    } catch (const std::exception &) {
        /* c10 throws for a tensor without what was asked for: not the tensor of the trace */
    }
    if (result != matches) {
        for (size_t i = 0; i < tree.captures.size(); i++) Py_CLEAR(captures[i]); /* none is the last reference */
    }
    return ended(tree, result);
}

/* Visits every node and asks every leaf, so that the first failure is the one of the guards' order; leaves memos alone. */
int32_t walk_in_order(GuardTree &tree, const CallView &call) {
    std::vector<PyObject *> values(tree.nodes.size());
    values[0] = &tree;
    for (size_t i = 0; i < tree.nodes.size(); i++) {
        Node &node = tree.nodes[i];
        if (is_gone(tree, node.held)) return first_guard(node);
        values[i] = step(tree, node, values[node.parent], call, [&](int32_t key) { return values[key]; });
        for (int32_t leaf = node.first_leaf; leaf < node.end_leaf; leaf++) {
            if (tree.leaves[leaf].kind->runs_python) continue;
            if (!holds(tree.leaves[leaf], values[i]) || is_gone(tree, tree.leaves[leaf].held)) return leaf;
        }
        if (tree.ambiguous) return first_guard(node);
    }
    for (size_t i = 0; i < tree.relations.size(); i++) {
        if (!tree.relations[i].kind->holds(tree.relations[i], values)) return static_cast<int32_t>(tree.leaves.size() + i);
    }
    bool all_there = std::all_of(tree.captures.begin(), tree.captures.end(), [&](int32_t capture) { return values[capture] != nullptr; });
    return all_there ? matches : no_guard;
}

/* Lays the memos out again, one after the other in the order of the chunks. */
void arrange_memos(GuardTree &tree) {
    std::vector<Word> words;
    std::vector<Question> questions;
    words.reserve(tree.words.size() + tree.scratch.size());
    for (Chunk &chunk : tree.chunks) {
        auto first = static_cast<int32_t>(words.size());
        if (chunk.waiting.empty()) {
            words.insert(words.end(), tree.words.begin() + chunk.first_word, tree.words.begin() + chunk.first_word + chunk.room);
        } else {
            words.insert(words.end(), chunk.waiting.begin(), chunk.waiting.end());
            std::vector<Word>().swap(chunk.waiting);
        }
        chunk.first_word = first;
        chunk.room = static_cast<int32_t>(words.size()) - first;
        for (int32_t leaf : chunk.questions) {
            auto is_its = [&](const Node &node) { return node.first_leaf <= leaf && leaf < node.end_leaf; };
            auto node = std::find_if(tree.nodes.begin() + chunk.first_node, tree.nodes.begin() + chunk.end_node, is_its);
            questions.push_back({leaf, static_cast<int32_t>(node - tree.nodes.begin())});
        }
    }
    tree.words.swap(words);
    tree.questions.swap(questions);
    tree.arrange = false;
}

/* Finds out what a walk checks in place of the relations. */
void merge_relations(GuardTree &tree) {
    for (const RelationKind *kind : registered<RelationKind>()) {
        std::vector<Relation> found;
        auto is_of_kind = [&](const Relation &relation) { return relation.kind == kind; };
        std::copy_if(tree.relations.begin(), tree.relations.end(), std::back_inserter(found), is_of_kind);
        if (kind->merge != nullptr) found = kind->merge(found);
        std::move(found.begin(), found.end(), std::back_inserter(tree.merged));
    }
    for (size_t i = 0; i < tree.merged.size(); i++) {
        if (!tree.merged[i].kind->by_identity) continue;
        for (int32_t node : tree.merged[i].nodes) tree.compared.emplace_back(node, static_cast<int32_t>(i));
    }
    std::sort(tree.compared.begin(), tree.compared.end());
}

/* Cuts the nodes into chunks. */
void cut_into_chunks(GuardTree &tree) {
    std::vector<int32_t> chunk_of;
    std::vector<std::vector<int32_t>> outside(tree.nodes.size());
    for (Node &node : tree.nodes) {
        node.only_captured = node.accessor->tensor_number != nullptr && node.first_leaf == node.end_leaf && !node.has_children;
    }
    for (const Node &node : tree.nodes) {
        if (node.accessor->look_up != nullptr) tree.nodes[node.number].only_captured = false;
    }
    for (const Relation &relation : tree.relations) {
        for (int32_t index : relation.nodes) {
            tree.nodes[index].related |= relation.kind->by_identity;
            tree.nodes[index].only_captured = false;
        }
    }
    for (size_t i = 0; i < tree.nodes.size(); i++) {
        Node &node = tree.nodes[i];
        if (node.only_captured) {
            tree.chunks.back().end_node = static_cast<int32_t>(i) + 1;
            chunk_of.push_back(static_cast<int32_t>(tree.chunks.size()) - 1);
            continue;
        }
        const bool is_root = i == 0;
        const Node &parent = tree.nodes[node.parent];
        const bool vouched = node.accessor->vouch != nullptr || node.accessor->found_in != Versioned::no;
        node.volatile_ = !vouched || (!is_root && parent.volatile_ && !parent.accessor->given);
        bool begins = is_root || node.volatile_ != tree.chunks.back().always || node.accessor->begins_chunk ||
                      static_cast<int32_t>(i) - tree.chunks.back().first_node >= largest_chunk;
        auto index = static_cast<int32_t>(i);
        if (begins) {
            Chunk chunk{};
            chunk.first_node = index;
            chunk.first_word = static_cast<int32_t>(tree.chunks.size());
            chunk.room = 1;
            chunk.always = node.volatile_;
            tree.chunks.push_back(chunk);
        }
        tree.chunks.back().end_node = index + 1;
        auto number = static_cast<int32_t>(tree.chunks.size()) - 1;
        chunk_of.push_back(number);
        std::vector<int32_t> &known = outside[node.parent];
        if (!is_root && chunk_of[node.parent] != number && (known.empty() || known.back() != number)) known.push_back(number);
        bool is_tensor = node.end_leaf - node.first_leaf == 1 && tree.leaves[node.first_leaf].kind->looks_at_tensor;
        node.deferred = is_tensor && !node.has_children && !node.volatile_;
        if (node.deferred) {
            node.tensor = static_cast<int32_t>(tree.tensors.size());
            tree.tensors.push_back({nullptr, nullptr, nullptr, node.first_leaf, -1, true});
        }
    }
    for (size_t i = 0; i < tree.captures.size(); i++) {
        const Node &node = tree.nodes[tree.captures[i]];
        bool first = node.deferred && tree.tensors[node.tensor].capture < 0;
        if (first) tree.tensors[node.tensor].capture = static_cast<int32_t>(i);
        else if (node.only_captured) tree.number_captures.push_back(static_cast<int32_t>(i));
        else tree.other_captures.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < tree.nodes.size(); i++) {
        tree.nodes[i].first_outside = static_cast<int32_t>(tree.outside.size());
        tree.outside.insert(tree.outside.end(), outside[i].begin(), outside[i].end());
        tree.nodes[i].end_outside = static_cast<int32_t>(tree.outside.size());
    }
    tree.words.resize(tree.chunks.size());
    for (size_t i = 0; i < tree.chunks.size(); i++) spoil(tree, static_cast<int32_t>(i));
    tree.values[0] = &tree;
}

}  // namespace framejit
