"""TorchScript: scripted functions and modules, and objects of classes in C++."""
