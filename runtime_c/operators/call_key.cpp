/* call_key.cpp: reads calls of operators. Whatever isn't sure to be what a compiled kernel expects is left to torch's kernel. */
#include "call_key.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace framejit {

namespace {

/* The first word of each argument says what it is. */
enum Tag : uint64_t { nothing = 1, tensor, wrapped_number, integer, real, truth, text, device, list };

constexpr int64_t largest_rank = 8;

const c10::DispatchKeySet plain_keys(
    {c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutocastCPU});

bool is_plain(const c10::TensorImpl &impl) {
    return (impl.key_set() | plain_keys) == plain_keys && impl.layout() == c10::kStrided && impl.has_storage() &&
           !impl.has_symbolic_sizes_strides() && impl.dim() <= largest_rank;
}

bool is_compiled(c10::ScalarType dtype) {
    using enum c10::ScalarType;
    switch (dtype) {
        case Bool: case Byte: case Char: case Short: case Int: case Long: case Half: case BFloat16: case Float: case Double: return true;
        default: return false;
    }
}

/* The order of a dense tensor's dimensions, from the outermost to the innermost, in four bits each; false if it has gaps or overlaps itself. The strides
 * of dimensions of one element must be regular too, since the strides of results follow them. */
bool order_of(c10::IntArrayRef sizes, c10::IntArrayRef strides, uint64_t *order) {
    std::array<int64_t, largest_rank> dims;
    const auto rank = static_cast<int64_t>(sizes.size());
    bool in_order = true;
    for (int64_t dim = rank - 1, stride = 1; dim >= 0; dim--) {
        dims[dim] = dim;
        in_order &= strides[dim] == stride;
        stride *= sizes[dim];
    }
    if (!in_order) {
        std::stable_sort(dims.begin(), dims.begin() + rank,
                         [&](int64_t a, int64_t b) { return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] > sizes[b]; });
        int64_t stride = 1;
        for (int64_t place = rank - 1; place >= 0; stride *= sizes[dims[place--]]) {
            if (strides[dims[place]] != stride) return false;
        }
    }
    *order = 0;
    for (int64_t place = 0; place < rank; place++) *order = *order << 4 | static_cast<uint64_t>(dims[place]);
    return true;
}

}  // namespace

bool CallKey::read(c10::ArrayRef<c10::IValue> arguments) {
    if (at::globalContext().deterministicAlgorithms()) return false;
    key_.add(0);
    for (const c10::IValue &argument : arguments) {
        if (!add(argument)) return false;
    }
    if (tensors_.count == 0) return false;
    const uint64_t threads = elements_ >= worth_threads ? static_cast<uint64_t>(at::get_num_threads()) : 0;
    key_.data[0] = threads << 8 | static_cast<uint64_t>(c10::get_default_dtype_as_scalartype());
    return true;
}

bool CallKey::add(const c10::IValue &value) {
    if (value.isTensor()) return add_tensor(value.toTensor());
    if (value.isNone()) return key_.add(nothing);
    if (value.isBool()) return key_.add(truth) && key_.add(value.toBool());
    if (value.isInt()) return key_.add(integer) && key_.add(static_cast<uint64_t>(value.toInt()));
    if (value.isDouble()) return key_.add(real) && key_.add(std::bit_cast<uint64_t>(value.toDouble()));
    if (value.isString()) return add_text(value.toStringRef());
    if (value.isDevice()) {
        const c10::Device of = value.toDevice();
        return key_.add(device) && key_.add(static_cast<uint64_t>(of.type()) << 8 | static_cast<uint8_t>(of.index()));
    }
    if (!value.isList()) return false;
    const c10::ArrayRef<c10::IValue> parts = value.toListRef();
    return key_.add(list) && key_.add(parts.size()) && std::all_of(parts.begin(), parts.end(), [&](const c10::IValue &part) { return add(part); });
}

bool CallKey::add_text(const std::string &characters) {
    bool fits = key_.add(text) && key_.add(characters.size());
    for (size_t begin = 0; fits && begin < characters.size(); begin += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, characters.data() + begin, std::min(sizeof word, characters.size() - begin));
        fits = key_.add(word);
    }
    return fits;
}

bool CallKey::add_tensor(const at::Tensor &value) {
    if (!value.defined()) return false;
    const c10::TensorImpl &impl = *value.unsafeGetTensorImpl();
    if (!is_plain(impl)) return false;
    const c10::ScalarType dtype = value.scalar_type();
    const bool wrapped = impl.is_wrapped_number();
    if (wrapped ? dtype != c10::kDouble && dtype != c10::kLong : !is_compiled(dtype)) return false;
    const auto data = reinterpret_cast<uintptr_t>(value.const_data_ptr());
    if (value.numel() == 0 || data == 0 || data % value.element_size() != 0) return false;
    uint64_t order, ones = 0;
    if (!order_of(impl.sizes(), impl.strides(), &order)) return false;
    for (const int64_t size : impl.sizes()) {
        ones = ones << 1 | (size == 1);
        if (!sizes_.add(size)) return false;
    }
    elements_ += value.numel();
    const auto kind = static_cast<uint64_t>(dtype) | static_cast<uint64_t>(impl.dim()) << 8 | ones << 16;
    return key_.add(wrapped ? wrapped_number : tensor) && key_.add(order << 32 | kind) && tensors_.add(&value);
}

}  // namespace framejit
