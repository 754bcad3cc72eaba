"""The table of facts about torch's operators that their schemas and tags don't say. What torch says of them is read in operator_facts.py.

Operators are named as the nodes of a graph call them: by the name of a method, or of a function of torch's or of Python's module `operator`.
"""

from __future__ import annotations

from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UnstatedFact:
    """A fact about operators, by their `names`, and why no schema or tag of torch's says it. `name in fact` asks whether the fact holds of an operator."""

    fact: str
    why: str
    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name in self.names


def unstated(fact: str, *, why: str, names: str) -> UnstatedFact:
    """A row of the table. `names`: separated by blanks."""
    return UnstatedFact(fact, why, frozenset(names.split()))


CHANGE_TENSOR_ITSELF = unstated(
    "They change a tensor itself, and not its data: what autograd or its hooks know of it, or the names of its dimensions.",
    why="The tag inplace_view is only for changes of sizes, strides and memory. The schema of requires_grad_ says that it writes to the tensor, "
    "and methods that register hooks have none.",
    names="requires_grad_ retain_grad register_hook register_post_accumulate_grad_hook rename_ align_to_",
)
NOT_IN_GRAPH = unstated(
    "They take memory, files or foreign objects, need data, or steer torch itself, so that no node may call them.",
    why="Most are implemented by hand in Python or C++, and have no schema. The schemas of the others look like those of operators that may be nodes.",
    names="from_numpy frombuffer from_file from_dlpack asarray is_inference is_nonzero is_distributed set_flush_denormal handle_torch_function "
    "boolean_dispatch assert_int_or_pair gaussian_nll_loss",
)
TAKE_ANY_DEVICE = unstated(
    "Their kernels for tensors without data are in torch's table of those written in Python, and don't ask a fake for its device.",
    why="Others of that table do, inside functions that they call.",
    names="copy_ constant_pad_nd",
)
DECOMPOSED_ON_ANY_DEVICE = unstated(
    "Their decompositions, which are their kernels for tensors without data as well, don't ask a tensor for its device.",
    why="Others do: the statistics of `native_layer_norm` have the dtype of an input in half precision on the CPU only.",
    names="addmm nll_loss_forward _log_softmax gelu embedding",
)
TAKE_ONE_DTYPE = unstated(
    "All tensors must have one dtype, except under autocast; tensors without data are taken whatever their dtypes.",
    why="A schema says nothing about dtypes. Other products, such as `bmm` and `dot`, compare the dtypes of tensors without data too.",
    names="mm dsmm spmm addmm addmm_ mv addmv addmv_ matmul __matmul__ __rmatmul__ linear",
)
CHANGE_BY_ARITHMETIC = unstated(
    "They write a number of the dtype to which their arguments are promoted into a tensor, whose dtype must be of that kind or above; tensors without data are "
    "changed whatever their dtypes.",
    why="A schema says nothing about dtypes. Other changes, such as `div_` and `pow_`, compare the dtypes of tensors without data too.",
    names="add_ __iadd__ iadd sub_ subtract_ __isub__ isub mul_ multiply_ __imul__ imul addcmul_ addcdiv_",
)
GIVE_ELEMENTS = unstated(
    "Each element of the result is an element of the tensor.",
    why="A schema says whether a result has the memory of an argument, but not how its elements are read: `imag` and `view(dtype)` give others. "
    "`clone` and `item` give elements without sharing memory.",
    names="select item flatten clone __getitem__",
)
KEEP_ONE_ELEMENT = unstated(
    "If the tensor has one element, and the result has one element of the same type, then the two are equal.",
    why="The tag reduction, which not every supported torch has, is also on operators such as `std` and `argmax`. Operators that share memory include "
    "`as_strided`, which may give another element.",
    names="min max amin amax sum mean all any view reshape flatten squeeze unsqueeze detach clone getitem __getitem__",
)
SQUEEZES = unstated(
    "The number of the result's dimensions depends on which sizes are 1.",
    why="A schema says nothing of the shapes of results.",
    names="squeeze squeeze_",
)
TELL_LAYOUT = unstated(
    "They give numbers or a bool, which depend on the tensor's sizes that are 0 or 1.",
    why="A schema says nothing of the properties of a tensor that a result is computed from.",
    names="stride is_contiguous is_non_overlapping_and_dense",
)
COMPUTE_MASKS = unstated(
    "Of equal tensors they give equal results, if these are integers or bools.",
    why="Tags say which operators draw random numbers, but not which leave memory as it was (`empty_like`), or read a state of torch's.",
    names="eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ invert __invert__ and_ or_ xor __and__ __or__ __xor__ logical_not logical_and "
    "logical_or logical_xor bitwise_not bitwise_and bitwise_or isnan isinf isfinite isin getitem __getitem__ select narrow to bool long int view reshape "
    "flatten squeeze unsqueeze contiguous expand expand_as transpose",
)
TELL_FINITE_NUMBERS = unstated(
    "They tell for each element whether it is a finite number.",
    why="A schema says nothing of what an operator computes.",
    names="isfinite isnan isinf",
)
READ_NUMBER = unstated(
    "They read the number in a tensor with one element.",
    why="A schema says nothing of what an operator computes. The second is what the first is in a graph of ATen operators.",
    names="item _local_scalar_dense",
)
SUM_UP_MASKS = unstated(
    "Of a mask they compute a number, or a mask with fewer elements.",
    why="A schema says nothing of what an operator computes.",
    names="any all sum count_nonzero max min amax amin mean item float int detach clone full",
)
SELECT_BY_MASK = unstated(
    "They read or write the elements of a tensor that the second argument selects, and don't change or return that argument.",
    why="A schema doesn't say which argument selects.",
    names="getitem __getitem__ setitem __setitem__ masked_select masked_scatter masked_fill masked_fill_ index_put index_put_",
)
MAY_COPY = unstated(
    "The result is a view or a copy, by the tensor's layout.",
    why="Their schemas say that the result shares the tensor's memory. So do those of operators that always give a view, and that of `to`, "
    "which doesn't copy because of the layout.",
    names="contiguous reshape flatten reshape_as ravel",
)
POWERS = unstated(
    "They compute otherwise, or not at all, where the exponent is no constant.",
    why="Kernels and Inductor look at the exponent's value. For a schema it is a Scalar, as the factor of `mul`.",
    names="pow pow_ ipow float_power float_power_",
)
TAKE_FLOATS_OF_TENSORS = unstated(
    "AOTAutograd's compilers compute what eager does if they are given floats out of tensors.",
    why="It is a property of those compilers. Two of the names are of nodes that run a step of an optimizer.",
    names="add sub mul truediv div iadd isub imul itruediv add_ mul_ div_ sgd_step adam_step lt le gt ge full",
)
NEED_ELEMENTS = unstated(
    "They fail on tensors without elements, or on an index out of range, in eager, but not in what Inductor makes of them.",
    why="A schema doesn't say what a kernel checks, and Inductor leaves these checks out.",
    names="max min amax amin aminmax argmax argmin median nanmedian mode kthvalue select as_strided cummax cummin",
)
TAKE_NO_ROWS = unstated(
    "They compute what they always do for tensors without elements, and raise no error for any data.",
    why="A schema doesn't say what a kernel checks, and fake tensors are taken by most operators that raise. Those with the tag pointwise aren't named.",
    names="mm addmm bmm baddbmm mv dot sum mean var_mean cumsum prod _softmax _log_softmax native_layer_norm native_group_norm convolution cat stack clone "
    "_to_copy copy_ zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full zeros ones empty full arange fill_ zero_ constant_pad_nd "
    "linear matmul scalar_tensor lift_fresh _fused_rms_norm rms_norm flip tril triu _unsafe_view glu hardswish hardsigmoid mish elu _prelu_kernel",
)
RAISE_NOTHING = unstated(
    "They raise no error for any data.",
    why="A schema doesn't say what a kernel checks. Those of TAKE_NO_ROWS, and those with the tag pointwise that compute no ints, aren't named.",
    names="equal are_equal allclose isclose any all item _local_scalar_dense detach norm abs float bool",
)
READ_ELSEWHERE = unstated(
    "Inductor's code reads past the end of a tensor for which torch's kernel says that an argument is out of range.",
    why="The fake implementation checks nothing, so that there is no guard on the tensor's sizes, and a schema doesn't say what a kernel checks.",
    names="as_strided_copy as_strided_scatter kthvalue",
)
PRODUCTS_OF_SPARSE = unstated(
    "All backends leave them to torch's kernels if the first factor is sparse and the other one is a matrix, or matrices.",
    why="It is a property of the backends. A schema doesn't say for which layouts there are kernels.",
    names="mm matmul __matmul__ _sparse_mm addmm bmm",
)
