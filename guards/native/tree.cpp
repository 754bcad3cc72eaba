/* tree.cpp: the type GuardTree: reading a spec, its Python methods, and what surrounds a walk. */
#include "tree.h"

#include "guards.h"
#include "shape_vm.h"

#include <algorithm>
#include <exception>
#include <new>

PyTypeObject *FJ_GuardTreeType;

namespace framejit {

namespace {

/* The root's value is the tree, which nothing looks at. */
const Registered<AccessorKind> root({
    .name = "root",
    .step = [](GuardTree &tree, Node &, PyObject *, const CallView &) -> PyObject * { return &tree; },
    .vouch = [](Memo &, const Node &, PyObject *, PyObject *) { return true; },
    .known_layout = true,
});

PyObject *runtime_module;    /* borrowed: it holds this library in memory */
PyObject *missing = nullptr; /* guards.source.MISSING, once it is needed */

/* The guards that may run Python: one that fails, `matches` if there is none, or `raised`. To be called while nothing is borrowed. */
int32_t ask_python(GuardTree &tree) {
    for (const int32_t number : tree.python_leaves) {
        const Leaf &leaf = tree.leaves[number];
        if (!leaf.kind->holds(leaf, &tree)) return PyErr_Occurred() ? raised : number;
    }
    return matches;
}

/* The value of a node; NULL where a guard doesn't hold on the way, for steps rely on what guards say of the values before them. */
PyObject *follow(GuardTree &tree, int32_t index, const CallView &call) {
    if (index == 0) return &tree;
    Node &node = tree.nodes[index];
    PyObject *value = step(tree, node, follow(tree, node.parent, call), call, [&](int32_t key) { return follow(tree, key, call); });
    for (int32_t i = node.first_leaf; value != nullptr && i < node.end_leaf; i++) {
        const Leaf &leaf = tree.leaves[i];
        if (!leaf.kind->holds(leaf, value)) return nullptr;
    }
    return value;
}

/* What the steps that may run Python will find in a walk: meanwhile another thread may change anything, or walk this tree. False with an exception set
 * where an interrupt has come. */
bool find_before(GuardTree &tree, const CallView &call, std::vector<Found> &found) {
    found.resize(tree.python_nodes.size(), Found{});
    for (size_t i = 0; i < found.size() && !tree.alive->dead; i++) {
        const Node &node = tree.nodes[tree.python_nodes[i]];
        int collecting = PyGC_Disable();
        try {
            found[i].base = Py_XNewRef(follow(tree, node.parent, call));
        } catch (const std::exception &) { /* a tensor without what was asked for */
        }
        if (collecting) PyGC_Enable();
        PyObject *base = found[i].base;
        if (base != nullptr) found[i].value = node.accessor->before(node, base);
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return false;
        PyErr_Clear();
    }
    return true;
}

/* A walk with its surroundings: no garbage collection while values are borrowed, references taken before temporaries go. Without a place for
 * captures, the walk is the one that finds the first failure. */
int32_t match(GuardTree &tree, const CallView &call, PyObject **captures) {
    const bool in_order = captures == nullptr;
    if (in_order) {
        const int32_t result = ask_python(tree);
        if (result != matches) return result;
    }
    std::vector<Found> found;
    int32_t result = find_before(tree, call, found) ? no_guard : raised;
    /* Entered again from within a walk, which nothing should do; or cleared, or dead by what others have done meanwhile. */
    if (result != raised && !tree.walking && !tree.nodes.empty() && (in_order || !tree.alive->dead)) {
        tree.walking = true;
        tree.ambiguous = false;
        tree.found.swap(found);
        int collecting = PyGC_Disable();
        try {
            result = in_order ? walk_in_order(tree, call) : walk(tree, call, captures);
            if (tree.arrange) arrange_memos(tree);
        } catch (const std::exception &) { /* c10 throws for a tensor without what was asked for: not the tensor of the trace */
        }
        if (collecting) PyGC_Enable();
        tree.found.swap(found);
        tree.walking = false;
    }
    auto is_int = [](PyObject *object) { return PyLong_CheckExact(object); };
    if (std::all_of(tree.temporary.begin(), tree.temporary.end(), is_int)) { /* sizes of tensors: their release runs nothing */
        for (PyObject *object : tree.temporary) Py_DECREF(object);
        tree.temporary.clear();
    } else {
        std::vector<PyObject *> temporary;
        temporary.swap(tree.temporary); /* releasing one may run Python, which may match this tree */
        for (PyObject *object : temporary) Py_DECREF(object);
    }
    for (const Found &step : found) {
        Py_XDECREF(step.base);
        Py_XDECREF(step.value);
    }
    if (result == matches && !in_order) {
        result = ask_python(tree);
        for (size_t i = 0; result != matches && i < tree.captures.size(); i++) Py_CLEAR(captures[i]);
    }
    return result;
}

GuardTree &as_tree(PyObject *object) { return *static_cast<GuardTree *>(object); }

/* ---- reading a spec ---- */

bool read_index(PyObject *number, size_t below, int32_t *index) {
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) return false;
    if (value < 0 || static_cast<size_t>(value) >= below) {
        PyErr_Format(PyExc_ValueError, "index %ld in a guard tree's spec is out of range", value);
        return false;
    }
    *index = static_cast<int32_t>(value);
    return true;
}

bool read_node(GuardTree &tree, PyObject *item) {
    int number, parent;
    PyObject *payload;
    if (!PyArg_ParseTuple(item, "iiO", &number, &parent, &payload)) return false;
    const std::vector<const AccessorKind *> &kinds = registered<AccessorKind>();
    const bool first = tree.nodes.empty(), known = number >= 0 && static_cast<size_t>(number) < kinds.size();
    if (!known || first != (kinds[number] == &root.kind) || (first ? parent != 0 : parent < 0 || static_cast<size_t>(parent) >= tree.nodes.size())) {
        PyErr_SetString(PyExc_ValueError, "a guard tree's nodes start with the root, and parents come before children");
        return false;
    }
    const AccessorKind &accessor = *kinds[number];
    Node node{};
    node.accessor = &accessor;
    node.parent = parent;
    node.held = -1;
    if (accessor.read != nullptr && !accessor.read(tree, node, payload)) return false;
    if (accessor.before != nullptr) {
        node.hint = static_cast<int32_t>(tree.python_nodes.size());
        tree.python_nodes.push_back(static_cast<int32_t>(tree.nodes.size()));
    }
    if (!first && accessor.tensor_number == nullptr) tree.nodes[parent].has_children = true;
    if (accessor.found_in != Versioned::no) tree.nodes[parent].versioned = accessor.found_in;
    tree.nodes.push_back(node);
    return true;
}

/* Whether the value of a node is one that the call brings, which its step finds without having to visit another node. */
bool is_argument(const Node &node) { return node.accessor->given && node.parent == 0 && !node.accessor->creates && node.accessor->look_up == nullptr; }

/* Leaves come sorted by node. */
bool read_leaf(GuardTree &tree, PyObject *item) {
    int32_t node_index, kind;
    PyObject *node_number, *kind_number, *payload;
    if (!PyArg_ParseTuple(item, "OOO", &node_number, &kind_number, &payload) || !read_index(node_number, tree.nodes.size(), &node_index) ||
        !read_index(kind_number, registered<LeafKind>().size(), &kind)) {
        return false;
    }
    auto position = static_cast<int32_t>(tree.leaves.size());
    Node &node = tree.nodes[node_index];
    if (node.end_leaf == 0) node.first_leaf = position;
    else if (node.end_leaf != position) {
        PyErr_SetString(PyExc_ValueError, "the leaves of a guard tree are not sorted by node");
        return false;
    }
    Leaf leaf{};
    leaf.kind = registered<LeafKind>()[kind];
    leaf.held = -1;
    leaf.argument = is_argument(node) && node.first_leaf == position && !leaf.kind->runs_python ? node_index : 0;
    if (leaf.kind->runs_python && node_index != 0) {
        PyErr_Format(PyExc_ValueError, "%s is a guard of the root", leaf.kind->name);
        return false;
    }
    if (leaf.kind->read != nullptr && !leaf.kind->read(tree, leaf, payload)) return false;
    if (leaf.kind->runs_python) tree.python_leaves.push_back(position);
    tree.leaves.push_back(leaf);
    node.end_leaf = position + 1;
    if (leaf.kind->knows_keys && node.versioned == Versioned::no) node.versioned = Versioned::dict;
    node.type_checked |= leaf.kind->knows_type;
    return true;
}

bool read_relation(GuardTree &tree, PyObject *item) {
    long kind;
    PyObject *nodes, *numbers;
    if (!PyArg_ParseTuple(item, "lO!O!", &kind, &PyTuple_Type, &nodes, &PyTuple_Type, &numbers)) return false;
    const std::vector<const RelationKind *> &kinds = registered<RelationKind>();
    kind -= static_cast<long>(registered<LeafKind>().size());
    const size_t size = PyTuple_GET_SIZE(nodes), count = PyTuple_GET_SIZE(numbers);
    bool known = kind >= 0 && static_cast<size_t>(kind) < kinds.size();
    if (!known || size == 0 || (kinds[kind]->nodes != 0 && size != kinds[kind]->nodes) ||
        (kinds[kind]->read == nullptr && count != size * kinds[kind]->numbers)) {
        PyErr_SetString(PyExc_ValueError, "a relation's kind or sizes are wrong");
        return false;
    }
    Relation relation{kinds[kind], {}, {}};
    for (size_t i = 0; i < size; i++) {
        int32_t index;
        if (!read_index(PyTuple_GET_ITEM(nodes, i), tree.nodes.size(), &index)) return false;
        relation.nodes.push_back(index);
    }
    for (size_t i = 0; i < count; i++) relation.numbers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i)));
    if (PyErr_Occurred() || (kinds[kind]->read != nullptr && !kinds[kind]->read(tree, relation))) return false;
    tree.relations.push_back(std::move(relation));
    return true;
}

bool read_each(GuardTree &tree, PyObject *list, bool (*read)(GuardTree &, PyObject *)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        if (!read(tree, PyList_GET_ITEM(list, i))) return false;
    }
    return true;
}

bool read_capture(GuardTree &tree, PyObject *item) {
    int32_t index;
    if (!read_index(item, tree.nodes.size(), &index)) return false;
    tree.captures.push_back(index);
    return true;
}

/* ---- the type ---- */

PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"nodes", "leaves", "relations", "captures", nullptr};
    PyObject *nodes, *leaves, *relations, *captures;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!:GuardTree", const_cast<char **>(names), &PyList_Type, &nodes, &PyList_Type, &leaves,
                                     &PyList_Type, &relations, &PyList_Type, &captures)) {
        return nullptr;
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    PyObject_GC_UnTrack(self); /* until it is whole */
    GuardTree &tree = as_tree(self);
    new (static_cast<TreeData *>(&tree)) TreeData();
    tree.nodes.reserve(PyList_GET_SIZE(nodes));
    tree.leaves.reserve(PyList_GET_SIZE(leaves));
    tree.alive = new_alive();
    if (tree.alive == nullptr || !read_each(tree, nodes, read_node) || !read_each(tree, leaves, read_leaf) ||
        !read_each(tree, relations, read_relation) || !read_each(tree, captures, read_capture)) {
        PyObject_GC_Track(self);
        Py_DECREF(self);
        return nullptr;
    }
    if (tree.nodes.empty()) {
        PyObject_GC_Track(self);
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "a guard tree has a root at least");
        return nullptr;
    }
    tree.values.resize(tree.nodes.size());
    cut_into_chunks(tree);
    merge_relations(tree);
    PyObject_GC_Track(self);
    return self;
}

int tree_traverse(PyObject *self, visitproc visit, void *arg) {
    GuardTree &tree = as_tree(self);
    Py_VISIT(Py_TYPE(self));
    for (PyObject *object : tree.held) Py_VISIT(object);
    for (const auto &facts : tree.facts) {
        int status = facts->visit(visit, arg);
        if (status != 0) return status;
    }
    return 0;
}

int tree_clear(PyObject *self) {
    GuardTree &tree = as_tree(self);
    if (tree.alive != nullptr) tree.alive->dead = true;
    std::vector<PyObject *> held;
    std::vector<std::unique_ptr<const Facts>> facts;
    held.swap(tree.held);
    facts.swap(tree.facts);
    tree.leaves.clear();
    tree.nodes.clear();
    facts.clear();
    for (PyObject *object : held) Py_DECREF(object);
    return 0;
}

void tree_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    tree_clear(self);
    GuardTree &tree = as_tree(self);
    Py_XDECREF(reinterpret_cast<PyObject *>(tree.alive));
    for (TensorLook *look : tree.looks) delete_look(look);
    std::destroy_at(static_cast<TreeData *>(&tree));
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Reads (locals tuple, function) into `slots`; Unset and MISSING stand for empty slots. */
bool read_call(PyObject *args, std::vector<PyObject *> &slots, CallView &call) {
    PyObject *locals, *function;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &locals, &function)) return false;
    if (missing == nullptr) {
        PyObject *source = PyImport_ImportModule("framejit.guards.source");
        if (source == nullptr) return false;
        missing = PyObject_GetAttrString(source, "MISSING");
        Py_DECREF(source);
        if (missing == nullptr) return false;
    }
    PyObject *unset = PyDict_GetItemString(PyModule_GetDict(runtime_module), "Unset");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); i++) {
        PyObject *value = PyTuple_GET_ITEM(locals, i);
        slots.push_back(value == missing || value == unset ? nullptr : value);
    }
    call = {slots.data(), static_cast<Py_ssize_t>(slots.size()), function};
    return true;
}

PyObject *tree_match(PyObject *self, PyObject *args) {
    std::vector<PyObject *> slots;
    CallView call;
    if (!read_call(args, slots, call)) return nullptr;
    PyObject *captures = PyList_New(FJ_GuardTree_NumCaptures(self));
    if (captures == nullptr) return nullptr;
    int status = FJ_GuardTree_Match(self, slots.data(), call.n_locals, call.function, PySequence_Fast_ITEMS(captures));
    if (status == 1) return captures;
    Py_DECREF(captures);
    if (status < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject *tree_failing(PyObject *self, PyObject *args) {
    std::vector<PyObject *> slots;
    CallView call;
    if (!read_call(args, slots, call)) return nullptr;
    GuardTree &tree = as_tree(self);
    int32_t result = match(tree, call, nullptr);
    if (result == raised) return nullptr;
    if (result == matches) Py_RETURN_NONE;
    return PyLong_FromLong(result == no_guard ? -1 : result);
}

PyObject *tree_size(PyObject *self, void *) {
    GuardTree &tree = as_tree(self);
    return PyLong_FromSize_t(tree.leaves.size() + tree.relations.size());
}

PyObject *tree_num_captures(PyObject *self, void *) { return PyLong_FromSsize_t(FJ_GuardTree_NumCaptures(self)); }

PyObject *tree_nodes(PyObject *self, void *) { return PyLong_FromSize_t(as_tree(self).nodes.size()); }

PyObject *tree_visited(PyObject *self, void *) { return PyLong_FromLong(as_tree(self).visited); }

PyObject *tree_looks(PyObject *self, void *) { return PyLong_FromSize_t(as_tree(self).looks.size()); }

PyObject *tree_alive(PyObject *self, void *) { return PyBool_FromLong(!as_tree(self).alive->dead); }

PyMethodDef tree_methods[] = {
    {"match", tree_match, METH_VARARGS,
     "match(locals, function, /)\n--\n\n"
     "Check one call. locals: tuple of the frame's argument slots, Unset where a slot is empty. function: the frame's function.\n"
     "Returns the list of captured values, or None where a guard fails."},
    {"failing", tree_failing, METH_VARARGS,
     "failing(locals, function, /)\n--\n\n"
     "The number of the first guard that fails, -1 if a captured value is missing, None if all hold. Slower than match."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef tree_properties[] = {
    {"size", tree_size, nullptr, "How many guards the tree has.", nullptr},
    {"num_captures", tree_num_captures, nullptr, "How many values a match captures.", nullptr},
    {"num_nodes", tree_nodes, nullptr, "How many steps from value to value the tree has.", nullptr},
    {"visited", tree_visited, nullptr, "How many steps the last walk took all the same.", nullptr},
    {"looks", tree_looks, nullptr, "How many tensors that look different it remembers.", nullptr},
    {"alive", tree_alive, nullptr, "False once an object that a guard compares with is gone: the tree will never match again.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot tree_slots[] = {
    {Py_tp_doc, const_cast<char *>("GuardTree(nodes, leaves, relations, captures)\n--\n\n"
                                   "What a compiled entry assumes of a call, as one matcher with captures. Made by framejit.guards.build.")},
    {Py_tp_new, reinterpret_cast<void *>(tree_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(tree_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(tree_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(tree_clear)},
    {Py_tp_methods, tree_methods},
    {Py_tp_getset, tree_properties},
    {0, nullptr},
};

PyType_Spec tree_spec = {"framejit._runtime.GuardTree", sizeof(GuardTree), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
                         tree_slots};

/* Adds a dict of numbers to the module: the place of each name. */
int add_numbers(PyObject *module, const char *attribute, const std::vector<const char *> &names) {
    PyObject *numbers = PyDict_New();
    if (numbers == nullptr) return -1;
    int status = 0;
    for (size_t i = 0; i < names.size() && status == 0; i++) {
        PyObject *number = PyLong_FromSize_t(i);
        status = number == nullptr ? -1 : PyDict_SetItemString(numbers, names[i], number);
        Py_XDECREF(number);
    }
    if (status == 0) status = PyModule_AddObjectRef(module, attribute, numbers);
    Py_DECREF(numbers);
    return status;
}

template <typename Kind>
void add_names(std::vector<const char *> &names) {
    for (const Kind *kind : registered<Kind>()) names.push_back(kind->name);
}

}  // namespace

}  // namespace framejit

using namespace framejit;

extern "C" int FJ_GuardTree_Match(PyObject *self, PyObject *const *locals, Py_ssize_t n_locals, PyObject *func, PyObject **captures) {
    GuardTree &tree = as_tree(self);
    if (tree.alive->dead) return 0;
    PyObject *nothing; /* a list of no captures has no items to point to */
    const int32_t result = match(tree, {locals, n_locals, func}, captures != nullptr ? captures : &nothing);
    return result == raised ? -1 : result == matches;
}

extern "C" Py_ssize_t FJ_GuardTree_NumCaptures(PyObject *self) { return static_cast<Py_ssize_t>(as_tree(self).captures.size()); }

extern "C" int FJ_Guards_Init(PyObject *module) {
    runtime_module = module;
    if (init_leaf_object() < 0 || init_leaf_container() < 0 || init_accessors(module) < 0 || init_arrays() < 0 || init_iterators() < 0 ||
        init_leaf_tensor(module) < 0 || init_tensor_accessors() < 0 || init_leaf_global_state() < 0 || init_iterator_fields(module) < 0 ||
        init_caches() < 0 || init_locks(module) < 0 || init_thread_locals(module) < 0 || init_generators(module) < 0 || init_arrange(module) < 0) {
        return -1;
    }
    std::vector<const char *> accessors, leaves;
    add_names<AccessorKind>(accessors);
    add_names<LeafKind>(leaves);
    add_names<RelationKind>(leaves);
    if (add_numbers(module, "ACCESSORS", accessors) < 0 || add_numbers(module, "LEAVES", leaves) < 0 ||
        add_numbers(module, "SHAPE_OPERATIONS", shape_operation_names) < 0) {
        return -1;
    }
    PyObject *type = PyType_FromSpec(&tree_spec);
    if (type == nullptr) return -1;
    FJ_GuardTreeType = reinterpret_cast<PyTypeObject *>(type);
    return PyModule_AddType(module, FJ_GuardTreeType);
}
