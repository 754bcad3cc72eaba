/* leaf_global_state.cpp: the leaf about torch's global state, which guards/global_state.py describes, and torch's function modes. */
#include "tree.h"

#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <memory>

namespace framejit {

namespace {

PyObject *function_stack_at; /* torch._C._get_function_stack_at */
PyCFunction dict_get;        /* what dict.get runs */

/* A builtin function of torch that reads one setting, and what it should return. */
struct Probe {
    PyObject *function, *arguments, *expected; /* strong */
    bool (*is_as)(PyObject *found, PyObject *expected);
    PyObject *dict; /* borrowed: that of which the function is the method `get`, called with a key alone; or NULL */
};

struct GlobalFacts : Facts {
    int grad_mode = 0, inference_mode = 0, forward_grad_mode = 0;
    unsigned long long included = 0, excluded = 0;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<Probe> probes;

    int visit(visitproc visit, void *arg) const override {
        for (const Probe &probe : probes) {
            Py_VISIT(probe.function);
            Py_VISIT(probe.arguments);
            Py_VISIT(probe.expected);
        }
        return 0;
    }

    ~GlobalFacts() override {
        for (const Probe &probe : probes) {
            Py_DECREF(probe.function);
            Py_DECREF(probe.arguments);
            Py_DECREF(probe.expected);
        }
    }
};

/* Calls a builtin, without the detour through vectorcall for the common kinds. A new reference, or NULL with an exception set. */
PyObject *call_probe(const Probe &probe) {
    if (probe.dict != nullptr) {
        PyObject *found = PyDict_GetItemWithError(probe.dict, PyTuple_GET_ITEM(probe.arguments, 0));
        return found == nullptr && PyErr_Occurred() ? nullptr : Py_NewRef(found != nullptr ? found : Py_None);
    }
    if (PyCFunction_Check(probe.function)) {
        int flags = PyCFunction_GET_FLAGS(probe.function);
        if ((flags & (METH_NOARGS | METH_O | METH_VARARGS | METH_FASTCALL)) == METH_NOARGS) {
            return PyCFunction_GET_FUNCTION(probe.function)(PyCFunction_GET_SELF(probe.function), nullptr);
        }
    }
    return PyObject_CallObject(probe.function, probe.arguments);
}

/* The dict of which a function is the method `get`; NULL if it is none. */
PyObject *dict_of_get(PyObject *function) {
    if (!PyCFunction_CheckExact(function) || PyCFunction_GET_SELF(function) == nullptr || !PyDict_CheckExact(PyCFunction_GET_SELF(function))) return nullptr;
    return PyCFunction_GET_FUNCTION(function) == dict_get ? PyCFunction_GET_SELF(function) : nullptr;
}

/* expected: (class, device). The class keeps its device in the instance dict. */
bool is_device_context(PyObject *mode, PyObject *expected) {
    if (reinterpret_cast<PyObject *>(Py_TYPE(mode)) != PyTuple_GET_ITEM(expected, 0)) return false;
    PyObject **dict = FJ_Object_DictSlot(mode);
    PyObject *device = dict == nullptr || *dict == nullptr ? nullptr : PyDict_GetItemString(*dict, "device");
    return device != nullptr && same_constant(device, PyTuple_GET_ITEM(expected, 1));
}

/* How probes compare, by the names that torch_modes.py gives; NULL with an exception set for another. */
auto comparison(const char *name) -> decltype(Probe::is_as) {
    constexpr struct {
        const char *name;
        decltype(Probe::is_as) is_as;
    } known[] = {{"equal", same_constant}, {"device_context", is_device_context}};
    for (const auto &row : known) {
        if (std::strcmp(row.name, name) == 0) return row.is_as;
    }
    PyErr_Format(PyExc_ValueError, "no probe compares as %s", name);
    return nullptr;
}

bool probe_holds(const Probe &probe) {
    PyObject *found = call_probe(probe);
    if (found == nullptr) {
        if (PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear(); /* and not an interrupt that has come meanwhile */
        return false;
    }
    bool holds = probe.is_as(found, probe.expected);
    Py_DECREF(found);
    return holds;
}

}  // namespace

/* payload: (grad mode, inference mode, forward grad mode, included keys, excluded keys, default dtype,
 * ((function, arguments, expected, comparison), ...)). */
static bool read_global_facts(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    auto facts = std::make_unique<GlobalFacts>();
    PyObject *dtype, *probes;
    if (!PyArg_ParseTuple(payload, "pppKKOO!", &facts->grad_mode, &facts->inference_mode, &facts->forward_grad_mode, &facts->included,
                          &facts->excluded, &dtype, &PyTuple_Type, &probes)) {
        return false;
    }
    const int number = dtype_number(dtype);
    if (number < 0) return false;
    facts->dtype = static_cast<c10::ScalarType>(number);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(probes); i++) {
        PyObject *function, *arguments, *expected;
        const char *name;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(probes, i), "OO!Os", &function, &PyTuple_Type, &arguments, &expected, &name)) return false;
        auto is_as = comparison(name);
        if (is_as == nullptr) return false;
        PyObject *dict = PyTuple_GET_SIZE(arguments) == 1 ? dict_of_get(function) : nullptr;
        facts->probes.push_back({Py_NewRef(function), Py_NewRef(arguments), Py_NewRef(expected), is_as, dict});
    }
    leaf.facts = facts.get();
    tree.facts.push_back(std::move(facts));
    return true;
}

static bool global_state_matches(const Leaf &leaf, PyObject *) {
    const auto &facts = *static_cast<const GlobalFacts *>(leaf.facts);
    const c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
    if (autograd.get_grad_mode() != facts.grad_mode || autograd.get_inference_mode() != facts.inference_mode ||
        autograd.get_fw_grad_mode() != facts.forward_grad_mode) {
        return false;
    }
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    if (keys.included_.raw_repr() != facts.included || keys.excluded_.raw_repr() != facts.excluded) return false;
    if (c10::get_default_dtype_as_scalartype() != facts.dtype) return false;
    for (const Probe &probe : facts.probes) {
        if (!probe_holds(probe)) return false;
    }
    return true;
}

static const Registered<LeafKind> global_state({.name = "global_state", .read = read_global_facts, .holds = global_state_matches, .runs_python = true});

/* As torch hands it out: its stack is C++'s, and no other library of torch's than c10 is linked. */
static PyObject *function_mode_at(GuardTree &, Node &node, PyObject *, const CallView &) {
    PyObject *number = PyLong_FromSsize_t(node.number);
    PyObject *mode = number == nullptr ? nullptr : PyObject_CallOneArg(function_stack_at, number);
    Py_XDECREF(number);
    return mode;
}

static const Registered<AccessorKind> function_mode({.name = "function_mode", .read = read_number, .step = function_mode_at, .creates = true});

int init_leaf_global_state() {
    PyObject *native = PyImport_ImportModule("torch._C");
    if (native == nullptr) return -1;
    function_stack_at = PyObject_GetAttrString(native, "_get_function_stack_at");
    Py_DECREF(native);
    for (PyMethodDef *method = PyDict_Type.tp_methods; method->ml_name != nullptr; method++) {
        if (std::strcmp(method->ml_name, "get") == 0) dict_get = method->ml_meth;
    }
    return function_stack_at != nullptr ? 0 : -1;
}

}  // namespace framejit
