"""`__torch_function__`, TorchFunctionModes, and tensors that wrap others."""
