/* shapes.cpp: the relation that a program over sizes and numbers of the call holds. */
#include "shape_vm.h"
#include "tree.h"

namespace framejit {

namespace {

/* Where an input of the program comes from; the names are those of READS in guards/shapes.py. */
enum class Read : int64_t { size, stride, offset, integer, floating };

struct Input {
    int32_t node;
    Read read;
    int64_t dim;
};

struct ShapeFacts : Facts {
    std::vector<Input> inputs;
    ShapeProgram program;
};

bool read_int(PyObject *value, int64_t *found) {
    if (!PyLong_CheckExact(value)) return false;
    int overflow;
    *found = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

bool read_float(PyObject *value, int64_t *found) {
    if (!PyFloat_CheckExact(value)) return false;
    const double number = PyFloat_AS_DOUBLE(value);
    std::memcpy(found, &number, sizeof number);
    return true;
}

/* Exact ints and floats, and numbers that lie in a tensor's C++ object. */
bool read_input(const Input &input, PyObject *value, int64_t *found) {
    if (value == nullptr) return false;
    switch (input.read) {
        case Read::size: return tensor_number(value, TensorNumber::size, input.dim, found);
        case Read::stride: return tensor_number(value, TensorNumber::stride, input.dim, found);
        case Read::offset: return tensor_number(value, TensorNumber::offset, 0, found);
        case Read::integer: return read_int(value, found);
        case Read::floating: return read_float(value, found);
    }
    return false;
}

/* numbers: how many inputs; of each, which path, what is read of it and the dimension; then the program. */
bool read_shapes(GuardTree &tree, Relation &relation) {
    auto facts = std::make_unique<ShapeFacts>();
    const std::vector<int64_t> &numbers = relation.numbers;
    const size_t count = numbers.empty() || numbers[0] < 0 ? 0 : static_cast<size_t>(numbers[0]);
    bool right = count > 0 && count <= (numbers.size() - 1) / 3;
    for (size_t i = 0; right && i < count; i++) {
        const int64_t path = numbers[1 + 3 * i], read = numbers[2 + 3 * i], dim = numbers[3 + 3 * i];
        right = path >= 0 && static_cast<size_t>(path) < relation.nodes.size() && read >= 0 && read <= static_cast<int64_t>(Read::floating) && dim >= 0;
        if (right) facts->inputs.push_back({relation.nodes[path], static_cast<Read>(read), dim});
    }
    if (!right || !facts->program.read(numbers.data() + 1 + 3 * count, numbers.data() + numbers.size(), count)) {
        PyErr_SetString(PyExc_ValueError, "a program over shapes is malformed");
        return false;
    }
    relation.numbers.clear();
    relation.facts = facts.get();
    tree.facts.push_back(std::move(facts));
    return true;
}

bool shapes_hold(const Relation &relation, const std::vector<PyObject *> &values) {
    const auto &facts = *static_cast<const ShapeFacts *>(relation.facts);
    int64_t *found = facts.program.registers.data();
    for (const Input &input : facts.inputs) {
        if (!read_input(input, values[input.node], found++)) return false;
    }
    return facts.program.holds();
}

const Registered<RelationKind> kind({.name = "shapes_hold", .holds = shapes_hold, .read = read_shapes});

}  // namespace

}  // namespace framejit
