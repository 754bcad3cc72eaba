"""Graph capture: FX graphs are built node by node, and each operator runs on fake tensors as its node is made.

Here is what every graph goes through. What concerns one subject (a kind of tensor, gradients that the program computes, random numbers ...) lies in
jit/library/, and is found by registries: rules for operators, kinds of tensors, operators of framejit's own, parts of a trace's state, and the tables that
the files here begin with. These look like subjects and are none, since each node or each end of a graph asks them: statistics.py, function_modes.py,
annotations.py, spelling.py, wrappers.py, switches.py, and gradient_paths.py with autograd_node.py.
"""
