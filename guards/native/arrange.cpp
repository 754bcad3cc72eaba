/* arrange.cpp: puts the guards of an entry, and the paths that they are about, in the order of its tree. A deep model has ten thousand guards, which are Python
 * objects: their classes are asked once what holds for all of a kind, and each guard and path only for what is its own. */
#include "tree.h"

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

namespace framejit {

namespace {

struct Raised {}; /* thrown where a Python exception is set */

/* A strong reference, which goes with its owner. */
class Owned {
  public:
    explicit Owned(PyObject *object) : object(object) {
        if (object == nullptr) throw Raised();
    }
    Owned(const Owned &) = delete;
    ~Owned() { Py_XDECREF(object); }
    PyObject *get() const { return object; }
    PyObject *release() { return std::exchange(object, nullptr); }

  private:
    PyObject *object;
};

void done(int status) {
    if (status < 0) throw Raised();
}

bool truth(int answer) {
    done(answer);
    return answer != 0;
}

/* Names of attributes and methods that are asked of each guard or source. */
PyObject *source_name, *base_name, *payload_name, *native_name, *key_name;

Owned attribute(PyObject *object, PyObject *name) { return Owned(PyObject_GetAttr(object, name)); }

Owned attribute(PyObject *object, const char *name) { return Owned(PyObject_GetAttrString(object, name)); }

bool flag(PyObject *cls, const char *name) { return truth(PyObject_IsTrue(attribute(cls, name).get())); }

/* The value of a key that a dict has; a borrowed reference. */
PyObject *known(PyObject *dict, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found == nullptr && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
    if (found == nullptr) throw Raised();
    return found;
}

/* What guards/build.py passes: the numbers of the kinds, classes, what sources give where something is gone, and functions that decide rare cases or raise
 * errors. */
struct Rules {
    PyObject *accessors, *leaves, *relation, *type_is, *value_is, *equals, *pinned, *looked_up, *missing;
    PyObject *keeps_type, *check_step, *check_payload;
    PyObject *native_of_guards, *key_of_guards, *native_of_sources; /* the methods that most kinds inherit */
};

/* `leaf`, `accessor`: the numbers of the kinds, as GuardTree takes them; borrowed from `_runtime.LEAVES` and `_runtime.ACCESSORS`. `compared`: the name of the
 * field that holds the payload of a guard, None if there is none; borrowed from the class. NULL: the class has a method of its own that gives the payload. */
struct GuardClass {
    int64_t cost;
    PyObject *leaf, *compared;
    bool tells_type, is_relation, is_type, is_value, is_equals, is_known_by_payload;
};

struct SourceClass {
    PyObject *accessor;
    bool is_pinned, looks_up, needs_exact_type, has_payload;
};

/* A path, the guards on its value, and the paths that go on from there. The guards are borrowed: the caller holds them. */
struct Step {
    PyObject *source; /* strong */
    int32_t parent;
    int64_t weight;
    std::vector<int32_t> children;
    std::vector<PyObject *> leaves;
};

constexpr int64_t at_the_end = int64_t(1) << 40;

class Arrangement {
  public:
    explicit Arrangement(const Rules &rules) : rules(rules) {}
    Arrangement(const Arrangement &) = delete;
    ~Arrangement() {
        for (const Step &each : steps) Py_DECREF(each.source);
    }

    void add_guard(PyObject *guard) {
        if (!class_of_guard(guard).is_relation) {
            const int32_t number = step(attribute(guard, source_name).get());
            steps[number].leaves.push_back(guard);
            return;
        }
        Owned related(PyObject_CallMethod(guard, "sources", nullptr)), sources(PySequence_Fast(related.get(), "sources() gives a tuple"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sources.get()); i++) step(PySequence_Fast_GET_ITEM(sources.get(), i));
    }

    /* The step of a source; its bases are added as needed. */
    int32_t step(PyObject *source) {
        auto known = numbers.find(source);
        if (known != numbers.end()) return known->second;
        const auto number = static_cast<int32_t>(steps.size());
        numbers.emplace(source, number);
        steps.push_back({source, -1, 0, {}, {}});
        Py_INCREF(source);
        Owned base = attribute(source, base_name);
        if (base.get() == Py_None) {
            if (root >= 0) {
                PyErr_SetString(PyExc_ValueError, "guards of two traces can't share a tree: their sources have different roots");
                throw Raised();
            }
            root = number;
            return number;
        }
        const int32_t parent = step(base.get());
        steps[number].parent = parent;
        steps[parent].children.push_back(number);
        if (class_of_source(source).looks_up) {
            step(attribute(source, payload_name).get());
            looks_up = true;
        }
        return number;
    }

    /* All steps in preorder, but a lookup comes after its key. Among siblings, small subtrees come first, and objects that the tree itself holds come last,
     * because they change rarely. */
    std::vector<int32_t> order() {
        std::vector<int32_t> all = preorder();
        for (auto it = all.rbegin(); it != all.rend(); ++it) {
            Step &each = steps[*it];
            arrange_leaves(each.leaves);
            each.weight = class_of_source(each.source).is_pinned ? at_the_end : 1;
            for (PyObject *guard : each.leaves) each.weight += class_of_guard(guard).cost;
            for (int32_t child : each.children) each.weight += steps[child].weight;
            std::stable_sort(each.children.begin(), each.children.end(), [&](int32_t a, int32_t b) { return steps[a].weight < steps[b].weight; });
        }
        all = preorder();
        if (looks_up) {
            std::vector<long> lookups(steps.size());
            for (int32_t number : all) {
                lookups[number] = PyLong_AsLong(Owned(PyObject_CallMethod(steps[number].source, "lookups", nullptr)).get());
                if (PyErr_Occurred()) throw Raised();
            }
            std::stable_sort(all.begin(), all.end(), [&](int32_t a, int32_t b) { return lookups[a] < lookups[b]; });
        }
        return all;
    }

    /* The nodes and leaves of the tree, as GuardTree takes them; the guards in the order of the leaves; and the place of each source's node. */
    PyObject *spec() {
        Owned nodes(PyList_New(0)), leaves(PyList_New(0)), guards(PyList_New(0)), index(PyDict_New()), none(PyLong_FromLong(0));
        std::vector<PyObject *> places(steps.size()); /* borrowed from `index` */
        for (int32_t number : order()) {
            const Step &each = steps[number];
            const SourceClass &cls = class_of_source(each.source);
            Owned place(PyLong_FromSsize_t(PyList_GET_SIZE(nodes.get())));
            done(PyDict_SetItem(index.get(), each.source, place.get()));
            places[number] = place.get();
            Owned payload(cls.looks_up ? Py_NewRef(places[numbers.at(attribute(each.source, payload_name).get())]) : payload_of(each.source, cls));
            if (payload.get() == rules.missing || (each.parent >= 0 && cls.needs_exact_type)) check_step(each, payload.get());
            append(nodes.get(), cls.accessor, each.parent < 0 ? none.get() : places[each.parent], payload.get());
            for (PyObject *guard : each.leaves) {
                const GuardClass &kind = class_of_guard(guard);
                Owned compared(payload_of(guard, kind));
                if (compared.get() == rules.missing || kind.is_equals) {
                    Owned(PyObject_CallFunctionObjArgs(rules.check_payload, guard, compared.get(), nullptr));
                }
                append(leaves.get(), place.get(), kind.leaf, compared.get());
                done(PyList_Append(guards.get(), guard));
            }
        }
        return PyTuple_Pack(4, nodes.get(), leaves.get(), guards.get(), index.get());
    }

  private:
    const Rules &rules;
    std::vector<Step> steps;
    std::unordered_map<PyObject *, int32_t> numbers;
    std::unordered_map<PyTypeObject *, GuardClass> guard_classes;
    std::unordered_map<PyTypeObject *, SourceClass> source_classes;
    int32_t root = -1;
    bool looks_up = false;

    const GuardClass &class_of_guard(PyObject *guard) {
        auto found = guard_classes.find(Py_TYPE(guard));
        if (found != guard_classes.end()) return found->second;
        PyObject *cls = reinterpret_cast<PyObject *>(Py_TYPE(guard));
        Owned leaf = attribute(cls, "leaf"), cost = attribute(cls, "cost");
        const bool is_relation = truth(PyObject_IsSubclass(cls, rules.relation));
        Owned compared = attribute(cls, "compared"), native = attribute(cls, "native"), key = attribute(cls, "key");
        PyObject *field = truth(PyObject_IsTrue(compared.get())) ? compared.get() : Py_None;
        const GuardClass facts{
            PyLong_AsLongLong(cost.get()), known(rules.leaves, leaf.get()), native.get() == rules.native_of_guards ? field : nullptr, flag(cls, "tells_type"),
            is_relation, cls == rules.type_is, truth(PyObject_IsSubclass(cls, rules.value_is)), cls == rules.equals, key.get() == rules.key_of_guards,
        };
        if (PyErr_Occurred()) throw Raised();
        return guard_classes.emplace(Py_TYPE(guard), facts).first->second;
    }

    const SourceClass &class_of_source(PyObject *source) {
        auto found = source_classes.find(Py_TYPE(source));
        if (found != source_classes.end()) return found->second;
        PyObject *cls = reinterpret_cast<PyObject *>(Py_TYPE(source));
        Owned accessor = attribute(cls, "accessor"), native = attribute(cls, "native");
        const SourceClass facts{
            known(rules.accessors, accessor.get()), cls == rules.pinned, truth(PyObject_IsSubclass(cls, rules.looked_up)), flag(cls, "needs_exact_type"),
            native.get() == rules.native_of_sources,
        };
        return source_classes.emplace(Py_TYPE(source), facts).first->second;
    }

    std::vector<int32_t> preorder() const {
        std::vector<int32_t> found, waiting{root};
        while (!waiting.empty()) {
            const int32_t number = waiting.back();
            waiting.pop_back();
            found.push_back(number);
            waiting.insert(waiting.end(), steps[number].children.rbegin(), steps[number].children.rend());
        }
        return found;
    }

    /* Drops the guards on one value that are there twice, and those on its type that others imply; those that are cheap or likely to fail come first. */
    void arrange_leaves(std::vector<PyObject *> &leaves) {
        if (leaves.size() < 2) return;
        std::vector<PyTypeObject *> kinds;
        for (PyObject *guard : leaves) kinds.push_back(Py_TYPE(guard));
        std::sort(kinds.begin(), kinds.end());
        kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
        if (kinds.size() < leaves.size()) drop_duplicates(leaves);
        if (kinds.size() > 1) {
            const std::vector<PyObject *> all = leaves;
            auto implied = [&](PyObject *guard) { return class_of_guard(guard).is_type && is_implied(guard, all); };
            leaves.erase(std::remove_if(leaves.begin(), leaves.end(), implied), leaves.end());
        }
        std::stable_sort(leaves.begin(), leaves.end(), [&](PyObject *a, PyObject *b) { return class_of_guard(a).cost < class_of_guard(b).cost; });
    }

    /* Keeps the first of the guards with the same class and key. */
    void drop_duplicates(std::vector<PyObject *> &leaves) {
        Owned seen(PySet_New(nullptr));
        auto is_known = [&](PyObject *guard) {
            Owned own = key_of(guard), key(PyTuple_Pack(2, reinterpret_cast<PyObject *>(Py_TYPE(guard)), own.get()));
            if (truth(PySet_Contains(seen.get(), key.get()))) return true;
            done(PySet_Add(seen.get(), key.get()));
            return false;
        };
        leaves.erase(std::remove_if(leaves.begin(), leaves.end(), is_known), leaves.end());
    }

    /* Whether one of the guards on a value implies one on its type. The same object may have got another class since, if its class allows. */
    bool is_implied(PyObject *guard, const std::vector<PyObject *> &all) {
        bool tells = false;
        for (PyObject *other : all) {
            const GuardClass &kind = class_of_guard(other);
            if (kind.tells_type && !kind.is_value) return true;
            tells |= kind.tells_type;
        }
        return tells && truth(PyObject_IsTrue(Owned(PyObject_CallOneArg(rules.keeps_type, guard)).get()));
    }

    static PyObject *payload_of(PyObject *guard, const GuardClass &kind) {
        if (kind.compared == nullptr) return PyObject_CallMethodNoArgs(guard, native_name);
        return kind.compared == Py_None ? Py_NewRef(Py_None) : PyObject_GetAttr(guard, kind.compared);
    }

    static PyObject *payload_of(PyObject *source, const SourceClass &kind) {
        return kind.has_payload ? PyObject_GetAttr(source, payload_name) : PyObject_CallMethodNoArgs(source, native_name);
    }

    /* What tells a guard from others of its class on the same value: the text that it compares with, or what Python makes of something else. */
    Owned key_of(PyObject *guard) {
        const GuardClass &kind = class_of_guard(guard);
        if (kind.is_known_by_payload && kind.compared != nullptr && kind.compared != Py_None) {
            Owned payload(PyObject_GetAttr(guard, kind.compared));
            if (PyUnicode_CheckExact(payload.get())) return Owned(payload.release());
        }
        return Owned(PyObject_CallMethodNoArgs(guard, key_name));
    }

    /* Lets Python raise an error where a step leads through something that is gone, or would run the program's code. */
    void check_step(const Step &each, PyObject *payload) {
        const std::vector<PyObject *> &leaves = steps[each.parent < 0 ? root : each.parent].leaves;
        Owned around(PyList_New(0));
        for (PyObject *guard : leaves) done(PyList_Append(around.get(), guard));
        Owned(PyObject_CallFunctionObjArgs(rules.check_step, each.source, payload, around.get(), nullptr));
    }

    static void append(PyObject *list, PyObject *first, PyObject *second, PyObject *payload) {
        done(PyList_Append(list, Owned(PyTuple_Pack(3, first, second, payload)).get()));
    }
};

PyObject *arrange(PyObject *, PyObject *args) {
    Rules rules;
    PyObject *guards, *sources;
    if (!PyArg_ParseTuple(args, "O!O!(O!O!OOOOOOOOOOOOO):arrange", &PyList_Type, &guards, &PyList_Type, &sources, &PyDict_Type, &rules.accessors, &PyDict_Type,
                          &rules.leaves, &rules.relation, &rules.type_is, &rules.value_is, &rules.equals, &rules.pinned, &rules.looked_up, &rules.missing,
                          &rules.keeps_type, &rules.check_step, &rules.check_payload, &rules.native_of_guards, &rules.key_of_guards,
                          &rules.native_of_sources)) {
        return nullptr;
    }
    try {
        Arrangement arrangement(rules);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(guards); i++) arrangement.add_guard(PyList_GET_ITEM(guards, i));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sources); i++) arrangement.step(PyList_GET_ITEM(sources, i));
        return arrangement.spec();
    } catch (const Raised &) {
        return nullptr;
    } catch (const std::exception &) {
        return PyErr_NoMemory();
    }
}

PyMethodDef functions[] = {
    {"arrange", arrange, METH_VARARGS,
     "arrange(guards, sources, rules, /)\n--\n\n"
     "The nodes and leaves of the tree that checks the guards and has a node for each source; the guards in the order of the leaves; the node of each source."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int init_arrange(PyObject *module) {
    const std::pair<PyObject **, const char *> names[] = {
        {&source_name, "source"}, {&base_name, "base"}, {&payload_name, "payload"}, {&native_name, "native"}, {&key_name, "key"},
    };
    for (const auto &[name, text] : names) {
        if ((*name = PyUnicode_InternFromString(text)) == nullptr) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}

}  // namespace framejit
