"""The change table: every kind of thing that a result can depend on, and what is changed next to it without effect.

Each kind has at least one scenario in `test_guard_changes*.py`, and each scenario is of one kind (`test_guard_changes_table.py` checks both).
A scenario makes the change that counts: the next call gives eager's result. Something next to it is changed too, by the scenario (SAME), or by the rule
that the kind names (`neighbours.py`) after each of the scenario's steps: then nothing is compiled.
"""

from __future__ import annotations

import enum

from neighbours import Beside


class Kind(enum.Enum):
    """Kinds of things that a result can depend on, each with the kind of thing next to it that is changed to show that nothing compiles."""

    # arguments
    VALUE_OF_AN_ARGUMENT = "number, text, None, dtype, device or other constant given as an argument", Beside.VALUE
    PASSED_ON = "argument that is only passed on, or not used at all", Beside.VALUE
    CALL_SHAPE = "how many arguments, and by which names and order", Beside.VALUE
    LIST_OR_TUPLE = "length, items and type of a list, tuple, deque or range", Beside.ITEM
    DICT = "keys, order and values of a dict", Beside.KEY
    SET = "elements of a set", Beside.ITEM
    CONTAINER_SUBCLASS = "subclass of a container, and what its class defines", Beside.ATTRIBUTE
    ENUM = "member of an enum, its value and attributes", Beside.CLASS_ATTRIBUTE
    DATACLASS = "fields of a dataclass", Beside.ATTRIBUTE
    NAMED_TUPLE = "fields and class of a named tuple", Beside.VALUE
    IDENTITY = "which arguments are the same object", Beside.VALUE
    NUMBER_THAT_COUNTS = "counter that is only incremented", Beside.ATTRIBUTE

    # functions
    CODE = "code of a function", Beside.ATTRIBUTE
    DEFAULTS = "default argument", Beside.DEFAULT
    KEYWORD_DEFAULTS = "keyword-only default argument", Beside.DEFAULT
    CELL = "content of a closure cell", Beside.CELL
    CLOSURE = "which closure of a code object, or which container it holds", Beside.VALUE
    FUNCTION_ATTRIBUTE = "attribute, name or `__dict__` of a function", Beside.ATTRIBUTE
    PARTIAL = "function and arguments of a partial", Beside.ATTRIBUTE
    BOUND_METHOD = "bound method: its function and its object", Beside.ATTRIBUTE

    # globals and modules
    GLOBAL = "global that is bound anew, appears or is deleted", Beside.GLOBAL
    GLOBAL_CONTAINER = "content of a global list or dict", Beside.GLOBAL
    GLOBAL_OF_ANOTHER_MODULE = "global of another module than the caller's", Beside.GLOBAL
    PYTHON_MODULE = "attribute, `__getattr__` and `__class__` of a Python module, and sys.modules", Beside.ATTRIBUTE
    BUILTIN = "builtin that is shadowed or patched", Beside.LIBRARY
    LIBRARY_FUNCTION = "function of torch that is patched", Beside.LIBRARY
    LIBRARY_CLASS = "method or property of a class of torch that is patched", Beside.LIBRARY
    LIBRARY_STATE = "what a class of the standard library keeps: caches, registries, weak references", Beside.STATE

    # objects and classes
    INSTANCE_ATTRIBUTE = "attribute of an instance", Beside.ATTRIBUTE
    SLOT = "slot of an instance", Beside.CLASS_ATTRIBUTE
    INSTANCE_DICT = "`__dict__` of an instance replaced", Beside.ATTRIBUTE
    INSTANCE_CLASS = "`__class__` of an instance, or what isinstance says of it", Beside.ATTRIBUTE
    CLASS_ATTRIBUTE = "attribute of a class or of its bases", Beside.CLASS_ATTRIBUTE
    METHOD = "method, static method or class method patched or shadowed", Beside.CLASS_ATTRIBUTE
    PROPERTY = "property or other descriptor", Beside.CLASS_ATTRIBUTE
    SPECIAL_METHOD = "special method: operators, calls, truth, length, items, comparison, format, with", Beside.CLASS_ATTRIBUTE
    ATTRIBUTE_HOOK = "`__getattr__` and `__getattribute__` of a class", Beside.CLASS_ATTRIBUTE
    BASES = "`__bases__` of a class", Beside.CLASS_ATTRIBUTE
    METACLASS = "metaclass: its attributes and what it answers", Beside.CLASS_ATTRIBUTE
    CLASS_NAME = "name and documentation of a class", Beside.CLASS_ATTRIBUTE
    CONSTRUCTION = "how instances of a class are made", Beside.CLASS_ATTRIBUTE

    # torch modules
    MODULE_NUMBER = "number, text or None as an attribute of a module", Beside.ATTRIBUTE
    MODULE_TENSOR = "plain tensor as an attribute of a module or of its class", Beside.ATTRIBUTE
    MODULE_CONTAINER = "list or dict as an attribute of a module", Beside.ATTRIBUTE
    MODULE_FUNCTION = "function as an attribute of a module", Beside.ATTRIBUTE
    MODULE_OBJECT = "object as an attribute of a module", Beside.ATTRIBUTE
    SUBMODULE = "submodule replaced, added, wrapped or deleted", Beside.MEMBER
    PARAMETER = "parameter or buffer replaced, registered anew or shadowed; what names it has", Beside.MEMBER
    PARAMETER_VALUES = "values of a parameter or buffer, `.data =`, load_state_dict", Beside.MEMBER
    PARAMETER_DTYPE = "dtype of a parameter", Beside.MEMBER
    PARAMETER_DEVICE = "device of a parameter", Beside.MEMBER
    PARAMETER_LAYOUT = "strides and shape of a parameter", Beside.MEMBER
    PARAMETER_REQUIRES_GRAD = "requires_grad of a parameter", Beside.MEMBER
    PARAMETER_TYPE = "class of a parameter", Beside.MEMBER
    BUFFER_METADATA = "dtype, device, strides and layout of a buffer", Beside.MEMBER
    BUFFER_REQUIRES_GRAD = "requires_grad of a buffer", Beside.MEMBER
    TIED_PARAMETERS = "which parameters are one", Beside.MEMBER
    PARAMETER_GRAD = "gradient of a parameter, and hooks on it", Beside.ATTRIBUTE
    PARAMETRIZATION = "parametrization, weight norm, pruning", Beside.MEMBER
    MODULE_LIST = "ModuleList, ModuleDict, Sequential, ParameterList, ParameterDict", Beside.ATTRIBUTE
    TRAINING = "training flag", Beside.ATTRIBUTE
    MODULE_SETTING = "setting of a layer of torch", Beside.ATTRIBUTE
    MODULE_DICT = "`__dict__` of a module, or its dicts of parameters, buffers and modules, replaced", Beside.ATTRIBUTE
    MODULE_CLASS = "`__class__` of a module, its class, bases and attribute hooks", Beside.CLASS_ATTRIBUTE
    FORWARD = "forward patched on the class or the instance", Beside.ATTRIBUTE
    FORWARD_HOOK = "forward hook", Beside.HOOK
    FORWARD_PRE_HOOK = "forward pre-hook", Beside.HOOK
    BACKWARD_HOOK = "backward hook or pre-hook", Beside.HOOK
    GLOBAL_HOOK = "hook for all modules", Beside.HOOK

    # tensors
    TENSOR_SHAPE = "shape and number of dimensions of an input", Beside.VALUE
    TENSOR_DTYPE = "dtype of an input", Beside.VALUE
    TENSOR_DEVICE = "device of an input", Beside.VALUE
    TENSOR_LAYOUT = "layout of an input: sparse, nested", Beside.VALUE
    TENSOR_STRIDES = "strides, memory format and storage offset of an input", Beside.VALUE
    TENSOR_REQUIRES_GRAD = "requires_grad of an input, and whether it is a leaf", Beside.VALUE
    TENSOR_CLASS = "subclass of Tensor, and what it defines", Beside.VALUE
    TENSOR_BITS = "conjugate, negative, inference and view bits of an input", Beside.VALUE
    TENSOR_ATTRIBUTE = "attribute, gradient, hooks and version of an input", Beside.ATTRIBUTE
    TENSOR_ALIASING = "which inputs are one tensor, or share a storage", Beside.VALUE
    TENSOR_DATA = "`.data =`, `set_`, `resize_`, swap_tensors", Beside.ATTRIBUTE
    OUTER_TENSOR = "tensor of an outer scope", Beside.VALUE

    # global state
    GRAD_MODE = "grad mode and inference mode", Beside.SETTING
    AUTOCAST = "autocast", Beside.SETTING
    DEFAULT_DTYPE = "default dtype", Beside.SETTING
    DEFAULT_DEVICE = "default device", Beside.SETTING
    DETERMINISM = "deterministic algorithms", Beside.SETTING
    TORCH_MODE = "torch function mode, dispatch mode, functorch and forward differentiation", Beside.SETTING
    BACKEND_SETTING = "matmul precision, cudnn, mkldnn and attention kernels", Beside.SETTING
    RANDOMNESS = "seeds and generators", Beside.STATE
    PROCESS_STATE = "state of the process or the thread: threads, environment, context variables, loggers", Beside.STATE
    NUMPY = "NumPy arrays and numbers", Beside.ITEM

    def __init__(self, what: str, beside: Beside) -> None:
        self.what = what
        self.beside = beside
