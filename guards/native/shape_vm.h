/* shape_vm.h: programs over the sizes and numbers of a call; guards/shape_vm.py says what each operation means. */
#ifndef FRAMEJIT_GUARDS_SHAPE_VM_H
#define FRAMEJIT_GUARDS_SHAPE_VM_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace framejit {

/* The names are those of OPERATIONS in guards/shape_vm.py. */
#define FRAMEJIT_SHAPE_OPERATIONS(X)                                                                                             \
    X(add) X(sub) X(mul) X(floordiv) X(mod) X(power) X(minimum) X(maximum) X(magnitude) X(bit_and) X(bit_or) X(bit_xor) X(shift_left) \
    X(shift_right) X(eq) X(ne) X(le) X(lt) X(both) X(either) X(negation) X(select) X(to_float) X(same_float) X(true_divide)           \
    X(float_add) X(float_sub) X(float_mul) X(float_divide) X(float_power) X(float_root) X(float_magnitude) X(float_eq) X(float_ne)    \
    X(float_le) X(float_lt) X(float_floordiv) X(float_mod) X(float_exp)             \
    X(float_log) X(float_log2) X(float_log10) X(common_divisor) X(truncate) X(floor) X(ceiling) X(nearest) X(need) X(need_eq) X(need_ne) X(need_le) X(need_lt)             \
    X(need_divisible)

#define FRAMEJIT_ENUMERATOR(name) name,
enum class ShapeOperation : int32_t { FRAMEJIT_SHAPE_OPERATIONS(FRAMEJIT_ENUMERATOR) };
#undef FRAMEJIT_ENUMERATOR

/* One step: its operands are numbers of registers, and it writes the register behind that of the step before it. */
struct ShapeInstruction {
    ShapeOperation operation;
    int32_t first, second, third;
};

/* Registers hold the inputs, then the constants, then what each instruction finds. A float lies in a register as its bits. */
struct ShapeProgram {
    std::vector<ShapeInstruction> code;
    mutable std::vector<int64_t> registers; /* a tree is walked once at a time */
    size_t results = 0;                     /* the register that the first instruction writes */

    /* Reads constants and code as ShapeProgram.native() in guards/shape_vm.py gives them; false where they are no program over so many inputs. */
    bool read(const int64_t *word, const int64_t *end, size_t inputs);

    /* Whether all that the program demands is so, and could be found out without an overflow. The inputs are in the registers. */
    bool holds() const { return holds(registers.data()); }

    /* The same with registers of the caller's, as many, which hold the inputs and the constants: several threads may run the program at once. */
    bool holds(int64_t *of_caller) const;
};

/* The operations in their order. */
extern const std::vector<const char *> shape_operation_names;

}  // namespace framejit

#endif
