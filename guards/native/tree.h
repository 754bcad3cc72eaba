/* tree.h: the guard tree's data, and what its files call of one another.
 *
 * A tree is an array of nodes in preorder. A node is one step (accessor) from its parent's value, the leaves that check the
 * value it finds, and nothing else; children come right after their parent. One loop over the array checks and binds.
 *
 * Values are borrowed while the walk lasts. That is safe because nothing in a walk runs the user's Python: accessors read
 * memory, the garbage collector is off (so that an allocation can't run finalizers), dict look-ups compare builtin types only,
 * and what an accessor has to create (c_attr, deque_index, iterator_item) is kept until the walk is over.
 */
#ifndef FRAMEJIT_GUARDS_TREE_H
#define FRAMEJIT_GUARDS_TREE_H

#include <Python.h>

#include <cstdint>
#include <vector>

namespace framejit {

/* The names are those of Source.accessor in guards/source.py. */
#define FRAMEJIT_ACCESSORS(X)                                                                                                        \
    X(root) X(local) X(frame_function) X(pinned) X(instance_dict) X(item) X(dict_key) X(dict_value_at) X(index) X(slot_member)      \
    X(c_attr) X(type_of) X(type_attr) X(cell_contents) X(closure_cell) X(function_field) X(method_field) X(deque_index)             \
    X(wrapped_descriptor) X(referent) X(iterator_item) X(iterator_field)

/* The names are those of Guard.leaf in guards/kinds.py; the last three relate several paths and run after the walk. */
#define FRAMEJIT_LEAVES(X)                                                                                                           \
    X(type_is) X(value_is) X(equals) X(length) X(key_absent) X(dict_keys) X(set_equals) X(code_is) X(is_missing) X(is_present)    \
    X(tensor_match) X(global_state) X(same) X(distinct) X(storage_aliasing)

#define FRAMEJIT_ENUMERATOR(name) name,
enum class Accessor : uint8_t { FRAMEJIT_ACCESSORS(FRAMEJIT_ENUMERATOR) };
enum class LeafKind : uint8_t { FRAMEJIT_LEAVES(FRAMEJIT_ENUMERATOR) };
#undef FRAMEJIT_ENUMERATOR

/* What holds a node's children in place: while its version is the one recorded, they are where they were. */
enum class Versioned : uint8_t { no, dict, type };

struct TensorFacts;
struct GlobalFacts;

struct Leaf {
    LeafKind kind;
    int32_t held; /* which of the tree's held objects it compares with; -1: none */
    union {
        PyObject *object; /* borrowed from `held` */
        Py_ssize_t length;
        TensorFacts *tensor; /* owned */
        GlobalFacts *global_state; /* owned */
    };
};

/* A fact about several nodes' values. */
struct Relation {
    LeafKind kind;
    std::vector<int32_t> nodes;
    std::vector<int64_t> groups;
    std::vector<int64_t> offsets;
};

/* One cache line: a large model's tree has thousands, and the walk is bound by memory. */
struct alignas(64) Node {
    Accessor accessor;
    Versioned versioned;
    bool in_versioned; /* the parent's version says whether `cached` holds */
    bool fresh : 1;    /* in this walk, the container is as it was at the last match: children's `cached` holds */
    bool none_if_null : 1; /* payload of a slot_member */
    bool has_keys : 1; /* one of its leaves is dict_keys: an OrderedDict's order isn't versioned */
    int32_t parent;
    int32_t first_leaf, versioned_leaf, end_leaf; /* the leaves from versioned_leaf on depend on the container's version only */
    int32_t after_pure;                           /* children up to here depend on the container's version only */
    int32_t held;                                 /* which of the tree's held objects `object` is; -1: none */
    int32_t hint;                                 /* where in the dict the key was; of a slot_member, its offset */
    union {
        PyObject *object;  /* payload: a key, a name, a class, a pinned object; borrowed from `held` */
        Py_ssize_t number; /* payload: an index or a field */
    };
    PyObject *cached;      /* what a child of a versioned container found last; valid while the parent is fresh */
    uint64_t version;      /* of a versioned container at the last match; 0: unknown */
    uint64_t seen_version; /* ... in this walk */
};
static_assert(sizeof(Node) == 64);

/* Told by weak references that an object a tree compares with is gone. A tree holds one; weak references' callbacks hold it too. */
struct Alive {
    PyObject_HEAD
    bool dead;
};

struct GuardTree {
    PyObject_HEAD
    std::vector<Node> nodes;
    std::vector<Leaf> leaves;
    std::vector<Relation> relations;
    std::vector<int32_t> captures;
    std::vector<PyObject *> held;      /* strong: objects, and weak references to objects */
    std::vector<PyObject *> values;    /* of each node, in this walk */
    std::vector<PyObject *> temporary; /* strong: what accessors created in this walk */
    std::vector<int32_t> stale;        /* containers whose version moved, to be recorded when the walk matches */
    Alive *alive;
    bool walking;
    bool ambiguous; /* in this walk, only a user's __eq__ could have told whether a key is there */
};

/* The call that is being matched. */
struct CallView {
    PyObject *const *locals;
    Py_ssize_t n_locals;
    PyObject *function;
};

/* accessors.cpp */
PyObject *step(GuardTree &tree, Node &node, PyObject *base, const CallView &call);
int init_accessors();
PyObject *find_item(PyObject *dict, PyObject *key, int32_t *hint, bool *ambiguous);
PyTypeObject *deque_type();
PyObject *payload_object(const Node &node, PyObject *payload);
int lower_payload(Node &node, PyObject *payload);

/* iterators.cpp */
PyObject *iterator_item(PyObject *iterator, Py_ssize_t ahead);
PyObject *iterator_field(PyObject *iterator, Py_ssize_t which);
int init_iterators();
/* Fields: what it runs over; whether that dict has kept its size; where an enumerate counts, or how many a zip has; ... */
constexpr Py_ssize_t iterator_sequence = 0, iterator_intact = 1, iterator_count = 2, iterator_strict = 3, iterator_inner = 4;

/* leaf_object.cpp */
bool same_constant(PyObject *a, PyObject *b);
bool is_immutable_constant(PyObject *value);
bool is_constant_type(PyTypeObject *type);
PyObject *hold(GuardTree &tree, PyObject *object, bool weakly, int32_t *index);
bool is_gone(GuardTree &tree, int32_t held);
int init_leaf_object();
Alive *new_alive();

/* leaf_container.cpp */
bool has_length(PyObject *value, Py_ssize_t length);
bool has_keys(PyObject *dict, PyObject *keys);
bool has_elements(PyObject *set, PyObject *elements);

/* leaf_tensor.cpp */
int init_leaf_tensor(PyObject *module);
TensorFacts *new_tensor_facts(PyObject *spec);
void delete_tensor_facts(TensorFacts *facts);
PyObject *tensor_facts_class(TensorFacts *facts);
bool tensor_matches(const TensorFacts &facts, PyObject *value);
bool storages_match(const std::vector<PyObject *> &values, const Relation &relation);
GlobalFacts *new_global_facts(PyObject *spec);
void delete_global_facts(GlobalFacts *facts);
int visit_global_facts(GlobalFacts *facts, visitproc visit, void *arg);
bool global_state_matches(const GlobalFacts &facts);

}  // namespace framejit

#endif
