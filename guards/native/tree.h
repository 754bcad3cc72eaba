/* tree.h: the guard tree's data, and what its files call of one another.
 *
 * A tree is an array of nodes in preorder. A node is one step (accessor) from its parent's value, the leaves that check the
 * value it finds, and nothing else; children come right after their parent.
 *
 * The array is cut into chunks. A chunk that has been visited node by node leaves a memo: the few words of memory (versions of
 * dicts and types, pointers in objects, sizes) on which everything in it depends, with what they held. The next walk compares
 * those words, in one loop over a flat array, and visits only the chunks of which a word differs. See memo.cpp for what the
 * words are, and why nothing that they point to can be gone.
 *
 * Values are borrowed while the walk lasts. That is safe because nothing in a walk runs Python, or lets other threads run: accessors
 * read memory, the garbage collector is off (so that an allocation can't run finalizers), dict look-ups compare builtin types only,
 * and what an accessor has to create (AccessorKind::creates) is held until the walk is over. What may run Python (AccessorKind::before,
 * LeafKind::runs_python) is asked for before the walk, or after it: see `match` in tree.cpp.
 * From one walk to the next, values are only remembered: what they point to may be gone.
 */
#ifndef FRAMEJIT_GUARDS_TREE_H
#define FRAMEJIT_GUARDS_TREE_H

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cpython/objects.h"

namespace framejit {

/* What holds a node's children in place: while its version is the one recorded, they are where they were. */
enum class Versioned : uint8_t { no, dict, type };

struct CallView;
struct TensorLook;
struct TensorNumbers;
struct GuardTree;
struct Leaf;
struct Node;
struct Relation;
class Memo;

/* A kind of step from a value, the base, to the next: what the Source of the same `accessor` is in Python (guards/source.py and the files beside it). The file
 * with its code defines it, as a Registered object; no other file names it. */
struct AccessorKind {
    const char *name;
    /* Takes what Source.native() gives; false with an exception set where that is no payload of this kind. NULL: it has none. */
    bool (*read)(GuardTree &tree, Node &node, PyObject *payload) = nullptr;
    /* The step from a base that is not NULL: a borrowed reference, or what `creates` says; NULL where there is nothing. It runs no user's Python. */
    PyObject *(*step)(GuardTree &tree, Node &node, PyObject *base, const CallView &call) = nullptr;
    /* In place of `step`: what the base holds at a key that is the value of another node, the one before it that Node::number names. `key` isn't NULL. */
    PyObject *(*look_up)(GuardTree &tree, Node &node, PyObject *base, PyObject *key) = nullptr;
    /* Adds words of memory to a memo, of which one differs once the value is another. False: there are no such words this time. NULL: there never are, and
     * unless `found_in` names a container, the step is taken in every walk. */
    bool (*vouch)(Memo &memo, const Node &node, PyObject *base, PyObject *value) = nullptr;
    /* What may run Python, or let other threads run: it is called before the walk, and the step takes its result (found_before). A new reference; NULL, maybe
     * with an exception set, where there is nothing. NULL: the step needs nothing of the kind. */
    PyObject *(*before)(const Node &node, PyObject *base) = nullptr;
    /* Reads the value from the numbers in a tensor's C++ object: a new reference; NULL, maybe with an exception set, where there is none. If such a value is
     * only captured, no step is taken, and this reads it at the end of a walk. NULL: the value is no such number. */
    PyObject *(*tensor_number)(const Node &node, const TensorNumbers &numbers) = nullptr;
    Versioned found_in = Versioned::no; /* the container that the base is, where its version says whether the value is the same */
    bool creates = false;      /* the step gives a new reference, or NULL with or without an exception set; it is held until the walk is over */
    bool given = false;        /* the call brings the value with it: no word vouches for it, but words do for what is found below it */
    bool known_layout = false; /* the value is laid out as it was without a look at its type */
    bool begins_chunk = false; /* the nodes from here on go together: they hang on one object */
};

/* A kind of guard about one value: what the class of the same `leaf` in guards/kinds.py is in Python. One of the leaf_*.cpp defines it, as a
 * Registered object; no other file names it. */
struct LeafKind {
    const char *name;
    /* Takes what Guard.native() gives; false with an exception set where that is no payload of this kind. NULL: it has none. */
    bool (*read)(GuardTree &tree, Leaf &leaf, PyObject *payload) = nullptr;
    /* The check. It runs no user's Python. */
    bool (*holds)(const Leaf &leaf, PyObject *value);
    /* Adds words of memory to a memo, of which one differs once the leaf, which holds now, does no more. False, or NULL: there are no such words, and
     * the leaf is asked in every walk. */
    bool (*vouch)(Memo &memo, int32_t node, PyObject *value, const Leaf &leaf) = nullptr;
    bool holds_of_missing = false; /* it holds where the path ends early */
    bool knows_type = false;       /* it holds for one exact type only, and vouches for the type first */
    bool knows_keys = false;       /* once it holds, it does as long as the version of the dict that is the value stands, if that is no subclass's */
    bool runs_python = false;      /* the check may, and may leave an exception: it is made while nothing is borrowed, and of the root only */
    bool looks_at_tensor = false;  /* its facts are about a tensor: it holds for each that looks (TensorLook) as one that it has held for */
};

/* A kind of guard about several values, as a Relation in guards/relations.py. Relations are checked after the walk. */
struct RelationKind {
    const char *name;
    /* The check. `values`: of all nodes. */
    bool (*holds)(const Relation &relation, const std::vector<PyObject *> &values);
    size_t nodes = 0;         /* how many paths it relates; 0: any number */
    size_t numbers = 0;       /* how many numbers Guard.native() gives for each path, where it has no `read` */
    bool by_identity = false; /* it goes on to hold while the values are the same objects */
    /* Whether one that held goes on to hold after the value of this node has become another; NULL: the check is made again. */
    bool (*holds_with)(const Relation &relation, const std::vector<PyObject *> &values, int32_t node) = nullptr;
    /* Makes facts of the numbers; false with an exception set where they aren't of this kind. */
    bool (*read)(GuardTree &tree, Relation &relation) = nullptr;
    /* What a walk checks in place of all relations of the kind that a tree has; NULL: each of them. */
    std::vector<Relation> (*merge)(const std::vector<Relation> &relations) = nullptr;
};

/* The registered kinds. Python is told their places: of accessors in `_runtime.ACCESSORS`, of leaves and after them of relations in `_runtime.LEAVES`. */
template <typename Kind>
std::vector<const Kind *> &registered() {
    static std::vector<const Kind *> kinds;
    return kinds;
}

/* Defined at namespace scope, it adds a kind to the registered ones when the library is loaded. */
template <typename Kind>
struct Registered {
    const Kind kind;
    explicit Registered(const Kind &definition) : kind(definition) { registered<Kind>().push_back(&kind); }
    Registered(const Registered &) = delete;
};

/* What a leaf compares with where that isn't one object or number. visit: as tp_traverse, the Python objects that it holds. */
struct Facts {
    virtual ~Facts() = default;
    virtual int visit(visitproc, void *) const { return 0; }
};

struct Leaf {
    const LeafKind *kind;
    int32_t held; /* which of the tree's held objects it compares with; -1: none */
    int32_t argument; /* the node of the argument that it is the first leaf of; 0: it is another leaf */
    union {
        PyObject *object; /* borrowed from `held` */
        Py_ssize_t length;
        const Facts *facts; /* one of GuardTree::facts */
    };
};

/* A fact about several nodes' values. numbers: those of each node, then those of the next. facts: what its kind reads from them, one of
 * GuardTree::facts. */
struct Relation {
    const RelationKind *kind;
    std::vector<int32_t> nodes;
    std::vector<int64_t> numbers;
    const Facts *facts = nullptr;
};

struct Node {
    const AccessorKind *accessor;
    Versioned versioned;
    bool volatile_ : 1;    /* no word vouches for the value: an argument, or what an accessor creates */
    bool none_if_null : 1; /* of a slot: NULL in it stands for None */
    bool has_children : 1; /* and they rely on what its leaves say */
    bool related : 1;      /* a relation compares its value by identity */
    bool type_checked : 1; /* one of its leaves is of a kind that knows the type */
    bool deferred : 1;     /* its only leaf looks at a tensor and has a memo of its own */
    bool only_captured : 1; /* a number of a tensor that nothing else asks for: it is read at the end of a walk, and has no value before */
    int32_t parent;
    int32_t first_leaf, end_leaf;
    int32_t first_outside, end_outside; /* in GuardTree::outside: the other chunks that its children are in */
    int32_t tensor;                     /* of a deferred one: which of GuardTree::tensors */
    int32_t held;                       /* which of the tree's held objects `object` is; -1: none */
    int32_t hint;                       /* where in the dict the key was; of a slot, its offset; of one of the python_nodes, its place there */
    union {
        PyObject *object;  /* payload: a key, a name, a class, a pinned object; borrowed from `held` */
        Py_ssize_t number; /* payload: an index, a field, or the node of a key */
    };
    uint64_t version; /* of a versioned container when it was last visited; 0: it had none */
    uint64_t version_of_keys; /* of a dict when its leaves last held that know its keys */
};

/* Eight bytes of memory, and what they were when their chunk was last visited. */
struct Word {
    const void *address;
    uint64_t expected;
};

/* Consecutive nodes that share a memo: `room` words from first_word on. A chunk that has to be visited has a first word that never matches. */
struct Chunk {
    int32_t first_node, end_node;
    int32_t first_word, room;
    uint32_t recorded;              /* the walk that left the memo */
    uint8_t failures, wait;         /* in a row, of memos that didn't last; how many visits to let pass before the next memo */
    bool always;                    /* its nodes are volatile: it has no memo */
    std::vector<Word> waiting;      /* a memo that is larger than the room */
    std::vector<int32_t> questions; /* its leaves that words don't answer */
};

/* A leaf to ask in every walk. */
struct Question {
    int32_t leaf, node;
};

/* A leaf of which only the tensor is looked at in every walk. */
struct TensorMemo {
    PyObject *tensor;       /* the node's value */
    const TensorLook *look; /* how the tensor looked when it matched; NULL: not known */
    const void *near;       /* where its data was then: only for fetching it into the cache in time */
    int32_t leaf;
    int32_t capture; /* which capture the tensor is; -1: none */
    bool is_new;     /* the node has been visited since the tensor was last looked at */
};

/* What a step that may run Python has found before the walk, and the value that it was a step from: strong, NULL where there is none. */
struct Found {
    PyObject *base, *value;
};

/* Told by weak references that an object a tree compares with is gone. A tree holds one; weak references' callbacks hold it too. */
struct Alive {
    PyObject_HEAD
    bool dead;
};

struct TreeData {
    std::vector<Node> nodes;
    std::vector<Leaf> leaves;
    std::vector<std::unique_ptr<const Facts>> facts;
    std::vector<Relation> relations, merged; /* one for each guard, and what a walk checks in their place */
    std::vector<int32_t> captures;
    std::vector<PyObject *> held;      /* strong: objects, and weak references to objects */
    std::vector<PyObject *> values;    /* of each node, in this walk */
    std::vector<PyObject *> temporary; /* strong: what accessors created in this walk */
    std::vector<Chunk> chunks;
    std::vector<int32_t> outside;
    std::vector<Word> words, scratch;
    std::vector<Question> questions;
    std::vector<int32_t> asked; /* scratch: of the chunk that is being visited */
    std::vector<TensorMemo> tensors;
    std::vector<int32_t> other_captures; /* those that are neither a capture of one of `tensors` nor of a tensor's number that is only captured */
    std::vector<int32_t> number_captures;
    std::vector<TensorLook *> looks; /* owned */
    std::vector<int32_t> python_leaves; /* those of kinds that may run Python */
    std::vector<int32_t> python_nodes;  /* those of accessors that do something before the walk */
    std::vector<Found> found;           /* what these find in this walk */
    Alive *alive = nullptr;
    uint32_t walks = 0;
    int32_t rejecting = 0; /* the node of the argument whose first leaf ended an earlier walk; 0: none did */
    int32_t visited = 0; /* nodes, in the last walk */
    bool walking = false;
    bool ambiguous = false; /* in this walk, only a user's __eq__ could have told whether a key is there */
    bool arrange = false;   /* a memo or its questions don't fit in their place */
    bool unrelated = true;      /* since the relations last held, more values that they compare have become others than `moved` has room for */
    std::vector<int32_t> moved; /* the nodes whose values have become others since then, of those that relations compare by identity */
    std::vector<std::pair<int32_t, int32_t>> compared; /* (node, relation by identity in `merged` that compares it), sorted */
};

struct GuardTree : PyObject, TreeData {};

/* The call that is being matched. */
struct CallView {
    PyObject *const *locals;
    Py_ssize_t n_locals;
    PyObject *function;
};

/* accessors.cpp */
int init_accessors(PyObject *module);
PyObject *find_item(PyObject *dict, PyObject *key, int32_t *hint, bool *ambiguous);
PyTypeObject *deque_type();
PyObject *keep(GuardTree &tree, PyObject *created); /* holds what a step has created until the walk is over; clears the exception where that is NULL */
/* For AccessorKind::read: a number that isn't negative, any object, an attribute's name. */
bool read_number(GuardTree &tree, Node &node, PyObject *payload);
bool read_object(GuardTree &tree, Node &node, PyObject *payload);
bool read_name(GuardTree &tree, Node &node, PyObject *payload);
/* For AccessorKind::step. */
const Found &found_before(const GuardTree &tree, const Node &node);
PyObject *take_found_before(GuardTree &tree, Node &node, PyObject *base, const CallView &call); /* what was found, if that was from the same base */

/* The value that a node's step finds; NULL where there is nothing, and where the path ended earlier (`base` is NULL). Never raises. value_of: gives the
 * value of the node with a number, for a key. */
template <typename ValueOf>
inline PyObject *step(GuardTree &tree, Node &node, PyObject *base, const CallView &call, const ValueOf &value_of) {
    if (base == nullptr) return nullptr;
    const bool looks_up = node.accessor->look_up != nullptr;
    PyObject *key = looks_up ? value_of(static_cast<int32_t>(node.number)) : nullptr;
    if (looks_up) return key == nullptr ? nullptr : node.accessor->look_up(tree, node, base, key);
    PyObject *value = node.accessor->step(tree, node, base, call);
    return node.accessor->creates ? keep(tree, value) : value;
}

/* iterators.cpp */
PyObject *sequence_field(PyObject *iterator, Py_ssize_t which);
int init_iterators();
/* Fields of all iterators over sequences and dicts: what it runs over; whether that dict has kept its size; the position of a `reversed`. */
constexpr Py_ssize_t iterator_sequence = 0, iterator_intact = 1, iterator_position = 2, iterator_own = 3;

/* arrange.cpp */
int init_arrange(PyObject *module);

/* caches.cpp */
int init_caches();

/* iterator_fields.cpp */
int init_iterator_fields(PyObject *module);

/* locks.cpp */
int init_locks(PyObject *module);

/* thread_locals.cpp */
int init_thread_locals(PyObject *module);

/* generators.cpp */
int init_generators(PyObject *module);

/* leaf_object.cpp */
bool same_constant(PyObject *a, PyObject *b);
bool is_immutable_constant(PyObject *value);
bool is_constant_type(PyTypeObject *type);
PyObject *hold(GuardTree &tree, PyObject *object, bool weakly, int32_t *index);
bool read_constant(GuardTree &tree, Leaf &leaf, PyObject *payload);
bool read_tuple(GuardTree &tree, Leaf &leaf, PyObject *payload);
bool is_gone(GuardTree &tree, int32_t held);
int init_leaf_object();
Alive *new_alive();

/* walk.cpp: both give the number of a guard that fails, `matches` if there is none, `no_guard` where a path ended early; `match` in tree.cpp also gives
 * `raised`, with an exception set. On a match, `walk` stores new references to the captured values. */
constexpr int32_t matches = -1, no_guard = -2, raised = -3;
int32_t walk(GuardTree &tree, const CallView &call, PyObject **captures);
int32_t walk_in_order(GuardTree &tree, const CallView &call);
void cut_into_chunks(GuardTree &tree);
void merge_relations(GuardTree &tree);
void arrange_memos(GuardTree &tree);

/* memo.cpp */
inline uint64_t load(const void *address) {
    uint64_t word;
    std::memcpy(&word, address, sizeof word);
    return word;
}
uint64_t version_of(const Node &node, PyObject *value);

/* Writes the words of one chunk into tree.scratch. What is asked of a node says whether words vouch for it; false: none do. */
class Memo {
  public:
    explicit Memo(GuardTree &tree) : tree(tree) {}
    bool add_step(int32_t index);
    bool add_leaf(int32_t index, const Leaf &leaf);
    bool add_version(int32_t index);

    /* For AccessorKind::vouch and LeafKind::vouch. */
    void add(const void *address);
    void add_items(int32_t index, PyListObject *list);
    bool is_fixed(int32_t index) const;
    bool has_version(int32_t index) const { return tree.nodes[index].version != 0; }
    bool is_versioned_dict(int32_t index) const;
    bool has_type(int32_t index, PyObject *value);
    bool has_layout(int32_t index, PyObject *value);

  private:
    GuardTree &tree;
    int32_t current = 0;
    int32_t typed = -1, listed = -1, versioned = -1; /* the nodes about whose type, items and version there are words */
};

/* arrays.cpp */
int init_arrays();

/* leaf_container.cpp */
int init_leaf_container();

/* tensor_accessors.cpp */
struct TensorNumbers {
    int64_t dims;
    const int64_t *sizes, *strides; /* strides: NULL where it has none of its own; then the offset says nothing either */
    int64_t offset;
};
bool tensor_numbers(PyObject *value, TensorNumbers *found);
bool operators_are_seen(); /* whether a mode sees each operator (TorchDispatchMode): none is to see those of guards */
int init_tensor_accessors();

/* leaf_tensor.cpp */
int dtype_number(PyObject *dtype); /* the number that c10 has for a dtype; -1 with an exception set where it is none */
int init_leaf_tensor(PyObject *module);
/* Takes a reference to each tensor that is captured, from `next` on, up to one that doesn't look as it did when it matched. Returns the number of that one, or
 * `size`. */
int32_t take_same_tensors(const TensorMemo *memos, int32_t next, int32_t size, PyObject **captures);
const TensorLook *new_look(std::vector<TensorLook *> &looks, const Leaf &leaf, PyObject *value);
const void *tensor_data(PyObject *value);
void delete_look(TensorLook *look);

/* leaf_global_state.cpp */
int init_leaf_global_state();

}  // namespace framejit

#endif
