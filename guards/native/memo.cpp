/* memo.cpp: the words of memory that vouch for what a visit has found, so that the next walk need not visit.
 *
 * A memo says: while these words are what they were, every node of the chunk has the value it had, and every leaf that isn't a
 * question of its own holds. Three things vouch for a value:
 *   - The version of the dict or type that it was found in. Versions are never used twice, so the same one means the same container,
 *     holding the same objects ever since. Such a value is *fixed*: as long as the version stands, the object can't have been replaced
 *     by another one at its address.
 *   - The word that the pointer was read from. That tells the same address, not the same object: what is read below it has words
 *     of its own, the type first.
 *   - The tree itself, of what is pinned.
 *
 * No word may lie in memory that could be gone. Words are compared in order, and the object that a word lies in is reached by
 * words before it; its layout is known by its type (guarded, or a word), or from where the pointer is kept: ob_type points to a
 * type, an instance's dict pointer to a dict. Where neither is so, there is no memo, and the chunk is visited in every walk.
 */
#include "tree.h"

#include "cpython/versions.h"

namespace framejit {

uint64_t version_of(const Node &node, PyObject *value) {
    if (value == nullptr || node.versioned == Versioned::no) return 0;
    if (node.versioned == Versioned::dict) return PyDict_Check(value) ? FJ_Dict_Version(value) : 0;
    return PyType_Check(value) ? FJ_Type_Version(reinterpret_cast<PyTypeObject *>(value)) : 0;
}

void Memo::add(const void *address) { tree.scratch.push_back({address, load(address)}); }

bool Memo::is_fixed(int32_t index) const {
    const Node &node = tree.nodes[index];
    return node.accessor->found_in != Versioned::no && tree.nodes[node.parent].version != 0;
}

/* Whether a node's value is in a place that only dicts can be in, and its version will be among the words: no other dict can have that version. */
bool Memo::is_versioned_dict(int32_t index) const {
    const Node &node = tree.nodes[index];
    return node.accessor->known_layout && node.versioned == Versioned::dict && node.version != 0;
}

/* Makes sure that the walk has compared the exact type of a node's value. */
bool Memo::has_type(int32_t index, PyObject *value) {
    if (typed == index) return true;
    const Node &node = tree.nodes[index];
    if (!node.type_checked && PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) return false; /* another could be at its address */
    if (node.type_checked && index != current) return true;
    add(&value->ob_type);
    typed = index;
    return true;
}

/* Makes sure that a node's value is laid out as it was. */
bool Memo::has_layout(int32_t index, PyObject *value) {
    return tree.nodes[index].accessor->known_layout || (index == current && is_fixed(index)) || has_type(index, value);
}

/* Adds where the items of a list lie, and how many they are, unless the last words say so. */
void Memo::add_items(int32_t index, PyListObject *list) {
    if (listed == index) return;
    add(&list->ob_base.ob_size);
    add(&list->ob_item);
    listed = index;
}

/* Adds what vouches for the value of a node. False: nothing does. */
bool Memo::add_step(int32_t index) {
    current = index;
    const Node &node = tree.nodes[index];
    PyObject *base = tree.values[node.parent];
    if (node.volatile_) return false;
    if (base == nullptr) return true;
    if (node.accessor->found_in != Versioned::no) return is_fixed(index);
    return node.accessor->vouch(*this, node, base, tree.values[index]);
}

/* Adds what vouches for what a node's versioned container holds. To be called after its leaves, of which one may tell its type. */
bool Memo::add_version(int32_t index) {
    const Node &node = tree.nodes[index];
    PyObject *value = tree.values[index];
    if (node.version == 0 || versioned == index) return true;
    if (!has_layout(index, value)) return false;
    if (node.versioned == Versioned::dict) add(FJ_Dict_VersionWord(value));
    else add(FJ_Type_VersionWord(reinterpret_cast<PyTypeObject *>(value)));
    versioned = index;
    return true;
}

/* Adds what vouches for a leaf that holds. False: nothing does, it has to be asked every time. */
bool Memo::add_leaf(int32_t index, const Leaf &leaf) { return leaf.kind->vouch != nullptr && leaf.kind->vouch(*this, index, tree.values[index], leaf); }

}  // namespace framejit
