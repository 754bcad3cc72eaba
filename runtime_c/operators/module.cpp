/* module.cpp: the extension module framejit._operators, by which Python puts compiled kernels in force for torch's operators. */
#include <Python.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "call_key.h"
#include "eager_operator.h"
#include "python_values.h"

namespace framejit {

namespace {

std::atomic<int64_t> living_kernels{0};

class CountedKernel final : public Kernel {
   public:
    template <typename... Arguments>
    explicit CountedKernel(Arguments &&...arguments) : Kernel(std::forward<Arguments>(arguments)...) {
        living_kernels++;
    }
    ~CountedKernel() { living_kernels--; }
};

class HoldGil {
   public:
    HoldGil() : state_(PyGILState_Ensure()) {}
    ~HoldGil() { PyGILState_Release(state_); }
    HoldGil(const HoldGil &) = delete;

   private:
    PyGILState_STATE state_;
};

/* A C++ exception that stands for Python's, which is set. The GIL is held. */
[[noreturn]] void throw_pythons() {
    python_error error;
    error.persist();
    throw std::move(error);
}

/* An exception of C++ as Python's. Always returns null. */
template <typename Action>
PyObject *guarded(Action action) {
    try {
        return action();
    } catch (python_error &error) {
        error.restore();
    } catch (const c10::Error &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    } catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

struct PyKernel {
    PyObject_HEAD
    std::shared_ptr<const Kernel> kernel;
};

extern PyTypeObject kernel_type;

/* Asks an object of Python's, which has the methods `is_ready()` and `compile(arguments, results)` and an attribute `wrapped`, as KernelMaker in
 * jit/backends/eager_kernels/kernel_maker.py has them. */
class CompilerInPython final : public Compiler {
   public:
    explicit CompilerInPython(PyObject *object) : object_(Py_NewRef(object)) {}

    ~CompilerInPython() {
        if (!Py_IsInitialized()) return;
        const HoldGil gil;
        Py_DECREF(object_);
    }

    bool is_ready() override {
        if (!Py_IsInitialized()) return false;
        const HoldGil gil;
        PyObject *const ready = PyObject_CallMethod(object_, "is_ready", nullptr);
        if (ready == nullptr) throw_pythons();
        const bool is_ready = ready == Py_True;
        Py_DECREF(ready);
        return is_ready;
    }

    Decision compile(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> results) override {
        const HoldGil gil;
        const WithTorchsKernels originals;
        PyObject *made = nullptr, *in_python = nullptr, *expected = nullptr;
        PyObject *const wrapped = PyObject_GetAttrString(object_, "wrapped");
        if (wrapped != nullptr) in_python = arguments_in_python(schema, arguments, wrapped);
        if (in_python != nullptr) expected = tensors_in_python(results);
        if (expected != nullptr) made = PyObject_CallMethod(object_, "compile", "OO", in_python, expected);
        Py_XDECREF(wrapped);
        Py_XDECREF(in_python);
        Py_XDECREF(expected);
        if (made == nullptr) throw_pythons();
        Decision decision;
        if (Py_IS_TYPE(made, &kernel_type)) decision.kernel = reinterpret_cast<PyKernel *>(made)->kernel;
        decision.is_last = made == Py_NotImplemented;
        Py_DECREF(made);
        return decision;
    }

   private:
    PyObject *object_;
};

bool read_ints(PyObject *object, std::vector<int64_t> *out) {
    PyObject *const items = PySequence_Fast(object, "a sequence of ints is expected");
    if (items == nullptr) return false;
    for (Py_ssize_t place = 0; place < PySequence_Fast_GET_SIZE(items) && !PyErr_Occurred(); place++) {
        out->push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, place)));
    }
    Py_DECREF(items);
    return !PyErr_Occurred();
}

PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *) {
    const char *library;
    PyObject *guards, *read;
    std::vector<int64_t> program, places;
    if (!PyArg_ParseTuple(args, "sOO:Kernel", &library, &guards, &read) || !read_ints(guards, &program) || !read_ints(read, &places)) return nullptr;
    return guarded([&]() -> PyObject * {
        auto made = std::make_shared<const CountedKernel>(std::string(library), program, std::vector<size_t>(places.begin(), places.end()));
        auto *const self = reinterpret_cast<PyKernel *>(type->tp_alloc(type, 0));
        if (self != nullptr) new (&self->kernel) std::shared_ptr<const Kernel>(std::move(made));
        return reinterpret_cast<PyObject *>(self);
    });
}

void kernel_dealloc(PyObject *self) {
    reinterpret_cast<PyKernel *>(self)->kernel.~shared_ptr();
    Py_TYPE(self)->tp_free(self);
}

PyObject *kernel_run(PyObject *self, PyObject *tensors) {
    std::vector<at::Tensor> inputs;
    PyObject *const items = PySequence_Fast(tensors, "a sequence of tensors is expected");
    if (items == nullptr) return nullptr;
    for (Py_ssize_t place = 0; place < PySequence_Fast_GET_SIZE(items); place++) {
        PyObject *const item = PySequence_Fast_GET_ITEM(items, place);
        if (!THPVariable_Check(item)) {
            Py_DECREF(items);
            return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %s", Py_TYPE(item)->tp_name);
        }
        inputs.push_back(THPVariable_Unpack(item));
    }
    Py_DECREF(items);
    std::vector<const at::Tensor *> pointers;
    for (const at::Tensor &input : inputs) pointers.push_back(&input);
    return guarded([&]() -> PyObject * {
        const auto results = reinterpret_cast<PyKernel *>(self)->kernel->run(pointers);
        return tensors_in_python(std::vector<c10::IValue>(results.begin(), results.end()));
    });
}

PyMethodDef kernel_methods[] = {
    {"run", kernel_run, METH_O, "run(tensors, /)\n--\n\nThe results for these tensors, as a list. Nothing is checked."},
    {},
};

PyTypeObject kernel_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "framejit._operators.Kernel",
    .tp_basicsize = sizeof(PyKernel),
    .tp_dealloc = kernel_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Kernel(library, guards, read, /)\n--\n\nA shared library that AOTInductor has made, for calls whose sizes pass a program.",
    .tp_methods = kernel_methods,
    .tp_new = kernel_new,
};

struct PyOperator {
    PyObject_HEAD
    std::unique_ptr<EagerOperator> replaced;
};

PyObject *operator_new(PyTypeObject *type, PyObject *args, PyObject *) {
    const char *name, *overload;
    PyObject *compiler;
    if (!PyArg_ParseTuple(args, "ssO:Operator", &name, &overload, &compiler)) return nullptr;
    return guarded([&]() -> PyObject * {
        auto replaced = std::make_unique<EagerOperator>(name, overload, std::make_shared<CompilerInPython>(compiler));
        auto *const self = reinterpret_cast<PyOperator *>(type->tp_alloc(type, 0));
        if (self != nullptr) new (&self->replaced) std::unique_ptr<EagerOperator>(std::move(replaced));
        return reinterpret_cast<PyObject *>(self);
    });
}

void operator_dealloc(PyObject *self) {
    reinterpret_cast<PyOperator *>(self)->replaced.~unique_ptr();
    Py_TYPE(self)->tp_free(self);
}

PyObject *operator_close(PyObject *self, PyObject *) {
    return guarded([&] {
        reinterpret_cast<PyOperator *>(self)->replaced->close();
        return Py_NewRef(Py_None);
    });
}

PyObject *operator_forget(PyObject *self, PyObject *) {
    return guarded([&] {
        reinterpret_cast<PyOperator *>(self)->replaced->forget();
        return Py_NewRef(Py_None);
    });
}

PyMethodDef operator_methods[] = {
    {"close", operator_close, METH_NOARGS, "close()\n--\n\nGive the operator torch's kernel back, and free the compiled ones."},
    {"forget", operator_forget, METH_NOARGS, "forget()\n--\n\nFree the compiled kernels. The next calls compile again."},
    {},
};

PyTypeObject operator_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "framejit._operators.Operator",
    .tp_basicsize = sizeof(PyOperator),
    .tp_dealloc = operator_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Operator(name, overload, compiler, /)\n--\n\nAn operator whose kernel for the CPU is replaced until close() is called.",
    .tp_methods = operator_methods,
    .tp_new = operator_new,
};

PyObject *count_kernels(PyObject *, PyObject *) { return PyLong_FromLongLong(living_kernels.load()); }

PyObject *set_torchs_kernels(PyObject *, PyObject *) {
    static thread_local const WithTorchsKernels originals;
    return Py_NewRef(Py_None);
}

PyMethodDef module_functions[] = {
    {"count_kernels", count_kernels, METH_NOARGS, "count_kernels()\n--\n\nThe number of kernels that are in memory."},
    {"use_torchs_kernels", set_torchs_kernels, METH_NOARGS,
     "use_torchs_kernels()\n--\n\nFrom now on, the operators that this thread calls run torch's kernels."},
    {},
};

PyModuleDef module_definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "framejit._operators",
    .m_doc = "Compiled kernels for operators that are called eagerly.",
    .m_size = -1,
    .m_methods = module_functions,
};

}  // namespace

}  // namespace framejit

PyMODINIT_FUNC PyInit__operators(void) {
    PyObject *module = PyModule_Create(&framejit::module_definition);
    if (module != nullptr && (PyModule_AddType(module, &framejit::kernel_type) < 0 || PyModule_AddType(module, &framejit::operator_type) < 0 ||
                              PyModule_AddIntConstant(module, "WORTH_THREADS", framejit::worth_threads) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
