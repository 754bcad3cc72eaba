/* shapes.cpp: the relation that a program over sizes and numbers of the call holds. */
#include "shape_vm.h"
#include "tree.h"

#include <algorithm>

namespace framejit {

namespace {

/* Where an input of the program comes from; the names are those of READS in guards/shapes.py. */
enum class Read : int64_t { size, stride, offset, integer, floating };

struct Input {
    int32_t node;
    Read read;
    int64_t dim;
    size_t place; /* its register */
};

struct ShapeFacts : Facts {
    std::vector<Input> inputs; /* those from one node are together */
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

/* Reads numbers that lie in a tensor's C++ object: those of `input` and of the inputs behind it that are from the same node. */
bool read_tensor(const Input *&input, const Input *end, PyObject *value, int64_t *registers) {
    TensorNumbers numbers;
    if (!tensor_numbers(value, &numbers)) return false;
    for (const int32_t node = input->node; input != end && input->node == node && input->read <= Read::offset; input++) {
        const bool is_size = input->read == Read::size, is_offset = input->read == Read::offset;
        if ((!is_size && numbers.strides == nullptr) || (!is_offset && input->dim >= numbers.dims)) return false;
        registers[input->place] = is_offset ? numbers.offset : (is_size ? numbers.sizes : numbers.strides)[input->dim];
    }
    return true;
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
        if (right) facts->inputs.push_back({relation.nodes[path], static_cast<Read>(read), dim, i});
    }
    if (!right || !facts->program.read(numbers.data() + 1 + 3 * count, numbers.data() + numbers.size(), count)) {
        PyErr_SetString(PyExc_ValueError, "a program over shapes is malformed");
        return false;
    }
    std::stable_sort(facts->inputs.begin(), facts->inputs.end(), [](const Input &a, const Input &b) { return a.node < b.node; });
    relation.numbers.clear();
    relation.facts = facts.get();
    tree.facts.push_back(std::move(facts));
    return true;
}

bool shapes_hold(const Relation &relation, const std::vector<PyObject *> &values) {
    const auto &facts = *static_cast<const ShapeFacts *>(relation.facts);
    int64_t *registers = facts.program.registers.data();
    const Input *input = facts.inputs.data(), *const end = input + facts.inputs.size();
    while (input != end) {
        PyObject *value = values[input->node];
        if (value == nullptr) return false;
        if (input->read <= Read::offset) {
            if (!read_tensor(input, end, value, registers)) return false;
            continue;
        }
        int64_t *place = &registers[input->place];
        if (!(input->read == Read::integer ? read_int(value, place) : read_float(value, place))) return false;
        input++;
    }
    return facts.program.holds();
}

const Registered<RelationKind> kind({.name = "shapes_hold", .holds = shapes_hold, .read = read_shapes});

}  // namespace

}  // namespace framejit
