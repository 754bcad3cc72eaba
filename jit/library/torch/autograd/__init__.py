"""Autograd in compiled code: autograd.Function, gradients that the program asks for, leaves, and forward mode."""
