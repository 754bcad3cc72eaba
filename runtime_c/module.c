/* module.c: framejit._runtime: its types, its functions and the versions it was built for. */
#include "arguments.h"
#include "compiled_function.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "entry.h"
#include "evaluator.h"
#include "guards.h"
#include "hook.h"
#include "program.h"
#include "switches.h"
#include "upcalls.h"

static PyObject *hook_installed(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_Hook_IsInstalled()); }

static PyObject *mark_code(PyObject *module, PyObject *args) {
    PyObject *code;
    int kind;
    if (!PyArg_ParseTuple(args, "O!i:mark_code", &PyCode_Type, &code, &kind)) {
        return NULL;
    }
    if (kind != FJ_CODE_NEVER && kind != FJ_CODE_OPAQUE) {
        return PyErr_Format(PyExc_ValueError, "mark_code: kind must be NEVER or OPAQUE, not %d", kind);
    }
    if (FJ_Upcalls_MarkCode(code, kind) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *stopped_frame(PyObject *module, PyObject *args) {
    PyObject *code, *globals;
    int offset;
    if (!PyArg_ParseTuple(args, "O!O!i:stopped_frame", &PyCode_Type, &code, &PyDict_Type, &globals, &offset)) {
        return NULL;
    }
    if (((PyCodeObject *)code)->co_nfreevars > 0) {
        PyErr_SetString(PyExc_ValueError, "stopped_frame: the code has free variables");
        return NULL;
    }
    if (offset < 0 || offset >= FJ_Code_Size(code)) {
        return PyErr_Format(PyExc_ValueError, "stopped_frame: there is no instruction at %d", offset);
    }
    return (PyObject *)FJ_Frame_Stopped((PyCodeObject *)code, globals, offset);
}

static PyObject *type_name(PyObject *module, PyObject *type) {
    if (!PyType_Check(type)) {
        return PyErr_Format(PyExc_TypeError, "type_name: expected a class, got a %.100s", Py_TYPE(type)->tp_name);
    }
    return PyUnicode_FromString(((PyTypeObject *)type)->tp_name);
}

static PyObject *made_by_object_new(PyObject *module, PyObject *type) {
    if (!PyType_Check(type)) {
        return PyErr_Format(PyExc_TypeError, "made_by_object_new: expected a class, got a %.100s", Py_TYPE(type)->tp_name);
    }
    return PyBool_FromLong(((PyTypeObject *)type)->tp_new == PyBaseObject_Type.tp_new);
}

/* Objects/object.c: set_attribute_error_context. */
static PyObject *look_up_failed(PyObject *module, PyObject *args) {
    PyObject *object, *error, *name;
    if (!PyArg_ParseTuple(args, "OOU:look_up_failed", &object, &error, &name)) {
        return NULL;
    }
    if (PyObject_TypeCheck(error, (PyTypeObject *)PyExc_AttributeError)) {
        PyAttributeErrorObject *fields = (PyAttributeErrorObject *)error;
        if (fields->name == NULL && fields->obj == NULL &&
            (PyObject_SetAttrString(error, "name", name) < 0 || PyObject_SetAttrString(error, "obj", object) < 0)) {
            return NULL;
        }
    }
    return Py_NewRef(error);
}

static PyObject *look_method_up(PyObject *module, PyObject *args) {
    PyObject *object, *name, *method = NULL;
    if (!PyArg_ParseTuple(args, "OU:look_method_up", &object, &name)) {
        return NULL;
    }
    if (!_PyObject_GetMethod(object, name, &method)) {
        return method;
    }
    PyObject *bound = Py_TYPE(method)->tp_descr_get(method, object, (PyObject *)Py_TYPE(object));
    Py_DECREF(method);
    return bound;
}

/* The hash of the next key of a dict or element of a set, as its table has it: 1, or 0 at the end. */
static int next_hash(PyObject *container, Py_ssize_t *position, Py_hash_t *hash) {
    PyObject *key, *value;
    return PyDict_Check(container) ? FJ_Dict_Next(container, position, &key, &value, hash) : FJ_Set_NextHashed(container, position, &key, hash);
}

static PyObject *stored_hashes(PyObject *module, PyObject *container) {
    if (!PyDict_Check(container) && !PyAnySet_Check(container)) {
        return PyErr_Format(PyExc_TypeError, "stored_hashes: expected a dict or set, got a %.100s", Py_TYPE(container)->tp_name);
    }
    PyObject *hashes = PyList_New(0);
    Py_ssize_t position = 0;
    Py_hash_t hash;
    while (hashes != NULL && next_hash(container, &position, &hash)) {
        PyObject *number = PyLong_FromSsize_t(hash);
        if (number == NULL || PyList_Append(hashes, number) < 0) {
            Py_CLEAR(hashes);
        }
        Py_XDECREF(number);
    }
    return hashes;
}

static PyMethodDef module_functions[] = {
    {"mark_code", mark_code, METH_VARARGS,
     "mark_code(code, kind, /)\n--\n\nFunctions of this code that native code calls at a break are not compiled. NEVER: they run uncompiled; OPAQUE: "
     "so does everything that they call."},
    {"stopped_frame", stopped_frame, METH_VARARGS,
     "stopped_frame(code, globals, offset, /)\n--\n\nA frame that stands at the instruction at an offset in bytes, without variables or a caller: for "
     "entries of tracebacks. Raises ValueError where the code has free variables or no such instruction."},
    {"type_name", type_name, METH_O,
     "type_name(type, /)\n--\n\nThe name of a class in the interpreter's messages: with its module where C code has defined it in one."},
    {"made_by_object_new", made_by_object_new, METH_O,
     "made_by_object_new(type, /)\n--\n\nWhether the slot by which a class makes instances is object's own. One that has ever had a `__new__` in Python keeps another."},
    {"look_up_failed", look_up_failed, METH_VARARGS,
     "look_up_failed(object, error, name, /)\n--\n\nThe exception that has left the look-up of an attribute. An AttributeError that says of neither its "
     "name nor its object which they are gets them."},
    {"look_method_up", look_method_up, METH_VARARGS,
     "look_method_up(object, name, /)\n--\n\nAn attribute as the instructions look it up that call it: an AttributeError of a getter is told nothing then, "
     "unless the class has hooks."},
    {"stored_hashes", stored_hashes, METH_O,
     "stored_hashes(container, /)\n--\n\nThe hashes that the table of a dict or set has of its keys or elements, in order, as a list. They are those from when "
     "these were put in."},
    {"hook_installed", hook_installed, METH_NOARGS, "hook_installed()\n--\n\nWhether the interpreter's frame evaluator is framejit's now."},
    {NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "framejit._runtime",
    .m_doc = "The frame hook, the code cache and the guard tree.",
    .m_size = -1,
    .m_methods = module_functions,
};

static int fill_module(PyObject *module) {
    FJ_Hook_Init(FJ_EvalFrame);
    if (FJ_Arguments_Init() < 0 || FJ_Objects_Init() < 0 || FJ_Program_Init() < 0 || FJ_Frame_Init() < 0 || FJ_Upcalls_Init() < 0 ||
        PyModule_AddFunctions(module, FJ_switches) < 0) {
        return -1;
    }
    if (PyModule_AddObjectRef(module, "Unset", FJ_Unset) < 0 || FJ_Guards_Init(module) < 0 ||
        PyModule_AddType(module, &FJ_EntryType) < 0 || FJ_CompiledFunction_Init(module) < 0 ||
        PyModule_AddIntConstant(module, "NEVER", FJ_CODE_NEVER) < 0 || PyModule_AddIntConstant(module, "OPAQUE", FJ_CODE_OPAQUE) < 0 ||
        PyModule_AddStringConstant(module, "built_for_torch", FRAMEJIT_BUILT_FOR_TORCH) < 0 ||
        PyModule_AddStringConstant(module, "built_for_python", FRAMEJIT_BUILT_FOR_PYTHON) < 0) {
        return -1;
    }
    return 0;
}

PyMODINIT_FUNC PyInit__runtime(void) {
    PyObject *module = PyModule_Create(&module_definition);
    if (module != NULL && fill_module(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
