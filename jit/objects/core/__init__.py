"""The parts that all Objects share: the base class, generic operations, calls, the registry of meanings, and the protocols of the VM."""
